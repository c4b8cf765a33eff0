"""Stop a run as soon as its answer is known: a test of recovery that stays valid however often one looks.

The estimand is the recovery of *this full set* of N items, not of the population behind it: items come in a random
order without replacement, and once all are answered nothing is left to estimate. With d = compressed - limit *
baseline, recovery reaches the limit where the mean of d over the set is at least 0.

Two gamblers bet on the next d. Under the null hypothesis that the set's mean is 0 the next d has the mean of what is
left, m = -sum(d so far) / (items left), and a capital that is multiplied by 1 + bet * (d - m) is expected to stay as it
is; below 0 it is expected to shrink, if the bet is on d being high. So it exceeds 1 / alpha at any time with a
probability of at most alpha (Ville). The first gambler, who bets on high d, ends in PASS, the second in FAIL. Source:
I. Waudby-Smith and A. Ramdas, Estimating means of bounded random variables by betting, JRSS B 86, 2024.
"""

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal, NamedTuple

from evalcard.compare.intervals import Interval

Decision = Literal["PASS", "FAIL"]
Score = Fraction | float

PRIOR_ITEMS = 30
"""Weight, in items, of what the bets suppose before the first answer."""
_PRIOR_RIGHT, _PRIOR_FLIPS, _PRIOR_DROP = 0.7, 0.03, 0.07
"""Supposed: the baseline's score, the flips without a drop, and how far below the limit a model is that fails."""
_STAKE = 0.95
"""Share of the capital that the worst d may cost, so that one surprise ruins nobody."""
_REBET = 8
"""Items between new bets. Any bet made before the item is valid; a fresher one only wins sooner."""
_GRID = 8
"""Graded scores are counted in cells of 1 / 8: the bets are made on these counts, the capital on the scores."""
_HALVINGS = 60


def seeded_order(n: int, seed: int) -> list[int]:
    """Positions 0 to n - 1 in random order. Sorted by draws, as Python promises these, not ``shuffle``, to stay."""
    source = random.Random(seed)
    draws = [source.random() for _ in range(n)]
    return sorted(range(n), key=draws.__getitem__)


class _Step(NamedTuple):
    """One item and the two bets that were made before it."""

    baseline: float
    compressed: float
    on_high: float
    on_low: float


class SequentialTest:
    """Is the recovery of the full set of ``num_items`` items at least ``limit``? Fed in batches, asked at any time.

    ``limit`` is a fraction of the baseline's score. Each of the two wrong answers comes with a probability of at most
    (1 - confidence) / 2. The items must come in an order that knows nothing of the answers (``seeded_order``), and stay
    in it inside a batch. Where lower scores are better, swap baseline and compressed.
    """

    def __init__(self, num_items: int, limit: Fraction, confidence: float) -> None:
        assert num_items >= 1 and limit >= 0 and 0 < confidence < 1, (num_items, limit, confidence)
        self.num_items, self.limit = num_items, Fraction(limit)
        self._threshold = math.log(2 / (1 - confidence))
        self._edge = float(limit)
        self._steps: list[_Step] = []
        self._baseline, self._compressed = Fraction(0), Fraction(0)
        self._excess = 0.0  # sum of d
        self._high, self._low = _Gambler(self._threshold), _Gambler(self._threshold)
        self._cells = _Cells(self._edge)

    @property
    def num_used(self) -> int:
        """Items seen."""
        return len(self._steps)

    @property
    def decision(self) -> Decision | None:
        """None while neither is shown. It stands from then on, unless arithmetic on what is left proves it wrong."""
        rest = self.num_items - self.num_used
        excess = self._compressed - self.limit * self._baseline
        if excess >= self.limit * rest:
            return "PASS"
        if excess + rest < 0:
            return "FAIL"
        if self._high.won_at == self._low.won_at:
            return None
        return "PASS" if self._high.won_at < self._low.won_at else "FAIL"

    def update(self, baseline: Sequence[Score], compressed: Sequence[Score]) -> Decision | None:
        """Take the next items' scores, each in [0, 1], in the random order; returns the decision."""
        assert len(baseline) == len(compressed), (len(baseline), len(compressed))
        assert self.num_used + len(baseline) <= self.num_items, (self.num_used, len(baseline), self.num_items)
        for before, after in zip(baseline, compressed, strict=True):
            assert 0 <= before <= 1 and 0 <= after <= 1, (before, after)
            self._take(float(before), float(after))
        self._baseline += sum((Fraction(score) for score in baseline), Fraction(0))
        self._compressed += sum((Fraction(score) for score in compressed), Fraction(0))
        # Exact once a batch, so that the errors of a thousand additions do not grow.
        self._excess = float(self._compressed - self.limit * self._baseline)
        return self.decision

    def interval(self) -> Interval | None:
        """Confidence sequence of the full set's recovery, at the same error: PASS where ``low`` reaches the limit.

        Any other ratio is held against the very bets that were made on the limit: with these the capital only falls (or
        rises) as the ratio grows, so the ratios that are not ruled out are an interval. None while no baseline score is
        above 0; exact once the set is complete.
        """
        if self._baseline == 0:
            return None
        seen = float(self._compressed / self._baseline)
        if self.num_used == self.num_items:
            return Interval(seen, seen)
        rest = self.num_items - self.num_used
        least, most = self._compressed / (self._baseline + rest), (self._compressed + rest) / self._baseline
        low = self._search(float(least), float(most), is_low=True)
        high = self._search(float(most), float(least), is_low=False)
        return Interval(min(low, high), max(low, high))

    def _take(self, baseline: float, compressed: float) -> None:
        position = len(self._steps)
        mean = -self._excess / (self.num_items - position)
        if position % _REBET == 0:
            least = self._cells.least_bet(self._threshold, position)
            self._high.plan = _kelly(self._cells.around(mean, 1), mean + self._edge) or least
            self._low.plan = _kelly(self._cells.around(mean, -1), 1 - mean) or least
        step = _Step(baseline, compressed, self._high.plan, self._low.plan)
        self._steps.append(step)
        value = compressed - self._edge * baseline
        self._high.play(step.on_high, value - mean, mean + self._edge, position)
        self._low.play(step.on_low, mean - value, 1 - mean, position)
        self._excess += value
        self._cells.add(baseline, compressed)

    def _search(self, out: float, inside: float, is_low: bool) -> float:
        """The last ratio that is ruled out, from ``out``, which arithmetic alone rules out, towards ``inside``."""
        for _ in range(_HALVINGS):
            middle = (out + inside) / 2
            out, inside = (middle, inside) if self._is_ruled_out(middle, is_low) else (out, middle)
        return out

    def _is_ruled_out(self, ratio: float, is_low: bool) -> bool:
        """Whether the gambler on high (``is_low``: ratios too low fall) or low d got rich against this ratio."""
        gambler, excess = _Gambler(self._threshold), 0.0
        for position, step in enumerate(self._steps):
            mean = -excess / (self.num_items - position)
            value = step.compressed - ratio * step.baseline
            if is_low:
                gambler.play(step.on_high, value - mean, mean + ratio, position)
            else:
                gambler.play(step.on_low, mean - value, 1 - mean, position)
            if gambler.won_at < math.inf:
                return True
            excess += value
        return False


class _Gambler:
    """A capital, as its logarithm, and when it first reached the threshold."""

    __slots__ = ("log_capital", "plan", "threshold", "won_at")

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self.log_capital, self.plan = 0.0, 0.0
        self.won_at = math.inf

    def play(self, bet: float, gain: float, worst: float, position: int) -> None:
        """Multiply the capital by 1 + bet * gain, where ``gain`` is at least -``worst``.

        No play where nothing can be lost: what is left then decides by arithmetic.
        """
        if worst <= 1e-9:
            return
        self.log_capital += math.log1p(min(bet, _STAKE / worst) * gain)
        if self.log_capital >= self.threshold and self.won_at == math.inf:
            self.won_at = position


class _Cells:
    """How often which pair of scores came, smoothed by what is supposed before; only bets are made from it."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        passing = _supposed(max(1.0, limit + _PRIOR_DROP))
        failing = _supposed(max(limit - _PRIOR_DROP, 0.0))
        corners = ((1, 1), (1, 0), (0, 1), (0, 0))
        self.counts: dict[tuple[int, int], tuple[int, float]] = {(b * _GRID, c * _GRID): (0, 0.0) for b, c in corners}
        self.priors = {
            (b * _GRID, c * _GRID): (c - limit * b, PRIOR_ITEMS * high, PRIOR_ITEMS * low)
            for (b, c), high, low in zip(corners, passing, failing, strict=True)
        }

    def add(self, baseline: float, compressed: float) -> None:
        key = round(baseline * _GRID), round(compressed * _GRID)
        count, total = self.counts.get(key, (0, 0.0))
        self.counts[key] = count + 1, total + compressed - self.limit * baseline

    def around(self, mean: float, sign: int) -> list[tuple[float, float]]:
        """(weight, sign * (d - mean)) of each cell, with the prior of the gambler on high (1) or low (-1) d."""
        found = []
        for key, (count, total) in self.counts.items():
            value, high, low = self.priors.get(key, (0.0, 0.0, 0.0))
            prior = high if sign > 0 else low
            weight = count + prior
            found.append((weight, sign * ((total + prior * value) / weight - mean)))
        return found

    def least_bet(self, threshold: float, num_seen: int) -> float:
        """Bet of a gambler who sees nothing to win at the limit: it narrows that side of the interval, far from it."""
        cells = self.around(0.0, 1)
        weight = sum(w for w, _ in cells)
        mean = sum(w * value for w, value in cells) / weight
        variance = sum(w * (value - mean) ** 2 for w, value in cells) / weight
        return math.sqrt(2 * threshold / (variance * weight * math.log(num_seen + 3)))


def _supposed(recovery: float) -> tuple[float, float, float, float]:
    """Shares of items right with both, the baseline, the compressed model, neither, at a recovery."""
    change = _PRIOR_RIGHT * (recovery - 1)
    gained = min(_PRIOR_FLIPS / 2 + max(change, 0.0), 1 - _PRIOR_RIGHT - 0.01)
    lost = min(_PRIOR_FLIPS / 2 + max(-change, 0.0), _PRIOR_RIGHT - 0.01)
    return _PRIOR_RIGHT - lost, lost, gained, 1 - _PRIOR_RIGHT - gained


def _kelly(cells: Sequence[tuple[float, float]], worst: float) -> float:
    """Bet that makes the capital grow fastest if d comes as the cells say: Newton's method, kept between bounds."""
    if worst <= 1e-9 or sum(weight * gain for weight, gain in cells) <= 0:
        return 0.0
    low, high = 0.0, _STAKE / worst
    bet = high / 2
    for _ in range(30):
        slope = curve = 0.0
        for weight, gain in cells:
            part = gain / (1 + bet * gain)
            slope += weight * part
            curve += weight * part * part
        low, high = (bet, high) if slope > 0 else (low, bet)
        better = bet + slope / curve
        better = better if low < better < high else (low + high) / 2
        if abs(better - bet) < 1e-4 * _STAKE / worst:
            return better
        bet = better
    return bet
