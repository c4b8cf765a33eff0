"""Attention of answers, one token each, over keys that nobody else meets: all blocks of a sequence at once.

Such a token is bound by reading its keys and values. Taken wave by wave, every block is a product of its own, and
starting it costs as much as the product. Here the whole blocks of a sequence that lie in memory side by side are one
batched product, and what lies between the two products is done for all sequences together. A block's numbers, and the
order in which blocks are merged, are those of `cpu`, to the last bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from evalcard_engine.arithmetic.products import ROW_TILE
from evalcard_engine.attention.tiles import BLOCK, Segment

STRIP_BYTES = 768 << 10
"""Keys, or values, of one product: they are read into the second cache of a processor core just before it."""

ENTRY_BYTES = 4 << 20
"""Scores of all blocks that are worked on together."""


@dataclass(frozen=True, slots=True)
class Strip:
    """Tile ``tile`` of a chunk meets blocks [first, first + count)."""

    tile: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class StripPlan:
    """The whole blocks of a chunk's tiles, tile after tile; each block of a tile is an *entry*."""

    strips: tuple[Strip, ...]
    waves: tuple[torch.Tensor, ...]
    """int64: of the first tiles that have so many blocks, the entry of their block number 0, 1, ..."""


def split_off(
    segments: Sequence[Segment], numbers: Sequence[Sequence[int]], kv_heads: int
) -> tuple[list[Segment], list[list[Segment]]]:
    """Segments that go wave by wave, and chunks of those that `plan_strips` is for: one tile, some whole blocks before
    its last one, and a first block that is nobody else's. numbers: by span and block, as of a BlockTable."""
    met: dict[int, int] = {}
    for segment in segments:
        block = numbers[segment.span][segment.first_block]
        met[block] = met.get(block, 0) + 1
    alone: list[Segment] = []
    others: list[Segment] = []
    for segment in segments:
        is_alone = met[numbers[segment.span][segment.first_block]] == 1
        is_fit = segment.num_rows == ROW_TILE and segment.num_waves > 1 and is_alone
        (alone if is_fit else others).append(segment)
    return others, _packed(sorted(alone, key=lambda segment: -segment.num_waves), kv_heads)


def _packed(segments: Sequence[Segment], kv_heads: int) -> list[list[Segment]]:
    """Chunks whose entries take about ENTRY_BYTES of scores."""
    most = max(1, ENTRY_BYTES // (kv_heads * ROW_TILE * BLOCK * 4))
    chunks: list[list[Segment]] = []
    room = 0
    for segment in segments:
        needed = segment.num_waves - 1
        if needed > room:
            chunks.append([])
            room = most
        chunks[-1].append(segment)
        room -= needed
    return chunks


def plan_strips(segments: Sequence[Segment], numbers: Sequence[Sequence[int]], block_bytes: int) -> StripPlan:
    """Of segments sorted by falling num_waves. block_bytes: of the keys of a block, all heads."""
    longest = max(1, STRIP_BYTES // block_bytes)
    strips: list[Strip] = []
    starts, counts, entry = [], [], 0
    for tile, segment in enumerate(segments):
        blocks = numbers[segment.span][segment.first_block : segment.last_block]
        starts.append(entry)
        counts.append(len(blocks))
        entry += len(blocks)
        for block in blocks:
            last = strips[-1] if strips else None
            if last is not None and last.tile == tile and last.first + last.count == block and last.count < longest:
                strips[-1] = Strip(tile, last.first, last.count + 1)
            else:
                strips.append(Strip(tile, block, 1))
    first, num = np.asarray(starts), np.asarray(counts)
    waves = tuple(torch.from_numpy(first[num > wave] + wave) for wave in range(max(counts)))
    return StripPlan(tuple(strips), waves)
