"""Several limits at once: how sure each failure is, and which stand when all are seen together. Pure."""

from collections.abc import Callable, Sequence

_LEAST = 1e-15
"""Smaller p-values are not told apart; beyond it 1 - 2p is 1 in floats."""
_HALVINGS = 50


def p_value(fails: Callable[[float], bool], confidence: float) -> float:
    """The smallest (1 - c) / 2 at which the interval at confidence c still fails its limit, found by bisection.

    ``fails(c)`` must hold for every smaller c where it holds, and holds at ``confidence``: the result is then at most
    (1 - confidence) / 2, so that a single limit fails exactly where its interval lies beyond it.
    """
    surely, not_shown = (1 - confidence) / 2, _LEAST
    if fails(1 - 2 * not_shown):
        return min(not_shown, surely)
    for _ in range(_HALVINGS):
        # Halved on a logarithmic scale, as p-values spread over many orders of magnitude.
        middle = (surely * not_shown) ** 0.5
        surely, not_shown = (middle, not_shown) if fails(1 - 2 * middle) else (surely, middle)
        if surely <= not_shown * (1 + 1e-12):
            break
    return surely


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
