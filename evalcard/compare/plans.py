"""Items to come: how the test of recovery is expected to turn out on them. Pure; the standard library only."""

import math
from dataclasses import dataclass, replace

from evalcard.compare.intervals import PairedCounts, flip_widening, normal_quantile, ratio_statistic

ASSUMED_FLIPS = 0.05
"""Share of items that flip between a model and its compressed form where no run has told yet."""
ASSUMED_POWER = 0.8
"""How often what is there shall be shown: in four of five runs, as is usual in planning."""
_CELLS = ("both", "lost", "gained")
_STEP = 1e-6
"""Share of a count by which it is moved to see how fast a statistic changes with it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Items to come."""

    n: int
    score: float
    """The baseline's: stored, or supposed."""
    flip_rate: float = ASSUMED_FLIPS
    """Share of the items that flip, either way, where compression costs nothing."""
    confidence: float | None = 0.95
    """Of the interval that decides; None: the measured value itself is held against a limit."""
    power: float = ASSUMED_POWER

    def __post_init__(self) -> None:
        assert self.n >= 1 and 0 <= self.score <= 1 and 0 <= self.flip_rate <= 1, self
        assert (self.confidence is None or 0.5 < self.confidence < 1) and 0 < self.power < 1, self

    @property
    def quantile(self) -> float:
        """Standard errors beyond a limit at which it is decided."""
        return 0.0 if self.confidence is None else normal_quantile(self.confidence)

    @property
    def score_error(self) -> float:
        """Standard error of one model's score."""
        return standard_error(self.n, self.score)

    def statistic(self, recovery: float, ratio: float) -> tuple[float, float]:
        """z of the hypothesis compressed / baseline = ``ratio`` at this recovery: what to expect, and how it spreads.

        Its unit is the standard error under the hypothesis, as the interval widens it, and it spreads as the items do
        and as that unit does: by the delta method over the items' counts. Both is less than 1 where little flips, or
        nearly all flips are losses.
        """
        counts = expected_counts(self, recovery)
        expected = _statistic(counts, ratio)
        return expected, _spread(counts, ratio) if math.isfinite(expected) else 1.0

    def moments(self, recovery: float, ratio: float) -> tuple[float, float]:
        """Mean of compressed - ratio * baseline at this recovery, and the variance that an average takes it to have:
        with one lost and one gained item more, as compare/evidence.py has it."""
        counts = expected_counts(self, recovery)
        wider = PairedCounts(counts.both, counts.lost + 1, counts.gained + 1, self.n + 2)
        return _moments(counts, ratio)[0], _moments(wider, ratio)[1]

    def resized(self, n: int) -> "Plan":
        """So many of these items."""
        return replace(self, n=n)


@dataclass(frozen=True, slots=True)
class MeanPlan:
    """The plain mean of several independent sets of items to come, whatever their sizes."""

    parts: "tuple[Plan | MeanPlan, ...]"
    """Decided at one confidence, with one power."""

    def __post_init__(self) -> None:
        assert self.parts and len({(part.quantile, part.power) for part in self.parts}) == 1, self

    @property
    def n(self) -> int:
        return sum(part.n for part in self.parts)

    @property
    def score(self) -> float:
        return sum(part.score for part in self.parts) / len(self.parts)

    @property
    def quantile(self) -> float:
        return self.parts[0].quantile

    @property
    def power(self) -> float:
        return self.parts[0].power

    @property
    def score_error(self) -> float:
        return math.hypot(*(part.score_error for part in self.parts)) / len(self.parts)

    def statistic(self, recovery: float, ratio: float) -> tuple[float, float]:
        """As of a plan; all parts have this recovery. It is the statistic that Fieller's interval inverts, whose unit
        is the items' own spread."""
        mean, variance = self.moments(recovery, ratio)
        return mean / math.sqrt(variance), 1.0

    def moments(self, recovery: float, ratio: float) -> tuple[float, float]:
        each = [part.moments(recovery, ratio) for part in self.parts]
        share = 1 / len(each)
        return share * math.fsum(mean for mean, _ in each), share**2 * math.fsum(variance for _, variance in each)

    def resized(self, n: int) -> "MeanPlan":
        """About ``n`` items in all, shared out as these are."""
        return MeanPlan(tuple(part.resized(-(-part.n * n // self.n)) for part in self.parts))


AnyPlan = Plan | MeanPlan


def expected_counts(plan: Plan, recovery: float) -> PairedCounts:
    """Items by what becomes of them on average, at a recovery of at most 1.

    The flips stay as many as without a drop, shifted towards losses, until the drop alone takes more.
    """
    assert 0 <= recovery <= 1, recovery
    drop = plan.score * (1 - recovery)
    gained = min(max((plan.flip_rate - drop) / 2, 0.0), 1 - plan.score, plan.score - drop)
    lost = gained + drop
    return PairedCounts(max(plan.score - lost, 0.0) * plan.n, lost * plan.n, gained * plan.n, plan.n)


def standard_error(n: int, score: float) -> float:
    """Of one model's score, where items are right or wrong."""
    assert n >= 1 and 0 <= score <= 1, (n, score)
    return math.sqrt(score * (1 - score) / n)


def _statistic(counts: PairedCounts, ratio: float) -> float:
    """What the interval holds against the normal quantile."""
    return ratio_statistic(counts, ratio) / flip_widening(counts)


def _spread(counts: PairedCounts, ratio: float) -> float:
    """Standard error of ``_statistic`` over sets of items that are drawn with these shares."""
    found = _statistic(counts, ratio)

    def slope(cell: str) -> float:
        """Downwards, as there may be no more items."""
        count = getattr(counts, cell)
        return (found - _statistic(replace(counts, **{cell: count * (1 - _STEP)}), ratio)) / (_STEP * count)

    slopes = [(getattr(counts, cell) / counts.n, slope(cell)) for cell in _CELLS if getattr(counts, cell) > 0]
    mean = math.fsum(share * one for share, one in slopes)
    return math.sqrt(max(math.fsum(share * one**2 for share, one in slopes) - mean**2, 0.0) * counts.n)


def _moments(counts: PairedCounts, ratio: float) -> tuple[float, float]:
    """Mean of compressed - ratio * baseline over the items, and its variance."""
    n = counts.n
    total = counts.both + counts.gained - ratio * (counts.both + counts.lost)
    squares = counts.both * (1 - ratio) ** 2 + counts.lost * ratio**2 + counts.gained
    return total / n, max(squares - total**2 / n, 0.0) / (n * max(n - 1, 1))
