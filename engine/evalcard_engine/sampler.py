"""From one row of logits to one token: the largest of logit / T plus noise, among the tokens the filters keep.

With Gumbel noise the arg max is a draw from the softmax (Gumbel 1954; Maddison, Tarlow, Minka 2014), and as the
noise is a pure function of its address, so is the draw of the logits. Every sum here is exact (rows.py).
"""

import math
from collections.abc import Sequence

import torch

from evalcard_engine.draws import Draw
from evalcard_engine.native import sampling as native
from evalcard_engine.noise import GUMBEL_MAX, GUMBEL_MIN, gumbel_noises, noise_key
from evalcard_engine.request import Sampling
from evalcard_engine.rows import WEIGHT_BITS, exponentials, in_units

NUMERICS = "sampler=philox4x32-10/gumbel32"
"""Names the recipe of this module and noise.py."""

# A token further than this behind the best one cannot overtake it even with the largest noise against the
# smallest; the slack covers rounding, so leaving such tokens out never changes a draw.
_HOPELESS = GUMBEL_MAX - GUMBEL_MIN + 0.5
_TOKENS_AT_ONCE = 8192
"""Whose noise is made together: enough that the calls cost little, few enough for the caches."""


def sample(logits: torch.Tensor, sampling: Sampling, position: int) -> int:
    """The token drawn from finite float32 [vocab] ``logits`` as number ``position`` of an answer, from 0."""
    return sample_rows(logits[None], [0], [Draw(sampling, position)])[0]


def sample_rows(logits: torch.Tensor, rows: Sequence[int], draws: Sequence[Draw]) -> list[int]:
    """The token of each draw from its row of float32 [..., vocab] ``logits``; those rows are finite.

    Rows are filtered one by one, as they keep different numbers of tokens; noise costs by the call, so it is made for
    many rows at one go.
    """
    drawn: list[int] = []
    room = logits.new_empty(2, logits.shape[-1])
    waiting: list[tuple[Draw, torch.Tensor, torch.Tensor]] = []
    num_tokens = 0
    for row, draw in zip(rows, draws, strict=True):
        waiting.append((draw, *_candidates(logits[row], draw.sampling, room)))
        num_tokens += len(waiting[-1][1])
        if num_tokens >= _TOKENS_AT_ONCE:
            drawn += _noisiest(waiting)
            waiting, num_tokens = [], 0
    return drawn + _noisiest(waiting) if waiting else drawn


def _noisiest(found: Sequence[tuple[Draw, torch.Tensor, torch.Tensor]]) -> list[int]:
    """Of each draw's candidates, (ids, logits over temperature), the one that is largest with its noise."""
    sampling = [draw.sampling for draw, _, _ in found]
    noise = gumbel_noises(
        [ids for _, ids, _ in found],
        keys=[noise_key(how.seed, how.item_key) for how in sampling],
        positions=[draw.position for draw, _, _ in found],
        repeats=[how.repeat for how in sampling],
    )
    noisy = (torch.cat([scaled for _, _, scaled in found]) + noise).split([len(ids) for _, ids, _ in found])
    return [int(ids[(one == one.max()).nonzero()[0]]) for (_, ids, _), one in zip(found, noisy, strict=True)]


def _candidates(logits: torch.Tensor, sampling: Sampling, room: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Ascending ids of the tokens that pass the filters and that noise can bring to the top, and their logits over
    temperature. room: float32 [2, vocab] to work in, the same for all rows, so that it stays near the processor."""
    scaled = torch.div(logits, sampling.temperature, out=room[0])
    least = float(scaled.max() - _HOPELESS)
    if _keeps_all(sampling, scaled.shape[0]):
        ids = torch.nonzero(scaled >= least).flatten()
    else:
        ids = keep(scaled, sampling, least, room[1])
    return ids, scaled[ids]


def _keeps_all(sampling: Sampling, vocab: int) -> bool:
    return not 0 < sampling.top_k < vocab and sampling.top_p >= 1 and sampling.min_p <= 0


def keep(
    scaled: torch.Tensor, sampling: Sampling, least: float = -math.inf, room: torch.Tensor | None = None
) -> torch.Tensor:
    """Ascending int64 ids of the tokens that pass top_k, then top_p, then min_p; always at least one. Of them, those of
    values below ``least`` are left out.

    ``scaled`` is float32 [vocab], logits over temperature. Each filter sees the probabilities of what the one
    before left, renormalized; equal ones count in the order of their ids. room: [vocab] to work in, if any.
    """
    ids: torch.Tensor | None = None  # of all tokens, as long as none is left out
    if 0 < sampling.top_k < scaled.shape[0]:
        ids = _top_k(scaled, sampling.top_k)
        scaled = scaled[ids]
    likely = _likely(scaled, sampling, least, None if room is None else room[: scaled.shape[0]])
    return likely if ids is None else ids[likely]


def _likely(scaled: torch.Tensor, sampling: Sampling, least: float, room: torch.Tensor | None) -> torch.Tensor:
    """Ascending places of what passes top_p and min_p and has a value of at least ``least``."""
    if sampling.top_p >= 1 and sampling.min_p <= 0:
        return torch.nonzero(scaled >= least).flatten()
    powers, least_mass = exponentials(scaled, room), math.ceil(sampling.min_p * (1 << WEIGHT_BITS))
    if scaled.device.type == "cpu" and native.serves():
        return native.likely_places(
            scaled.contiguous(), powers, WEIGHT_BITS, top=float(scaled.max()), share=min(1.0, sampling.top_p),
            least_mass=least_mass, least_value=least,
        )  # fmt: skip
    mass = in_units(powers)
    passed = (mass >= least_mass) & (scaled >= least)
    if sampling.top_p >= 1:
        return torch.nonzero(passed).flatten()
    chosen = _top_p(mass, scaled, sampling.top_p)
    return chosen[passed[chosen]]


def _top_k(scaled: torch.Tensor, count: int) -> torch.Tensor:
    """Ids of the ``count`` largest values, ascending; of equal ones at the edge the lowest ids."""
    edge = torch.topk(scaled, count).values[-1]
    ids = torch.nonzero(scaled >= edge).flatten()
    surplus = len(ids) - count
    if not surplus:
        return ids
    left_out = torch.nonzero(scaled[ids] == edge).flatten()[-surplus:]
    kept = torch.ones_like(ids, dtype=torch.bool)
    kept[left_out] = False
    return ids[kept]


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
