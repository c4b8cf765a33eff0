"""Query rows cut into tiles of eight, and tiles into runs that meet the same key blocks. No plan yet, only shapes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from evalcard_engine.arithmetic.products import ROW_TILE
from evalcard_engine.attention.reach import Reach, first_seen
from evalcard_engine.batch import Span

BLOCK = 256
"""Keys reduced at once; a boundary of the rounding, so it is the same for every page size and sequence."""

CHUNK_ROWS = 1536
"""Rows (per key head) of one chunk: enough for the full speed of torch's fused attention, which tiles them itself."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Neighbouring tiles of one span that meet the same blocks, and of the last one as many keys."""

    span: int
    tile_start: int
    tile_stop: int
    first_block: int
    last_block: int
    last_width: int
    """Keys of the last block that are met, from its first on: those behind them are hidden from all rows."""

    @property
    def num_waves(self) -> int:
        return self.last_block - self.first_block + 1

    @property
    def num_rows(self) -> int:
        return (self.tile_stop - self.tile_start) * ROW_TILE


def segments_of(spans: Sequence[Span], group: int, reach: Reach, widths: Sequence[int]) -> list[Segment]:
    """``widths``, ascending up to BLOCK: how much of its last block a row may meet."""
    choices = np.asarray(widths)
    assert choices[-1] == BLOCK, widths
    segments = []
    for number, span in enumerate(spans):
        rows = span.query_len * group
        starts = np.arange(0, rows, ROW_TILE)
        stops = np.minimum(starts + ROW_TILE, rows) - 1
        ends = span.context_len + stops // group
        last = ends // BLOCK
        width = choices[np.searchsorted(choices, ends % BLOCK + 1)]
        first = np.zeros_like(last)
        if reach is not None:
            first = np.maximum(first_seen(span.context_len + starts // group, reach), 0) // BLOCK
        new = np.flatnonzero((np.diff(first) != 0) | (np.diff(last) != 0) | (np.diff(width) != 0)) + 1
        for start, stop in zip([0, *new], [*new, len(starts)], strict=True):
            for low in range(start, stop, CHUNK_ROWS // ROW_TILE):
                high = min(low + CHUNK_ROWS // ROW_TILE, stop)
                segments.append(Segment(number, int(low), int(high), int(first[low]), int(last[low]), int(width[low])))
    return segments


def pack(segments: Sequence[Segment]) -> list[list[Segment]]:
    """Chunks of at most CHUNK_ROWS rows, in the given order."""
    chunks: list[list[Segment]] = []
    room = 0
    for segment in segments:
        if segment.num_rows > room:
            chunks.append([])
            room = CHUNK_ROWS
        chunks[-1].append(segment)
        room -= segment.num_rows
    return chunks


def segment_rows(segment: Segment, span: Span, group: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Packed token, head within the group and absolute position of each row; padding repeats the span's last row.

    A padding row's head is group + its own, so that `row_indices` can tell it from a real one.
    """
    rows = np.arange(segment.tile_start * ROW_TILE, segment.tile_stop * ROW_TILE)
    padding = rows >= span.query_len * group
    tokens = np.minimum(rows // group, span.query_len - 1)
    heads = np.where(padding, group, rows % group)
    return span.query_start + tokens, heads, span.context_len + tokens


def row_indices(
    tokens: np.ndarray, heads_in_group: np.ndarray, heads: int, kv_heads: int
) -> tuple[torch.Tensor, torch.Tensor]:
    group = heads // kv_heads
    num_rows = len(tokens)
    kv = np.arange(kv_heads)[:, None]
    padding = heads_in_group == group
    rows = tokens * heads + kv * group + np.where(padding, group - 1, heads_in_group)
    output = np.empty(int(tokens.max() + 1) * heads, dtype=np.int64)
    real = np.flatnonzero(~padding)
    output[rows[:, real]] = kv * num_rows + real
    return torch.from_numpy(rows.reshape(-1)), torch.from_numpy(output)
