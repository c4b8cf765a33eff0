"""Several limits at once: how sure each failure is, for compare/holm.py to say which stand. Pure."""

from collections.abc import Callable

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
