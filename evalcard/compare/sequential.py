"""Stop a run as soon as its answer is known: a test of recovery that stays valid however often one looks.

The estimand is the recovery of *this full set* of N items, not of the population behind it: items come in a random
order without replacement, and once all are answered nothing is left to estimate. With d = compressed - limit *
baseline, recovery reaches the limit where the mean of d over the set is at least 0.

Two gamblers bet on the next d. Under the null hypothesis that the set's mean is 0 the next d has the mean of what is
left, m = -sum(d so far) / (items left), and a capital that is multiplied by 1 + bet * (d - m) is expected to stay as it
is; below 0 it is expected to shrink, if the bet is on d being high. So it exceeds 1 / alpha at any time with a
probability of at most alpha (Ville). The first gambler, who bets on high d, ends in PASS, the second in FAIL. Source:
I. Waudby-Smith and A. Ramdas, Estimating means of bounded random variables by betting, JRSS B 86, 2024.

Several tests of one model make one decision. It is PASS where every test passes: that errs only if the test of a row
below its limit passes, so each keeps its alpha (intersection-union). It is FAIL where any test fails, so each of them
gets alpha / tests for that (Bonferroni).
"""

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal, NamedTuple

from evalcard.compare.betting import Cells, Gambler, kelly
from evalcard.compare.intervals import Interval

Decision = Literal["PASS", "FAIL"]
Score = Fraction | float

_REBET = 8
"""Items between new bets. Any bet made before the item is valid; a fresher one only wins sooner."""
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
    alpha = (1 - confidence) / 2; where this is one of ``num_tests`` of which any FAIL decides, a wrong FAIL with one of
    at most alpha / num_tests, so that all of them together keep alpha. The items must come in an order that knows
    nothing of the answers (``seeded_order``), and stay in it inside a batch. Where lower scores are better, swap
    baseline and compressed.
    """

    def __init__(self, num_items: int, limit: Fraction, confidence: float, num_tests: int = 1) -> None:
        assert num_items >= 1 and limit >= 0 and 0 < confidence < 1, (num_items, limit, confidence)
        assert num_tests >= 1, num_tests
        self.num_items, self.limit = num_items, Fraction(limit)
        self._to_pass = math.log(2 / (1 - confidence))
        self._to_fail = self._to_pass + math.log(num_tests)
        self._edge = float(limit)
        self._steps: list[_Step] = []
        self._baseline, self._compressed = Fraction(0), Fraction(0)
        self._excess = 0.0  # sum of d
        self._high, self._low = Gambler(self._to_pass), Gambler(self._to_fail)
        self._cells = Cells(self._edge)

    @property
    def num_used(self) -> int:
        """Items seen."""
        return len(self._steps)

    @property
    def recovery(self) -> Fraction | None:
        """Of the items seen; None while no baseline score is above 0."""
        return self._compressed / self._baseline if self._baseline else None

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
        """Confidence sequence of the full set's recovery, each end at the error of its decision: PASS where ``low``
        reaches the limit, FAIL where ``high`` is below it.

        Any other ratio is held against the very bets that were made on the limit: with these the capital only falls (or
        rises) as the ratio grows, so the ratios that are not ruled out are an interval. None while no baseline score is
        above 0; exact once the set is complete.
        """
        if self.recovery is None:
            return None
        if self.num_used == self.num_items:
            return Interval(float(self.recovery), float(self.recovery))
        rest = self.num_items - self.num_used
        least, most = self._compressed / (self._baseline + rest), (self._compressed + rest) / self._baseline
        low = self._search(float(least), float(most), is_low=True)
        high = self._search(float(most), float(least), is_low=False)
        return Interval(min(low, high), max(low, high))

    def _take(self, baseline: float, compressed: float) -> None:
        position = len(self._steps)
        mean = -self._excess / (self.num_items - position)
        if position % _REBET == 0:
            for gambler, sign, worst in ((self._high, 1, mean + self._edge), (self._low, -1, 1 - mean)):
                bet = kelly(self._cells.around(mean, sign), worst)
                gambler.plan = bet or self._cells.least_bet(gambler.threshold, position)
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
        gambler, excess = Gambler(self._to_pass if is_low else self._to_fail), 0.0
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
