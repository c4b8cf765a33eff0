"""A step's attention cut into the kernels' items: decided once from the batch, used by every layer of a window.

A reading's tokens are cut into tiles of rows, and the keys of a tile into stretches of whole blocks where there are too
few tiles to fill a GPU. A token whose keys lie in several items gets each one's result as a *part*; parts are merged
in the order of their keys, shared ones first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from evalcard_engine.attention.readings import Reading, readings
from evalcard_engine.attention.tiles import BLOCK
from evalcard_engine.batch import Span
from evalcard_engine.kernels.launch import Tile
from evalcard_engine.kernels.paged_attention import ITEM_COLUMNS, Items, Rows
from evalcard_engine.transfer import send

PROGRAMS = 512
"""Programs worth having at once: keys are cut until there are about so many. About four a multiprocessor."""


@dataclass(frozen=True, slots=True)
class PagedPlan:
    """Indices on the device, int32."""

    items: tuple[Items, ...]
    """One launch each, of few rows and of many."""
    rows: Rows
    num_parts: int
    merged_tokens: torch.Tensor
    """[n]: packed tokens that come in parts."""
    merge_starts: torch.Tensor
    """[n + 1]: where the parts of each begin in merge_order."""
    merge_order: torch.Tensor


@dataclass(frozen=True, slots=True)
class HostPlan:
    """What becomes a `PagedPlan`: int32 arrays on the host, made without looking at any tensor."""

    tiles: tuple[Tile, Tile]
    """Of few rows, of many."""
    tables: tuple[np.ndarray, np.ndarray]
    """By tile: [items, ITEM_COLUMNS]."""
    tokens: np.ndarray
    firsts: np.ndarray
    lasts: np.ndarray
    pages: np.ndarray
    """A function of the spans alone, whatever their layers see."""
    num_parts: int
    merged: np.ndarray
    starts: np.ndarray
    order: np.ndarray

    @property
    def arrays(self) -> list[np.ndarray]:
        """What goes to the device, in the order in which `received` wants it."""
        flat = [table.reshape(-1) for table in self.tables]
        return [*flat, self.tokens, self.firsts, self.lasts, self.pages, self.merged, self.starts, self.order]

    def received(self, sent: Sequence[torch.Tensor]) -> PagedPlan:
        """``arrays``, once they are on the device."""
        items = [Items(part.view(-1, ITEM_COLUMNS), tile) for part, tile in zip(sent[:2], self.tiles, strict=True)]
        return PagedPlan(tuple(one for one in items if len(one.table)), Rows(*sent[2:6]), self.num_parts, *sent[6:])


def paged_plan(
    spans: Sequence[Span],
    page_size: int,
    heads: int,
    kv_heads: int,
    window: int | None,
    tiles: tuple[Tile, Tile],
    device: torch.device,
    programs: int = PROGRAMS,
) -> PagedPlan:
    """`host_plan` on a device."""
    plan = host_plan(spans, page_size, heads, kv_heads, window, tiles, programs)
    return plan.received(send(plan.arrays, device))


def host_plan(
    spans: Sequence[Span],
    page_size: int,
    heads: int,
    kv_heads: int,
    window: int | None,
    tiles: tuple[Tile, Tile],
    programs: int = PROGRAMS,
) -> HostPlan:
    """window: a token sees itself and the window - 1 tokens before it; None sees all. tiles: of few rows, of many."""
    group = heads // kv_heads
    few, many = (_tokens_a_tile(tile, group) for tile in tiles)
    found = readings(spans, page_size, window, max(1, many - 1))
    laid = _lay_out(found, spans, page_size, window)
    cuts: list[_Cut] = []
    for reading, place in zip(found, laid.first_tokens, strict=True):
        num_tokens = sum(spans[number].query_len for number in reading.spans)
        is_many = num_tokens > few
        step = many if is_many else few
        columns = tiles[is_many].columns
        for low in range(0, num_tokens, step):
            cuts.append(_cut(reading, laid, place + low, min(step, num_tokens - low), columns, is_many))
    pieces = -(-group // min(group, tiles[1].rows)) * kv_heads
    blocks = sum(-(-(cut.stop - cut.start) // BLOCK) for cut in cuts) * pieces
    stretch = max(1, -(-blocks // programs)) * BLOCK
    shared_by = {number for reading in found if not reading.is_tail for number in reading.spans}
    return _assemble(cuts, laid, stretch, shared_by, tiles)


@dataclass(frozen=True, slots=True)
class _Laid:
    """Every reading's tokens one after the other."""

    first_tokens: list[int]
    """By reading: its first place."""
    tokens: np.ndarray
    firsts: np.ndarray
    lasts: np.ndarray
    pages: np.ndarray
    first_pages: list[int]
    """By span."""


@dataclass(frozen=True, slots=True)
class _Cut:
    """One tile: tokens [place, place + num_tokens) over the keys [start, stop), all seen by all below full_stop."""

    reading: Reading
    place: int
    num_tokens: int
    start: int
    full_stop: int
    stop: int
    is_many: bool


def _tokens_a_tile(tile: Tile, group: int) -> int:
    return tile.rows // min(group, tile.rows)


def _first_seen(positions: np.ndarray, window: int | None) -> np.ndarray:
    return np.zeros_like(positions) if window is None else np.maximum(positions - (window - 1), 0)


def _lay_out(found: Sequence[Reading], spans: Sequence[Span], page_size: int, window: int | None) -> _Laid:
    tokens, positions, first_tokens, count = [], [], [], 0
    for reading in found:
        first_tokens.append(count)
        for number in reading.spans:
            span = spans[number]
            tokens.append(np.arange(span.query_start, span.query_start + span.query_len))
            positions.append(np.arange(span.context_len, span.end_len))
            count += span.query_len
    pages: list[int] = []
    first_pages = []
    for span in spans:
        first_pages.append(len(pages))
        pages += span.pages[: -(-span.end_len // page_size)]
    at = np.concatenate(positions) if positions else np.zeros(0, np.int64)
    packed = np.concatenate(tokens) if tokens else np.zeros(0, np.int64)
    return _Laid(first_tokens, packed, _first_seen(at, window), at, np.asarray(pages, np.int64), first_pages)


def _cut(reading: Reading, laid: _Laid, place: int, num_tokens: int, columns: int, is_many: bool) -> _Cut:
    if not reading.is_tail:
        return _Cut(reading, place, num_tokens, reading.key_start, reading.key_stop, reading.key_stop, is_many)
    # Positions ascend in a tail, so its first token sees least at the end, and its last one least at the start.
    low, high = place, place + num_tokens - 1
    start = max(reading.key_start, int(laid.firsts[low]) // columns * columns)
    stop = int(laid.lasts[high]) + 1
    seen_by_all = int(laid.lasts[low]) + 1 if int(laid.firsts[high]) <= start else start
    full_stop = start + (seen_by_all - start) // columns * columns
    return _Cut(reading, place, num_tokens, start, full_stop, stop, is_many)


def _assemble(
    cuts: Sequence[_Cut], laid: _Laid, stretch: int, shared_by: set[int], tiles: tuple[Tile, Tile]
) -> HostPlan:
    """Items of stretches of ``stretch`` keys at absolute positions, and which parts make up which token."""
    tables: tuple[list[tuple[int, ...]], list[tuple[int, ...]]] = ([], [])
    part_tokens: list[np.ndarray] = []
    num_parts = 0
    for cut in cuts:
        inner = range(cut.start // stretch * stretch + stretch, cut.stop, stretch)
        bounds = [cut.start, *(inner if cut.stop - cut.start > stretch else ()), cut.stop]
        is_part = len(bounds) > 2 or cut.reading.spans[0] in shared_by
        for start, stop in zip(bounds, bounds[1:], strict=False):
            full_stop = min(max(cut.full_stop, start), stop)
            has_sink = cut.reading.is_tail and start == cut.start
            tables[cut.is_many].append((cut.place, cut.num_tokens, laid.first_pages[cut.reading.spans[0]], start,
                                        full_stop, stop, num_parts, is_part, has_sink))  # fmt: skip
            if is_part:
                part_tokens.append(laid.tokens[cut.place : cut.place + cut.num_tokens])
                num_parts += cut.num_tokens
    # The longest first, so that no program is left alone at the end.
    sorted_tables = [sorted(table, key=lambda item: item[3] - item[5]) for table in tables]
    owners = np.concatenate(part_tokens) if part_tokens else np.zeros(0, np.int64)
    order = np.argsort(owners, kind="stable")
    merged, counts = np.unique(owners, return_counts=True)
    starts = np.concatenate(([0], np.cumsum(counts)))
    tables_made = [np.asarray(table, np.int32).reshape(-1, ITEM_COLUMNS) for table in sorted_tables]
    return HostPlan(
        tiles=tiles,
        tables=(tables_made[0], tables_made[1]),
        tokens=laid.tokens.astype(np.int32),
        firsts=laid.firsts.astype(np.int32),
        lasts=laid.lasts.astype(np.int32),
        pages=laid.pages.astype(np.int32),
        num_parts=num_parts,
        merged=merged.astype(np.int32),
        starts=starts.astype(np.int32),
        order=order.astype(np.int32),
    )
