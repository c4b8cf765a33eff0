"""Attention of answers, one token each, over keys that nobody else meets: all blocks of all of them at once.

Such a token is bound by reading its keys and values. Taken wave by wave, every block is a product of its own, and
starting it costs as much as the product. Here blocks that lie in memory side by side are met in one go, whosever they
are, and what lies between is done for all sequences together. A block's numbers, and the order in which blocks are
merged, are those of the waves, to the last bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from evalcard_engine.arithmetic.products import ROW_TILE
from evalcard_engine.attention.tiles import BLOCK, Segment
from evalcard_engine.batch import Span

ENTRY_BYTES = 4 << 20
"""Scores of all blocks that are worked on together."""


@dataclass(frozen=True, slots=True)
class Strip:
    """Blocks [first, first + count), side by side in memory; each meets one tile and is one *entry*."""

    first: int
    count: int


@dataclass(frozen=True, slots=True)
class StripPlan:
    """The blocks of a chunk's tiles in the order of memory."""

    strips: tuple[Strip, ...]
    tiles: torch.Tensor
    """int64 [entries]: the tile of the chunk that meets the entry's block."""
    ends: torch.Tensor
    """int64 [entries]: how many of the block's keys its tile may see."""
    waves: tuple[torch.Tensor, ...]
    """int64: of the first tiles that have so many blocks, the entry of their block number 0, 1, ..."""


def split_off(
    segments: Sequence[Segment], spans: Sequence[Span], numbers: Sequence[Sequence[int]], kv_heads: int
) -> tuple[list[Segment], list[list[Segment]]]:
    """Segments that go wave by wave, and chunks of those that `plan_strips` is for: one token in one tile, and a first
    block that is nobody else's. numbers: by span and block, as of a BlockTable."""
    met: dict[int, int] = {}
    for segment in segments:
        block = numbers[segment.span][segment.first_block]
        met[block] = met.get(block, 0) + 1
    alone: list[Segment] = []
    others: list[Segment] = []
    for segment in segments:
        is_alone = met[numbers[segment.span][segment.first_block]] == 1
        is_fit = segment.num_rows == ROW_TILE and spans[segment.span].query_len == 1 and is_alone
        (alone if is_fit else others).append(segment)
    return others, _packed(sorted(alone, key=lambda segment: -segment.num_waves), kv_heads)


def _packed(segments: Sequence[Segment], kv_heads: int) -> list[list[Segment]]:
    """Chunks whose entries take about ENTRY_BYTES of scores."""
    most = max(1, ENTRY_BYTES // (kv_heads * ROW_TILE * BLOCK * 4))
    chunks: list[list[Segment]] = []
    room = 0
    for segment in segments:
        needed = segment.num_waves
        if needed > room:
            chunks.append([])
            room = most
        chunks[-1].append(segment)
        room -= needed
    return chunks


def plan_strips(segments: Sequence[Segment], spans: Sequence[Span], numbers: Sequence[Sequence[int]]) -> StripPlan:
    """Of segments sorted by falling num_waves."""
    found: list[tuple[int, int, int, int]] = []
    for tile, segment in enumerate(segments):
        end = spans[segment.span].end_len
        for wave, block in enumerate(numbers[segment.span][segment.first_block : segment.last_block + 1]):
            found.append((block, tile, wave, min(BLOCK, end - (segment.first_block + wave) * BLOCK)))
    found.sort()
    strips: list[Strip] = []
    for block, *_ in found:
        if strips and strips[-1].first + strips[-1].count == block:
            strips[-1] = Strip(strips[-1].first, strips[-1].count + 1)
        else:
            strips.append(Strip(block, 1))
    _, tiles, waves, ends = (np.asarray(each) for each in zip(*found, strict=True))
    order = np.lexsort((tiles, waves))
    counts = np.bincount(waves)
    by_wave = np.split(order, np.cumsum(counts)[:-1])
    return StripPlan(
        tuple(strips), torch.from_numpy(tiles), torch.from_numpy(ends), tuple(torch.from_numpy(one) for one in by_wave)
    )
