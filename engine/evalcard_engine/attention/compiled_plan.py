"""What the compiled attention does in a step: decided once from the batch, used by every layer of one reach.

A span's query rows, token after token with the heads that share a key head side by side, are cut into *tiles*. A tile
*meets* the key blocks of 256 absolute positions that any of its rows may see, in their order. Short spans that begin
with the same block share a tile, so that what they share is read once; each meets the rest by itself. No bit of a row
depends on any of this: it meets the same blocks in the same order, and rows of a tile do not know each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from evalcard_engine.attention.reach import Reach, first_seen
from evalcard_engine.attention.tiles import BLOCK
from evalcard_engine.batch import Span

TILE_ROWS = 192
"""Rows of a tile at most: arranging a block's keys and values for them costs little, and their averages stay in the
cache."""

LEAST_ROWS = 24
"""Rows of a tile where many threads want work."""

SHORT_ROWS = 48
"""Rows up to which spans may share a tile, and of such a tile."""

BLOCK_COST = 8
"""What arranging a block costs, in rows that meet it."""

TILES_PER_THREAD = 4
"""So that the last one to end does not keep the others waiting for long."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """int32 arrays, as attention.c describes them."""

    tiles: np.ndarray
    """[num_tiles, 4]: first row and end, first meeting and end; those that take longest come first."""
    rows: np.ndarray
    """[num_rows, 4]: token, head within the group, position, first position seen."""
    meetings: np.ndarray
    """[n, 4]: place in ``pages``, position of the block, first row and end within the tile."""
    pages: np.ndarray
    """Page numbers, those of one block side by side."""
    most_rows: int


def plan_tiles(spans: Sequence[Span], heads: int, kv_heads: int, page_size: int, reach: Reach, threads: int) -> Tiles:
    """Tiles of the spans' query rows; every tile is worked on once for each key head."""
    assert BLOCK % page_size == 0 and heads % kv_heads == 0, (BLOCK, page_size, heads, kv_heads)
    group = heads // kv_heads
    num_rows = sum(span.query_len for span in spans) * group
    most = min(TILE_ROWS, max(LEAST_ROWS, num_rows * kv_heads // (TILES_PER_THREAD * threads)))
    most_short = min(SHORT_ROWS, most)
    per_block = BLOCK // page_size
    starts = np.concatenate([[0], np.cumsum([len(span.pages) for span in spans])])
    cut = _Cut(spans, group, per_block, reach, starts.tolist())
    short = sorted((n for n, span in enumerate(spans) if span.query_len * group <= most_short), key=cut.pages_of)
    is_short = set(short)
    for number in range(len(spans)):
        if number not in is_short:
            cut.add_long(number, most)
    for together in _together(short, spans, group, most_short):
        cut.add_short(together)
    costs = np.asarray(cut.costs)
    tiles = np.asarray(cut.tiles, dtype=np.int32)[np.argsort(-costs, kind="stable")]
    meetings = np.asarray(cut.meetings, dtype=np.int32).reshape(-1, 4)
    pages = np.concatenate([np.asarray(span.pages, dtype=np.int32) for span in spans])
    most_rows = int((tiles[:, 1] - tiles[:, 0]).max())
    return Tiles(np.ascontiguousarray(tiles), np.concatenate(cut.rows), meetings, pages, most_rows)


def _together(short: Sequence[int], spans: Sequence[Span], group: int, most: int) -> list[list[int]]:
    """Short spans, sorted by their pages, in runs of at most ``most`` rows that begin with the same page."""
    runs: list[list[int]] = []
    for _, same in groupby(short, key=lambda number: spans[number].pages[0]):
        room = 0
        for number in same:
            needed = spans[number].query_len * group
            if needed > room:
                runs.append([])
                room = most
            runs[-1].append(number)
            room -= needed
    return runs


class _Cut:
    """The lists that tiles are added to."""

    def __init__(
        self, spans: Sequence[Span], group: int, per_block: int, reach: Reach, page_starts: Sequence[int]
    ) -> None:
        self._spans = spans
        self._group = group
        self._per_block = per_block
        self._reach = reach
        self._page_starts = page_starts
        self.tiles: list[tuple[int, int, int, int]] = []
        self.rows: list[np.ndarray] = []
        self.meetings: list[tuple[int, int, int, int]] = []
        self.costs: list[int] = []
        self._num_rows = 0

    def pages_of(self, number: int) -> tuple[int, ...]:
        return self._spans[number].pages

    def add_long(self, number: int, most: int) -> None:
        """A span by itself, in tiles of ``most`` rows."""
        span, group = self._spans[number], self._group
        rows = self._rows(span)
        self.rows.append(rows)
        for start in range(0, len(rows), most):
            stop = min(start + most, len(rows))
            first_meeting, cost = len(self.meetings), 0
            last = (span.context_len + (stop - 1) // group) // BLOCK
            for block in range(int(rows[start, 3]) // BLOCK, last + 1):
                # Rows before the one that sits at the block's first position see none of it.
                begin = max(0, (block * BLOCK - span.context_len) * group - start)
                self.meetings.append((self._place(number, block), block * BLOCK, begin, stop - start))
                cost += stop - start - begin + BLOCK_COST
            self._add_tile(self._num_rows + start, self._num_rows + stop, first_meeting, cost)
        self._num_rows += len(rows)

    def add_short(self, numbers: Sequence[int]) -> None:
        """Spans that begin with the same page, sorted by their pages, in one tile."""
        found = [self._rows(self._spans[number]) for number in numbers]
        self.rows.extend(found)
        ends = np.cumsum([len(rows) for rows in found]).tolist()
        bounds = list(zip([0, *ends[:-1]], ends, strict=True))
        lasts = [(self._spans[number].end_len - 1) // BLOCK for number in numbers]
        firsts = [int(rows[0, 3]) // BLOCK for rows in found]
        first_meeting, cost = len(self.meetings), 0
        for block in range(min(firsts), max(lasts) + 1):
            pages_before: tuple[int, ...] | None = None
            for number, (start, stop), first, last in zip(numbers, bounds, firsts, lasts, strict=True):
                if not first <= block <= last:
                    continue
                pages = self._block_pages(number, block)
                if pages == pages_before and self.meetings[-1][3] == start:
                    place, position, begin, _ = self.meetings[-1]
                    self.meetings[-1] = (place, position, begin, stop)
                else:
                    self.meetings.append((self._place(number, block), block * BLOCK, start, stop))
                    cost += BLOCK_COST
                pages_before = pages
                cost += stop - start
        self._add_tile(self._num_rows, self._num_rows + ends[-1], first_meeting, cost)
        self._num_rows += ends[-1]

    def _add_tile(self, start: int, stop: int, first_meeting: int, cost: int) -> None:
        self.tiles.append((start, stop, first_meeting, len(self.meetings)))
        self.costs.append(cost)

    def _rows(self, span: Span) -> np.ndarray:
        """int32 [query_len * group, 4]."""
        at = np.arange(span.query_len * self._group, dtype=np.int32)
        tokens = at // self._group
        positions = tokens + span.context_len
        seen = 0 if self._reach is None else np.maximum(first_seen(positions, self._reach), 0)
        rows = np.empty((len(at), 4), dtype=np.int32)
        rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3] = tokens + span.query_start, at % self._group, positions, seen
        return rows

    def _place(self, number: int, block: int) -> int:
        return self._page_starts[number] + block * self._per_block

    def _block_pages(self, number: int, block: int) -> tuple[int, ...]:
        return self._spans[number].pages[block * self._per_block : (block + 1) * self._per_block]
