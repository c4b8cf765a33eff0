"""Attention over a paged cache, for prompts and answers in one launch: online softmax (Milakov and Gimelshein, arXiv
1805.02867) in tiles of query rows, the heads that share a key head side by side, as in Dao et al., arXiv 2205.14135."""

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from evalcard_engine.cache.kv_codes import Stored
from evalcard_engine.kernels.launch import Tile, is_interpreted, launch
from evalcard_engine.kernels.rounding import decode_e4m3, narrow, product

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
PAGE_DTYPES = (*DTYPES, torch.float8_e4m3fn, torch.int8)
MOST_SIZE = 256
"""Numbers of a head's key or value, rounded up to a power of two."""

ITEM_COLUMNS = 9
"""first token, tokens, first page, key start, end of the keys that all rows see, key stop, first part, is_part,
has_sink: what one program of each key head does; `Items` says how."""

FEW_ROWS = tl.constexpr(16)
LOG2E = tl.constexpr(1.4426950408889634)


@dataclass(frozen=True, slots=True)
class Items:
    """The work of one launch: int32, on the device of the queries.

    table [items, ITEM_COLUMNS]; an item's tokens are places [first token, first token + tokens) of ``tokens``, at most
    ``tile.rows`` // (heads of a key head), and meet the keys at positions [key start, key stop), position p being slot
    p % page_size of page pages[first page + p // page_size]. Key starts are multiples of ``tile.columns``, the ends of
    what all rows see are so many whole tiles after them. A part's rows go to parts [first part, first part + tokens).
    """

    table: torch.Tensor
    tile: Tile
    """``rows`` of queries meet ``columns`` keys at a time; ``inner`` terms of a key at once, 0 for all of them."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Which tokens of a step stand at which place, int32 [places]; the packed token, and the first and the last
    position that it sees; pages are those of all items, one list after the other."""

    tokens: torch.Tensor
    firsts: torch.Tensor
    lasts: torch.Tensor
    pages: torch.Tensor


@triton.jit
def _soft_cap(score, softcap):
    """softcap * tanh(score / softcap) by e^-2|x|; where that cancels, by the first terms of tanh's series."""
    x = score / softcap
    power = tl.exp2(tl.abs(x) * (-2.0 * LOG2E))
    far = (1.0 - power) / (1.0 + power)
    square = x * x
    near = x * (1 - square * (1 / 3 - square * (2 / 15 - square * (17 / 315 - square * (62 / 2835)))))
    return softcap * tl.where(square < 0.09, near, tl.where(x < 0, -far, far))


@triton.jit
def _numbers(codes, DTYPE: tl.constexpr, IS_FP8: tl.constexpr):
    """What pages hold as DTYPE. Codes fit into every one of them, so that none is rounded; scales come later."""
    if IS_FP8:
        return decode_e4m3(codes).to(DTYPE)
    elif codes.dtype == tl.int8:
        return codes.to(tl.float32).to(DTYPE)
    else:
        return codes.to(DTYPE)


@triton.jit
def _meet(
    top, total, mean, start, q_at, q_mask, q, firsts, lasts, pages, kv_head, kv_heads, stop,
    key_pages, value_pages, key_scales, value_scales, factor, softcap,
    PAGE_SIZE: tl.constexpr, KEY_SIZE: tl.constexpr, VALUE_SIZE: tl.constexpr, KEY_BLOCK: tl.constexpr,
    VALUE_BLOCK: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr, IS_FP8: tl.constexpr,
    IS_MASKED: tl.constexpr, DTYPE: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """The state of a tile's rows once they have met the COLUMNS keys from ``start`` on.

    For scores s in powers of two: M' = max(M, max s), L' = L 2^(M - M') + sum 2^(s - M'), and so is the sum of values.
    """
    keys = start + tl.arange(0, COLUMNS)
    inside = keys < stop
    if PAGE_SIZE % COLUMNS == 0:
        page = tl.load(pages + start // PAGE_SIZE).to(tl.int64)
        lines = (page * kv_heads + kv_head) * PAGE_SIZE + (start % PAGE_SIZE + tl.arange(0, COLUMNS))
    else:
        page = tl.load(pages + keys // PAGE_SIZE, mask=inside, other=0).to(tl.int64)
        lines = (page * kv_heads + kv_head) * PAGE_SIZE + keys % PAGE_SIZE
    if INNER == 0:
        places = tl.arange(0, KEY_BLOCK)
        at = key_pages + lines[:, None] * KEY_SIZE + places[None, :]
        k = tl.load(at, mask=inside[:, None] & (places < KEY_SIZE)[None, :], other=0)
        zeros = tl.zeros((q.shape[0], COLUMNS), dtype=tl.float32)
        scores = product(q, tl.trans(_numbers(k, DTYPE, IS_FP8)), zeros, INTERPRETED)
    else:
        # Without tensor cores a thread holds whole rows and columns of what it multiplies: INNER terms of them.
        scores = tl.zeros((q.shape[0], COLUMNS), dtype=tl.float32)
        for term in range(0, KEY_BLOCK, INNER):
            places = term + tl.arange(0, INNER)
            is_term = places < KEY_SIZE
            part = tl.load(q_at + places[None, :], mask=q_mask[:, None] & is_term[None, :], other=0.0)
            at = key_pages + lines[:, None] * KEY_SIZE + places[None, :]
            k = tl.load(at, mask=inside[:, None] & is_term[None, :], other=0)
            scores = product(part, tl.trans(_numbers(k, DTYPE, IS_FP8)), scores, INTERPRETED)
    scores = scores * factor
    if key_scales is not None:
        scores = scores * tl.load(key_scales + lines, mask=inside, other=0.0)[None, :]
    if softcap is not None:
        scores = _soft_cap(scores, softcap) * LOG2E
    if IS_MASKED:
        seen = (keys[None, :] >= firsts[:, None]) & (keys[None, :] <= lasts[:, None]) & inside[None, :]
        scores = tl.where(seen, scores, float("-inf"))
    new_top = tl.maximum(top, tl.max(scores, axis=1))
    # A row that has seen nothing yet stays at 2^-inf = 0 instead of 2^(inf - inf).
    level = tl.where(new_top == float("-inf"), 0.0, new_top)
    weights = tl.exp2(scores - level[:, None])
    share = tl.exp2(top - level)
    total = total * share + tl.sum(weights, axis=1)
    if value_scales is not None:
        weights = weights * tl.load(value_scales + lines, mask=inside, other=0.0)[None, :]
        if IS_MASKED:
            weights = tl.where(seen, weights, 0.0)
    columns = tl.arange(0, VALUE_BLOCK)
    at = value_pages + lines[:, None] * VALUE_SIZE + columns[None, :]
    v = tl.load(at, mask=inside[:, None] & (columns < VALUE_SIZE)[None, :], other=0)
    weights = narrow(weights, DTYPE, INTERPRETED)
    mean = product(weights, _numbers(v, DTYPE, IS_FP8), mean * share[:, None], INTERPRETED)
    return new_top, total, mean


@triton.jit
def _paged_attention_kernel(
    query, key_pages, value_pages, key_scale, value_scale, key_scales, value_scales, sinks,
    items, tokens, firsts, lasts, pages, out, parts, part_tops,
    scale, softcap, heads, kv_heads, heads_a_tile, query_token, query_head,
    PAGE_SIZE: tl.constexpr, KEY_SIZE: tl.constexpr, VALUE_SIZE: tl.constexpr, KEY_BLOCK: tl.constexpr,
    VALUE_BLOCK: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr, IS_FP8: tl.constexpr,
    ITEM_COLUMNS: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """out[t, h] = sum over the keys j that t sees of w_j v_j, w_j = 2^s_j / (sum over j of 2^s_j + 2^(sink_h log2 e)),
    s_j = log2 e * cap(scale * q[t, h].k_j), cap(x) = softcap * tanh(x / softcap). k_j and v_j are codes times the scale
    of the layer (key_scale, value_scale) or of their token and head (key_scales, value_scales).

    An item that is a part stores what its own keys alone come to, and log2 of the sum of its 2^s_j as part_tops.
    Program (i, c) is item i for the c-th piece of heads_a_tile heads: a key head has as many as its heads need.
    """
    DTYPE: tl.constexpr = out.dtype.element_ty
    item = items + tl.program_id(0) * ITEM_COLUMNS
    first_token = tl.load(item)
    num_tokens = tl.load(item + 1)
    first_page = tl.load(item + 2)
    start = tl.load(item + 3)
    full_stop = tl.load(item + 4)
    stop = tl.load(item + 5)
    group = heads // kv_heads
    pieces = tl.cdiv(group, heads_a_tile)
    kv_head = tl.program_id(1) // pieces
    rows = tl.arange(0, ROWS)
    member = rows // heads_a_tile
    head_in_group = tl.program_id(1) % pieces * heads_a_tile + rows % heads_a_tile
    head = kv_head * group + head_in_group
    is_row = (member < num_tokens) & (head_in_group < group)
    token = tl.load(tokens + first_token + member, mask=is_row, other=0).to(tl.int64)
    first = tl.load(firsts + first_token + member, mask=is_row, other=0)
    last = tl.load(lasts + first_token + member, mask=is_row, other=0)
    q_at = (query + token * query_token + head * query_head)[:, None]
    places = tl.arange(0, KEY_BLOCK)
    if INNER == 0:
        q = tl.load(q_at + places[None, :], mask=is_row[:, None] & (places < KEY_SIZE)[None, :], other=0.0)
    else:
        q = tl.zeros((ROWS, 1), dtype=tl.float32)
    factor = scale
    if key_scale is not None:
        factor = factor * tl.load(key_scale)
    if softcap is None:
        factor = factor * LOG2E
    top = tl.full((ROWS,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((ROWS,), dtype=tl.float32)
    if sinks is not None:
        has_sink = is_row & (tl.load(item + 8) != 0)
        top = tl.load(sinks + head, mask=has_sink, other=float("-inf")).to(tl.float32) * LOG2E
        total = tl.where(top == float("-inf"), 0.0, 1.0)
    mean = tl.zeros((ROWS, VALUE_BLOCK), dtype=tl.float32)
    if ROWS > FEW_ROWS:
        # Masks cost what many rows do; a few wait for memory in any case, and for them one loop takes less registers.
        for at in range(start, full_stop, COLUMNS):
            top, total, mean = _meet(
                top, total, mean, at, q_at, is_row, q, first, last, pages + first_page, kv_head, kv_heads, stop,
                key_pages, value_pages, key_scales, value_scales, factor, softcap,
                PAGE_SIZE, KEY_SIZE, VALUE_SIZE, KEY_BLOCK, VALUE_BLOCK, COLUMNS, INNER, IS_FP8, False, DTYPE,
                INTERPRETED,
            )  # fmt: skip
        start = tl.maximum(start, full_stop)
    for at in range(start, stop, COLUMNS):
        top, total, mean = _meet(
            top, total, mean, at, q_at, is_row, q, first, last, pages + first_page, kv_head, kv_heads, stop,
            key_pages, value_pages, key_scales, value_scales, factor, softcap,
            PAGE_SIZE, KEY_SIZE, VALUE_SIZE, KEY_BLOCK, VALUE_BLOCK, COLUMNS, INNER, IS_FP8, True, DTYPE, INTERPRETED,
        )  # fmt: skip
    # A row that saw none of the item's keys has the mean 0 and the top -inf.
    total = tl.where(total == 0.0, 1.0, total)
    mean = mean / total[:, None]
    if value_scale is not None:
        mean = mean * tl.load(value_scale)
    columns = tl.arange(0, VALUE_BLOCK)
    mask = is_row[:, None] & (columns < VALUE_SIZE)[None, :]
    if tl.load(item + 7) != 0:
        line = (tl.load(item + 6) + member).to(tl.int64) * heads + head
        tl.store(parts + line[:, None] * VALUE_SIZE + columns[None, :], mean, mask=mask)
        tl.store(part_tops + line, top + tl.log2(total), mask=is_row)
    else:
        line = token * heads + head
        tl.store(out + line[:, None] * VALUE_SIZE + columns[None, :], narrow(mean, DTYPE, INTERPRETED), mask=mask)


def tiles_of(dtype: torch.dtype, key_size: int, value_size: int, is_coded: bool, capability: int) -> tuple[Tile, Tile]:
    """The tiles of few query rows, as answers have, and of many: a fixed function of the GPU, dtypes and head sizes.

    capability: major * 10 + minor, 0 for the interpreter. Before sm_90 the operands of a product lie in registers, and
    codes take some more on their way to numbers: tiles are as large as no register is spilled.
    """
    size = triton.next_power_of_2(max(key_size, value_size))
    assert dtype in DTYPES and size <= MOST_SIZE, (dtype, key_size, value_size)
    if dtype == torch.float32:
        tile = Tile(16, 16, 32, 4, 1) if size <= 64 else Tile(16, 16, 32, 8, 2)
        return tile, tile
    is_tight = is_coded and capability < 90
    if size > 128:
        return Tile(16, 32, 0, 4, 3), Tile(32 if is_tight else 64, 32, 0, 8, 2)
    few = Tile(16, 64, 0, 8, 2) if is_coded else Tile(16, 64, 0, 4, 3)
    if capability >= 90:
        return few, Tile(128, 32 if is_coded and size <= 64 else 64, 0, 8, 3)
    return few, Tile(64 if is_tight else 128, 32, 0, 8, 3)


def paged_attention(
    query: torch.Tensor,
    keys: Stored,
    values: Stored,
    items: Items,
    rows: Rows,
    out: torch.Tensor,
    parts: torch.Tensor,
    part_tops: torch.Tensor,
    *,
    scale: float,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
) -> None:
    """Do the items: fill their tokens' rows of ``out``, and their rows of ``parts`` and ``part_tops``.

    query [tokens, heads, key_size] of a dtype in DTYPES and unit stride along the last dimension; keys and values
    [pages, kv_heads, page_size, size], contiguous, as numbers or as codes with their scales; out
    [tokens, heads, value_size] of query's dtype, parts float32 [parts, heads, value_size], part_tops float32
    [parts, heads], contiguous; sinks float [heads].
    """
    _check(query, keys, values, items, rows, out, parts, part_tops, sinks)
    heads, key_size = query.shape[1:]
    _, kv_heads, page_size, value_size = values.data.shape
    group, tile, count = heads // kv_heads, items.tile, items.table.shape[0]
    if count == 0:
        return
    heads_a_tile = min(group, tile.rows)
    arguments: dict[str, Any] = {
        "query": query,
        "key_pages": keys.data,
        "value_pages": values.data,
        "key_scale": keys.scale,
        "value_scale": values.scale,
        "key_scales": keys.scales,
        "value_scales": values.scales,
        "sinks": sinks,
        "items": items.table,
        "tokens": rows.tokens,
        "firsts": rows.firsts,
        "lasts": rows.lasts,
        "pages": rows.pages,
        "out": out,
        "parts": parts,
        "part_tops": part_tops,
        "scale": float(scale),
        "softcap": None if softcap is None else float(softcap),
        "heads": heads,
        "kv_heads": kv_heads,
        "heads_a_tile": heads_a_tile,
        "query_token": query.stride(0),
        "query_head": query.stride(1),
    }
    is_fp8 = keys.data.dtype == torch.float8_e4m3fn
    if is_fp8:
        arguments |= {"key_pages": keys.data.view(torch.uint8), "value_pages": values.data.view(torch.uint8)}
    constants = {
        "PAGE_SIZE": page_size,
        "KEY_SIZE": key_size,
        "VALUE_SIZE": value_size,
        "KEY_BLOCK": max(16, tile.inner, triton.next_power_of_2(key_size)),
        "VALUE_BLOCK": max(16, triton.next_power_of_2(value_size)),
        "ROWS": tile.rows,
        "COLUMNS": tile.columns,
        "INNER": tile.inner,
        "IS_FP8": is_fp8,
        "ITEM_COLUMNS": ITEM_COLUMNS,
        "INTERPRETED": is_interpreted(),
    }
    grid = (count, kv_heads * -(-group // heads_a_tile))
    # All that a thread can have: left alone, ptxas spills a few registers to come to 128 or 96. Few rows in half
    # precision spill none, and gain from the threads beside them.
    launch(_paged_attention_kernel, grid, arguments, constants, warps=tile.warps, stages=tile.stages, fp_fusion=True,
           registers=255 if tile.warps == 8 or tile.inner else None)  # fmt: skip


def _check(
    query: torch.Tensor,
    keys: Stored,
    values: Stored,
    items: Items,
    rows: Rows,
    out: torch.Tensor,
    parts: torch.Tensor,
    part_tops: torch.Tensor,
    sinks: torch.Tensor | None,
) -> None:
    tokens, heads, key_size = query.shape
    num_pages, kv_heads, page_size, value_size = values.data.shape
    assert query.dtype in DTYPES, f"paged_attention: query is {query.dtype}"
    assert key_size == 1 or query.stride(2) == 1, f"paged_attention: query has strides {query.stride()}"
    assert heads % kv_heads == 0, f"paged_attention: {heads} heads over {kv_heads} of the cache"
    expected = (num_pages, kv_heads, page_size, key_size)
    assert tuple(keys.data.shape) == expected, f"paged_attention: keys {tuple(keys.data.shape)}, expected {expected}"
    for name, stored in (("keys", keys), ("values", values)):
        data = stored.data
        assert data.is_contiguous() and data.dtype in PAGE_DTYPES, f"paged_attention: {name} are {data.dtype}"
        assert data.dtype == keys.data.dtype, f"paged_attention: {name} are {data.dtype}, keys {keys.data.dtype}"
        assert stored.has_scales, f"paged_attention: {name} of {data.dtype} without the scales they need"
        # Numbers that the dtype of query cannot hold would be rounded without a word.
        is_held = data.dtype not in DTYPES or query.dtype in (data.dtype, torch.float32)
        assert is_held, f"paged_attention: {name} are {data.dtype}, query {query.dtype}"
    assert tuple(out.shape) == (tokens, heads, value_size), f"paged_attention: out {tuple(out.shape)}"
    assert out.dtype == query.dtype and out.is_contiguous(), f"paged_attention: out is {out.dtype}"
    assert tuple(parts.shape) == (*part_tops.shape, value_size), f"paged_attention: parts {tuple(parts.shape)}"
    for name, part in (("parts", parts), ("part_tops", part_tops)):
        assert part.dtype == torch.float32 and part.is_contiguous(), f"paged_attention: {name} is {part.dtype}"
        assert part.shape[1] == heads, f"paged_attention: {name} {tuple(part.shape)}, {heads} heads"
    assert sinks is None or tuple(sinks.shape) == (heads,), f"paged_attention: sinks {tuple(sinks.shape)}"
    assert tuple(items.table.shape[1:]) == (ITEM_COLUMNS,), f"paged_attention: items {tuple(items.table.shape)}"
    for name in ("tokens", "firsts", "lasts", "pages"):
        part = getattr(rows, name)
        assert part.dtype == torch.int32 and part.is_contiguous(), f"paged_attention: {name} is {part.dtype}"
