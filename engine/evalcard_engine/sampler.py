"""From one row of logits to one token: the largest of logit / T plus noise, among the tokens the filters keep.

With Gumbel noise the arg max is a draw from the softmax (Gumbel 1954; Maddison, Tarlow, Minka 2014), and as the
noise is a pure function of its address, so is the draw of the logits. Every sum here is exact (rows.py).
"""

import math

import torch

from evalcard_engine.noise import GUMBEL_MAX, GUMBEL_MIN, gumbel_noise, noise_key
from evalcard_engine.request import Sampling
from evalcard_engine.rows import WEIGHT_BITS, weights

NUMERICS = "sampler=philox4x32-10/gumbel32"
"""Names the recipe of this module and noise.py."""

# A token further than this behind the best one cannot overtake it even with the largest noise against the
# smallest; the slack covers rounding, so leaving such tokens out never changes a draw.
_HOPELESS = GUMBEL_MAX - GUMBEL_MIN + 0.5


def sample(logits: torch.Tensor, sampling: Sampling, position: int) -> int:
    """The token drawn from finite float32 [vocab] ``logits`` as number ``position`` of an answer, from 0."""
    scaled = logits / sampling.temperature
    kept = keep(scaled, sampling)
    best = scaled.max()
    kept = kept[scaled[kept] >= best - _HOPELESS]
    key = noise_key(sampling.seed, sampling.item_key)
    noisy = scaled[kept] + gumbel_noise(kept, key=key, position=position, repeat=sampling.repeat)
    return int(kept[noisy == noisy.max()][0])


def keep(scaled: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """Ascending int64 ids of the tokens that pass top_k, then top_p, then min_p; always at least one.

    ``scaled`` is float32 [vocab], logits over temperature. Each filter sees the probabilities of what the one
    before left, renormalized; equal ones count in the order of their ids.
    """
    ids = torch.arange(scaled.shape[0], device=scaled.device)
    if 0 < sampling.top_k < scaled.shape[0]:
        ids = _top_k(scaled, sampling.top_k)
    if sampling.top_p >= 1 and sampling.min_p <= 0:
        return ids
    mass = weights(scaled[ids])
    if sampling.top_p < 1:
        chosen = _top_p(mass, scaled[ids], sampling.top_p)
        ids, mass = ids[chosen], mass[chosen]
    return ids[mass >= math.ceil(sampling.min_p * (1 << WEIGHT_BITS))]


def _top_k(scaled: torch.Tensor, count: int) -> torch.Tensor:
    """Ids of the ``count`` largest values, ascending; of equal ones at the edge the lowest ids."""
    edge = torch.topk(scaled, count).values[-1]
    above = scaled > edge
    at_edge = torch.nonzero(scaled == edge).flatten()[: count - int(above.sum())]
    return torch.cat((torch.nonzero(above).flatten(), at_edge)).sort().values


def _top_p(mass: torch.Tensor, scaled: torch.Tensor, share: float) -> torch.Tensor:
    """Ascending places of the smallest set of largest values whose mass reaches ``share`` of the whole."""
    total = int(mass.sum())
    # Values below this floor together weigh less than what may be left out, so the set lies above it and
    # only a few values need sorting.
    floor = int((1 - share) * total / mass.shape[0] * 0.999)
    places = torch.nonzero(mass >= floor).flatten()
    places = places[torch.sort(scaled[places], descending=True, stable=True).indices]
    reached_before = mass[places].cumsum(dim=0) - mass[places]
    return places[reached_before < max(1, math.ceil(share * total))].sort().values
