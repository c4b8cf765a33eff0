"""Several tests at once: which of them stand when all are seen together. Pure; no import."""

from collections.abc import Sequence


def adjust(p_values: Sequence[float]) -> list[float]:
    """S. Holm's step-down adjustment (Scandinavian Journal of Statistics 6, 1979), valid however they depend.

    A hypothesis is rejected where its adjusted p-value is at most alpha; one wrong rejection among all of them then
    comes with a probability of at most alpha.
    """
    adjusted, worst = [0.0] * len(p_values), 0.0
    for step, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        worst = max(worst, (len(p_values) - step) * p_values[place])
        adjusted[place] = min(worst, 1.0)
    return adjusted
