"""How a step's attention is cut into products: decided once from the batch, used by every layer.

A sequence's query rows (token after token, the heads that share a key head side by side) are cut into tiles of eight.
A tile meets the key blocks of 256 absolute positions that any of its rows may see, one after the other: its *waves*.
Tiles are sorted by their number of waves and packed into chunks small enough for the cache, so that a wave works on
the first rows of its chunk. Tiles that meet the same page share one product, and rows that sit near the beginning of
their last block meet no more of it than they may see, in steps of the widths that `exact_widths` allows. None of this
can change a bit of a row: a row always meets the same blocks in the same order, and what it must not see weighs exactly
zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from evalcard_engine.arithmetic.products import ROW_TILE
from evalcard_engine.attention.reach import Reach, first_seen
from evalcard_engine.attention.strips import StripPlan, plan_strips, split_off
from evalcard_engine.attention.tiles import BLOCK, Segment, pack, row_indices, segment_rows, segments_of
from evalcard_engine.batch import Span

MASKED = -1e30
"""Added to a score that must not count: it drowns the score, and its weight beside any real one is exactly zero."""

LEAST_PART_ROWS = 48
"""Rows that meet less of a block than others by themselves."""


@dataclass(frozen=True, slots=True)
class Product:
    """Rows [start, stop) of a part meet the key block ``block``."""

    start: int
    stop: int
    block: int
    mask: torch.Tensor | None
    """float32 [stop - start, width] to add to their scores: MASKED where a row must not look."""


@dataclass(frozen=True, slots=True)
class Part:
    """Rows [start, stop) of a chunk that meet the first ``width`` keys of a block each."""

    start: int
    stop: int
    width: int
    products: tuple[Product, ...]


@dataclass(frozen=True, slots=True)
class Wave:
    """One block for each of a chunk's first rows, the widest part first."""

    parts: tuple[Part, ...]

    @property
    def num_rows(self) -> int:
        return self.parts[-1].stop


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows [start, stop) of the step's padded query rows, and their waves in order, or their strips."""

    start: int
    stop: int
    waves: tuple[Wave, ...]
    strips: StripPlan | None = None
    strip_mask: torch.Tensor | None = None
    """float32 [entries, 1, ROW_TILE, BLOCK] to add to their scores: MASKED beyond a sequence's end."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """All layers of one reach share this. Indices are int64.

    query_rows [kv_heads * num_rows]: for each padded row of each key head, its row in queries [num_tokens * heads].
    output_rows [num_tokens * heads]: for each query row, where its padded row is.
    """

    num_rows: int
    query_rows: torch.Tensor
    output_rows: torch.Tensor
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class BlockTable:
    """The key blocks of a step. Pages of 256 are blocks as they are; else blocks are gathered from smaller pages.

    numbers[s][j] is the block that holds positions [256 j, 256 j + 256) of span s. pages: int64
    [num_blocks * pages per block] to gather, or None; lengths: int64 [num_blocks], valid slots of a gathered block.
    """

    numbers: tuple[tuple[int, ...], ...]
    pages: torch.Tensor | None
    lengths: torch.Tensor | None


def block_table(spans: Sequence[Span], page_size: int, gather: bool) -> BlockTable:
    """Number the key blocks of a step; ``gather`` copies even whole pages, so that they can be cleaned."""
    assert BLOCK % page_size == 0, (BLOCK, page_size)
    if page_size == BLOCK and not gather:
        return BlockTable(tuple(span.pages for span in spans), None, None)
    per_block = BLOCK // page_size
    numbers: list[tuple[int, ...]] = []
    pages: list[int] = []
    lengths: list[int] = []
    for span in spans:
        first, num_blocks = len(lengths), -(-span.end_len // BLOCK)
        numbers.append(tuple(range(first, first + num_blocks)))
        used = -(-span.end_len // page_size)
        padding = num_blocks * per_block - used
        pages += [*span.pages[:used], *[span.pages[0]] * padding]
        lengths += [min(BLOCK, span.end_len - BLOCK * j) for j in range(num_blocks)]
    return BlockTable(tuple(numbers), torch.tensor(pages), torch.tensor(lengths))


def geometry(
    spans: Sequence[Span],
    table: BlockTable,
    heads: int,
    kv_heads: int,
    reach: Reach,
    widths: Sequence[int] = (BLOCK,),
    are_strips: bool = False,
) -> Geometry:
    """Cut the spans' query rows into tiles, chunks and waves, for layers whose tokens see so far back.

    ``widths``, ascending and ending in BLOCK: how many keys a product may have without changing what it gives.
    ``are_strips``: whether blocks lie in memory as they are numbered, so that strips can be made of them.
    """
    group = heads // kv_heads
    segments = sorted(segments_of(spans, group, reach, widths), key=lambda s: (-s.num_waves, -s.last_width))
    stripped: list[list[Segment]] = []
    if are_strips and reach is None:
        segments, stripped = split_off(segments, spans, table.numbers, kv_heads)
    chunks: list[Chunk] = []
    rows: tuple[list[np.ndarray], ...] = ([], [], [])
    for some in pack(segments):
        start, positions = _add_rows(rows, some, spans, group)
        waves = tuple(_wave(some, wave, table, positions, reach) for wave in range(some[0].num_waves))
        chunks.append(Chunk(start, start + len(positions), waves))
    for some in stripped:
        start, positions = _add_rows(rows, some, spans, group)
        strips = plan_strips(some, spans, table.numbers)
        hidden = torch.arange(BLOCK) >= strips.ends[:, None, None, None]
        mask = torch.zeros(hidden.shape).masked_fill_(hidden, MASKED).expand(-1, -1, ROW_TILE, -1)
        chunks.append(Chunk(start, start + len(positions), (), strips, mask))
    tokens, row_heads, _ = (np.concatenate(each) for each in rows)
    query_rows, output_rows = row_indices(tokens, row_heads, heads, kv_heads)
    return Geometry(len(tokens), query_rows, output_rows, tuple(chunks))


def _add_rows(
    rows: tuple[list[np.ndarray], ...], segments: Sequence[Segment], spans: Sequence[Span], group: int
) -> tuple[int, np.ndarray]:
    """Append the segments' padded rows (tokens, heads, positions); where they begin, and their positions."""
    start = sum(map(len, rows[0]))
    new = [
        np.concatenate(each) for each in zip(*(segment_rows(s, spans[s.span], group) for s in segments), strict=True)
    ]
    for known, part in zip(rows, new, strict=True):
        known.append(part)
    return start, new[2]


def _wave(segments: Sequence[Segment], wave: int, table: BlockTable, positions: np.ndarray, reach: Reach) -> Wave:
    parts, start = [], 0
    active = [segment for segment in segments if segment.num_waves > wave]
    for width, some in _by_width(active, wave):
        places: list[tuple[int, int, int]] = []
        starts, count = [], 0
        for segment in some:
            block = segment.first_block + wave
            _append_place(places, count, count + segment.num_rows, table.numbers[segment.span][block])
            starts.append(np.full(segment.num_rows, block * BLOCK))
            count += segment.num_rows
        hidden = _hidden(np.concatenate(starts), positions[start : start + count], reach, width)
        products = [Product(low, high, block, _mask(hidden[low:high])) for low, high, block in places]
        parts.append(Part(start, start + count, width, tuple(products)))
        start += count
    return Wave(tuple(parts))


def _by_width(active: Sequence[Segment], wave: int) -> list[tuple[int, list[Segment]]]:
    """Runs of segments by how many keys of the wave's block they meet, the widest first; a run of few rows joins the
    one before it, as starting its products would cost more than they save."""
    runs: list[tuple[int, list[Segment]]] = []
    for segment in active:
        width = segment.last_width if segment.num_waves == wave + 1 else BLOCK
        if runs and runs[-1][0] == width:
            runs[-1][1].append(segment)
        else:
            runs.append((width, [segment]))
    joined: list[tuple[int, list[Segment]]] = []
    for width, some in runs:
        if joined and sum(segment.num_rows for segment in some) < LEAST_PART_ROWS:
            joined[-1][1].extend(some)
        else:
            joined.append((width, some))
    return joined


def _append_place(places: list[tuple[int, int, int]], start: int, stop: int, block: int) -> None:
    """Join rows [start, stop) to the last ones where they meet the same block."""
    if places and places[-1][2] == block:
        start = places.pop()[0]
    places.append((start, stop, block))


def _hidden(block_starts: np.ndarray, positions: np.ndarray, reach: Reach, width: int) -> np.ndarray:
    """bool [rows, width]: which keys of its block a row must not look at."""
    # Distances to the block's first key: key j is hidden from a row that sits less than j keys further on.
    column = np.arange(width)
    hidden = column > (positions - block_starts)[:, None]
    if reach is not None:
        hidden |= column < (first_seen(positions, reach) - block_starts)[:, None]
    return hidden


def _mask(hidden: np.ndarray) -> torch.Tensor | None:
    """What is added to scores of which some are hidden; None where none is."""
    if not hidden.any():
        return None
    return torch.zeros(hidden.shape).masked_fill_(torch.from_numpy(hidden), MASKED)
