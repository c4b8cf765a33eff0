"""How the sequential test bets: a gambler's capital, what the items so far promise, and how much to stake on it.

Which bet is made is a matter of speed alone: any bet made before the item is seen keeps the test valid
(compare/sequential.py).
"""

import math
from collections.abc import Sequence

PRIOR_ITEMS = 30
"""Weight, in items, of what the bets suppose before the first answer."""
_PRIOR_RIGHT, _PRIOR_FLIPS, _PRIOR_DROP = 0.7, 0.03, 0.07
"""Supposed: the baseline's score, the flips without a drop, and how far below the limit a model is that fails."""
STAKE = 0.95
"""Share of the capital that the worst d may cost, so that one surprise ruins nobody."""
GRID = 8
"""Graded scores are counted in cells of 1 / 8: the bets are made on these counts, the capital on the scores."""


class Gambler:
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
        self.log_capital += math.log1p(min(bet, STAKE / worst) * gain)
        if self.log_capital >= self.threshold and self.won_at == math.inf:
            self.won_at = position


class Cells:
    """How often which pair of scores came, smoothed by what is supposed before; only bets are made from it."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        passing = _supposed(max(1.0, limit + _PRIOR_DROP))
        failing = _supposed(max(limit - _PRIOR_DROP, 0.0))
        corners = ((1, 1), (1, 0), (0, 1), (0, 0))
        self.counts: dict[tuple[int, int], tuple[int, float]] = {(b * GRID, c * GRID): (0, 0.0) for b, c in corners}
        self.priors = {
            (b * GRID, c * GRID): (c - limit * b, PRIOR_ITEMS * high, PRIOR_ITEMS * low)
            for (b, c), high, low in zip(corners, passing, failing, strict=True)
        }

    def add(self, baseline: float, compressed: float) -> None:
        key = round(baseline * GRID), round(compressed * GRID)
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


def kelly(cells: Sequence[tuple[float, float]], worst: float) -> float:
    """Bet that makes the capital grow fastest if d comes as the cells say: Newton's method, kept between bounds."""
    if worst <= 1e-9 or sum(weight * gain for weight, gain in cells) <= 0:
        return 0.0
    low, high = 0.0, STAKE / worst
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
        if abs(better - bet) < 1e-4 * STAKE / worst:
            return better
        bet = better
    return bet
