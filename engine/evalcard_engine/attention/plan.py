"""How a step's attention is cut into products: decided once from the batch, used by every layer.

A sequence's query rows (token after token, the heads that share a key head side by side) are cut into tiles of eight.
A tile meets the key blocks of 256 absolute positions that any of its rows may see, one after the other: its *waves*.
Tiles are sorted by their number of waves and packed into chunks small enough for the cache, so that a wave works on
the first rows of its chunk. Tiles that meet the same page share one product. None of this can change a bit of a row:
a row always meets the same blocks in the same order, and what it must not see weighs exactly zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from evalcard_engine.attention.reach import Reach, first_seen
from evalcard_engine.attention.tiles import BLOCK, Segment, pack, row_indices, segment_rows, segments_of
from evalcard_engine.batch import Span

MASKED = -1e30
"""Added to a score that must not count: it drowns the score, and its weight beside any real one is exactly zero."""


@dataclass(frozen=True, slots=True)
class Product:
    """Rows [start, stop) of a chunk meet the key block ``block``."""

    start: int
    stop: int
    block: int


@dataclass(frozen=True, slots=True)
class Wave:
    """One block for each of a chunk's first ``num_rows`` rows."""

    num_rows: int
    products: tuple[Product, ...]
    mask_start: int
    mask: torch.Tensor | None
    """float32 [masked rows, BLOCK] to add: MASKED where a row must not look, else 0; for rows from mask_start on."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows [start, stop) of the step's padded query rows, and their waves in order."""

    start: int
    stop: int
    waves: tuple[Wave, ...]


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
    """Number the key blocks of a step; ``gather`` copies even whole pages, so that they can be cleaned or widened."""
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


def geometry(spans: Sequence[Span], table: BlockTable, heads: int, kv_heads: int, reach: Reach) -> Geometry:
    """Cut the spans' query rows into tiles, chunks and waves, for layers whose tokens see so far back."""
    group = heads // kv_heads
    chunks, row_tokens, row_heads, row_positions = [], [], [], []
    num_rows = 0
    for segments in pack(sorted(segments_of(spans, group, reach), key=lambda s: -s.num_waves)):
        rows = [segment_rows(segment, spans[segment.span], group) for segment in segments]
        positions = np.concatenate([row[2] for row in rows])
        row_tokens += [row[0] for row in rows]
        row_heads += [row[1] for row in rows]
        row_positions.append(positions)
        waves = _waves(segments, table, positions, reach)
        chunks.append(Chunk(num_rows, num_rows + len(positions), waves))
        num_rows += len(positions)
    query_rows, output_rows = row_indices(np.concatenate(row_tokens), np.concatenate(row_heads), heads, kv_heads)
    return Geometry(num_rows, query_rows, output_rows, tuple(chunks))


def _waves(segments: Sequence[Segment], table: BlockTable, positions: np.ndarray, reach: Reach) -> tuple[Wave, ...]:
    waves = []
    for wave in range(segments[0].num_waves):
        active = [segment for segment in segments if segment.num_waves > wave]
        products: list[Product] = []
        starts, stop = [], 0
        for segment in active:
            block = table.numbers[segment.span][segment.first_block + wave]
            _append_product(products, stop, stop + segment.num_rows, block)
            starts.append(np.full(segment.num_rows, (segment.first_block + wave) * BLOCK))
            stop += segment.num_rows
        mask_start, mask = _mask(np.concatenate(starts), positions[:stop], reach)
        waves.append(Wave(stop, tuple(products), mask_start, mask))
    return tuple(waves)


def _append_product(products: list[Product], start: int, stop: int, block: int) -> None:
    """Join the rows to the last product where they meet the same block."""
    if products and products[-1].block == block:
        start = products.pop().start
    products.append(Product(start, stop, block))


def _mask(block_starts: np.ndarray, positions: np.ndarray, reach: Reach) -> tuple[int, torch.Tensor | None]:
    """The smallest run of rows that need masking, and their mask."""
    needed = positions < block_starts + BLOCK - 1
    if reach is not None:
        needed |= first_seen(positions, reach) > block_starts
    rows = np.flatnonzero(needed)
    if not len(rows):
        return 0, None
    low, high = rows[0], rows[-1] + 1
    # Distances to the block's first key: key j is hidden from a row that sits less than j keys further on.
    distance = torch.from_numpy(positions[low:high] - block_starts[low:high])[:, None]
    column = torch.arange(BLOCK)
    hidden = column > distance
    if reach is not None:
        hidden |= column < torch.from_numpy(first_seen(positions[low:high], reach) - block_starts[low:high])[:, None]
    return int(low), torch.zeros(hidden.shape).masked_fill_(hidden, MASKED)
