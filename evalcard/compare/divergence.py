"""How far two distributions over the same few choices are apart, and how such distances are summed up. Pure numbers."""

import math
from bisect import bisect_right
from collections.abc import Sequence

LOWEST_EXPONENT, BINS_PER_DECADE, NUM_BINS = -8, 4, 38
"""Bins of divergences: the first holds all below 10**-8 nats, the last all from 10 nats on, and between them each
decade has four of equal width on a logarithmic axis."""
EDGES = tuple(10 ** (LOWEST_EXPONENT + k / BINS_PER_DECADE) for k in range(NUM_BINS - 1))
"""In nats, ascending; bin k ends below ``EDGES[k]``, and the last has no end."""


def normalised(logprobs: Sequence[float]) -> list[float]:
    """Log-probabilities of the choices given that one of them is taken: log-softmax over finite natural logarithms."""
    top = max(logprobs)
    total = top + math.log(math.fsum(math.exp(one - top) for one in logprobs))
    return [one - total for one in logprobs]


def divergence(p: Sequence[float], q: Sequence[float]) -> float:
    """Kullback-Leibler divergence KL(p || q) = sum p (log p - log q) in nats; both are normalised log-probabilities.

    Never negative: what rounding leaves below 0 is 0.
    """
    return max(0.0, math.fsum(math.exp(a) * (a - b) for a, b in zip(p, q, strict=True)))


def quantile(ascending: Sequence[float], share: float) -> float:
    """Linear between the two nearest values, as numpy and R (type 7) have it; of at least one value."""
    place = share * (len(ascending) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ascending) - 1)
    return ascending[below] + (place - below) * (ascending[above] - ascending[below])


def standard_error(values: Sequence[float]) -> float | None:
    """Of the mean; None below two values."""
    n = len(values)
    if n < 2:
        return None
    mean = math.fsum(values) / n
    return math.sqrt(math.fsum((one - mean) ** 2 for one in values) / (n - 1) / n)


def bins(values: Sequence[float]) -> list[int]:
    """How many divergences, in nats, lie in each of the ``NUM_BINS`` bins."""
    counts = [0] * NUM_BINS
    for one in values:
        counts[bisect_right(EDGES, one)] += 1
    return counts
