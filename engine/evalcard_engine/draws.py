"""Draws of many rows at a time on a GPU: the tokens that sampler.sample names, in shapes that no number decides.

`sample` leaves tokens out as it goes, and asks the device each time how many are left. Here all tokens of a row stay in
their places under a mask, so nothing is asked until the tokens are chosen.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from evalcard_engine.noise import gumbel_rows, noise_key
from evalcard_engine.request import Sampling
from evalcard_engine.rows import WEIGHT_BITS, chunks, weights
from evalcard_engine.transfer import send


class Draw(NamedTuple):
    """Token number ``position`` of an answer, from 0."""

    sampling: Sampling
    position: int


def draw(logits: torch.Tensor, rows: torch.Tensor, draws: Sequence[Draw]) -> torch.Tensor:
    """int64 [draws]: the token of each draw from its row, int64 [draws] ``rows`` of float32 [..., vocab] ``logits``.

    Rows that are not finite give any number.
    """
    groups: dict[tuple[float, int, float, float], list[int]] = {}
    for place, (how, _) in enumerate(draws):
        groups.setdefault((how.temperature, how.top_k, how.top_p, how.min_p), []).append(place)
    members = [place for places in groups.values() for place in places]
    addresses = _addresses([draws[place] for place in members])
    order, *words = send([np.asarray(members, np.int64), *addresses], logits.device)
    rows = rows[order]
    found, start = [], 0
    for places in groups.values():
        stop = start + len(places)
        for part in chunks(logits, torch.arange(start, stop, device=logits.device)):
            found.append(_draw(logits[rows[part]], draws[places[0]].sampling, [word[part] for word in words]))
        start = stop
    return torch.empty_like(rows).index_copy_(0, order, torch.cat(found))


def _addresses(draws: Sequence[Draw]) -> list[np.ndarray]:
    """The noise's address of each: the low and the high half of its key, its position and its repeat."""
    keys = [noise_key(how.seed, how.item_key) for how, _ in draws]
    columns = (
        [key & 0xFFFFFFFF for key in keys],
        [key >> 32 for key in keys],
        [position & 0xFFFFFFFF for _, position in draws],
        [how.repeat & 0xFFFFFFFF for how, _ in draws],
    )
    return [np.asarray(column, np.int64) for column in columns]


def _draw(logits: torch.Tensor, how: Sampling, address: list[torch.Tensor]) -> torch.Tensor:
    """Rows with filters and a temperature in common."""
    # By a tensor: a GPU multiplies by the reciprocal of a plain number, which rounds twice.
    scaled = logits / torch.full((1, 1), how.temperature, device=logits.device)
    noise = gumbel_rows(logits.shape[-1], *address)
    noisy = torch.where(keep_mask(scaled, how), scaled + noise, -torch.inf)
    ids = torch.arange(logits.shape[-1], device=logits.device)
    return torch.where(noisy == noisy.amax(dim=-1, keepdim=True), ids, logits.shape[-1]).amin(dim=-1)


def keep_mask(scaled: torch.Tensor, how: Sampling) -> torch.Tensor:
    """bool of the shape of ``scaled``, float32 [rows, vocab]: the tokens that sampler.keep names."""
    kept = torch.ones_like(scaled, dtype=torch.bool)
    if 0 < how.top_k < scaled.shape[-1]:
        edge = torch.topk(scaled, how.top_k, dim=-1).values[:, -1:]
        above, at_edge = scaled > edge, scaled == edge
        kept = above | at_edge & (at_edge.cumsum(dim=-1) <= how.top_k - above.sum(dim=-1, keepdim=True))
    if how.top_p >= 1 and how.min_p <= 0:
        return kept
    # The greatest is always kept, so masses are the same with the others in their places.
    mass = torch.where(kept, weights(scaled), 0)
    if how.top_p < 1:
        chosen = _top_p(mass, torch.where(kept, scaled, -torch.inf), how.top_p)
        kept, mass = kept & chosen, torch.where(chosen, mass, 0)
    return kept & (mass >= math.ceil(how.min_p * (1 << WEIGHT_BITS)))


def _top_p(mass: torch.Tensor, scaled: torch.Tensor, share: float) -> torch.Tensor:
    """The smallest set of largest values whose mass reaches ``share`` of the whole; ties in the order of ids."""
    order = torch.sort(scaled, dim=-1, descending=True, stable=True).indices
    sorted_mass = mass.gather(-1, order)
    reached_before = sorted_mass.cumsum(dim=-1) - sorted_mass
    wanted = (mass.sum(dim=-1, keepdim=True).double() * share).ceil().long().clamp_min(1)
    return torch.zeros_like(mass, dtype=torch.bool).scatter_(-1, order, reached_before < wanted)
