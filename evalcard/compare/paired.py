"""Paired by sample: which verdicts flipped between two models, and whether chance alone would do that."""

from collections.abc import Sequence
from dataclasses import dataclass

from evalcard.compare.recovery import Values

_BINARY = frozenset((0, 1))


@dataclass(frozen=True, slots=True)
class Flips:
    """Samples whose score changed between 0 and 1."""

    lost: int
    """The baseline is right, the compressed model is not."""
    gained: int


def count_flips(baseline: Sequence[Values], compressed: Sequence[Values], higher_is_better: bool) -> Flips | None:
    """Flips over the samples both models have, task by task; None where any score is neither 0 nor 1."""
    down = up = 0
    for ours, theirs in zip(baseline, compressed, strict=True):
        for address in ours.keys() & theirs.keys():
            before, after = ours[address], theirs[address]
            if before not in _BINARY or after not in _BINARY:
                return None
            down += before > after
            up += before < after
    return Flips(down, up) if higher_is_better else Flips(up, down)


def mcnemar_p(lost: int, gained: int) -> float:
    """Two-sided exact McNemar test: the flips as coin tosses. 1.0 without flips (Q. McNemar, 1947)."""
    if lost + gained == 0:
        return 1.0
    from scipy.stats import binomtest

    return float(binomtest(lost, lost + gained, 0.5).pvalue)


def has_repeats(tasks: Sequence[Values]) -> bool:
    """Whether any item was answered more than once; its samples are then not independent."""
    return any(len({item for item, _ in values}) < len(values) for values in tasks)
