"""Attention on the CPU: paged, packed, and exact in the sense that no row depends on the rest of the step.

For a row q and its keys k_j, values v_j: out = sum_j softmax_j(scale * q.k_j) v_j. It is reduced over blocks of 256
keys; a block gives its own softmax average o, its largest score m and its sum l of e^(s - m), and blocks are merged in
order (online softmax: Milakov and Gimelshein, arXiv 1805.02867) with M' = max(M, m), A = L e^(M - M'),
B = l e^(m - M'), L' = A + B, O' = O A / L' + o B / L'.
A sink, one more score t of no token, comes last: O' = O A / (A + e^(t - M')) with M' = max(M, t).
"""

from collections.abc import Callable

import torch

from evalcard_engine.attention.blocks import Blocks, DenseBlocks
from evalcard_engine.attention.plan import Chunk, Geometry, Part, Product
from evalcard_engine.attention.strips import Strip, StripPlan
from evalcard_engine.numerics import ROW_TILE, batched_product

PREFETCH_ROWS = 64
"""Products of fewer rows are bound by reading their block, which MKL does in an order that memory dislikes."""

State = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Average of the values so far [kv_heads, n, value_size], largest score and sum of exponentials [kv_heads, n, 1]."""


def attend(
    query: torch.Tensor,
    blocks: Blocks,
    plan: Geometry,
    scale: float,
    softcap: float | None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """query [num_tokens, heads, key_size] over the step's blocks of a layer; sinks [heads], where it has any.

    Returns float32 [num_tokens, heads, value_size].
    """
    num_tokens, heads, key_size = query.shape
    rows = (query.reshape(-1, key_size).float() * scale).index_select(0, plan.query_rows)
    rows = rows.view(blocks.kv_heads, plan.num_rows, key_size)
    extra = None if sinks is None else sinks.float()[plan.query_rows % heads].view(blocks.kv_heads, plan.num_rows, 1)
    parts = []
    for chunk in plan.chunks:
        found = _chunk(rows[:, chunk.start : chunk.stop], blocks, chunk, softcap)
        parts.append(found[0] if extra is None else _sink(found, extra[:, chunk.start : chunk.stop]))
    out = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
    return out.view(-1, blocks.value_size).index_select(0, plan.output_rows).view(num_tokens, heads, -1)


def _chunk(rows: torch.Tensor, blocks: Blocks, chunk: Chunk, softcap: float | None) -> State:
    """One chunk through its waves, of rows [kv_heads, n, key_size]."""
    if chunk.strips is not None:
        return _strip_chunk(rows, blocks, chunk, softcap)
    first, *others = chunk.waves
    found = [_part(rows[:, part.start : part.stop], blocks, part, softcap) for part in first.parts]
    state = _joined(found)
    for wave in others:
        for part in wave.parts:
            block = _part(rows[:, part.start : part.stop], blocks, part, softcap)
            _merge(_rows_of(state, 1, part.start, part.stop), block)
    return state


def _rows_of(state: State, dim: int, start: int, stop: int) -> State:
    out, top, total = (part.narrow(dim, start, stop - start) for part in state)
    return out, top, total


def _strip_chunk(rows: torch.Tensor, blocks: Blocks, chunk: Chunk, softcap: float | None) -> State:
    """A chunk of strips: whole blocks all at once, merged in order, then each tile's last block."""
    assert isinstance(blocks, DenseBlocks) and chunk.strips is not None and chunk.last_tiles is not None, type(blocks)
    tiles = rows.unflatten(1, (-1, ROW_TILE)).transpose(0, 1)
    entries = _entries(tiles.contiguous(), blocks, chunk.strips, softcap)
    first, *others = chunk.strips.waves
    state = _pick(entries, first)
    for wave in others:
        _merge(_rows_of(state, 0, 0, len(wave)), _pick(entries, wave))
    order, (last,) = chunk.last_tiles, chunk.waves
    ordered = tiles.index_select(0, order).transpose(0, 1).flatten(1, 2)
    parts = [_part(ordered[:, part.start : part.stop], blocks, part, softcap) for part in last.parts]
    found = _joined(parts)
    tiled = [part.unflatten(1, (-1, ROW_TILE)).transpose(0, 1) for part in found]
    _merge(state, _pick((tiled[0], tiled[1], tiled[2]), torch.argsort(order)))
    out, top, total = (part.transpose(0, 1).flatten(1, 2) for part in state)
    return out, top, total


def _pick(state: State, places: torch.Tensor) -> State:
    out, top, total = (part.index_select(0, places) for part in state)
    return out, top, total


def _entries(tiles: torch.Tensor, blocks: DenseBlocks, plan: StripPlan, softcap: float | None) -> State:
    """What every whole block gives its tile, of tiles [n, kv_heads, ROW_TILE, key_size]: [entries, kv_heads, ROW_TILE,
    value_size], and top and total likewise."""
    scores = torch.cat([_strip(tiles[s.tile].expand(s.count, -1, -1, -1), blocks.keys, s, True) for s in plan.strips])
    if softcap is not None:
        scores = scores.div_(softcap).tanh_().mul_(softcap)
    top = scores.amax(-1, keepdim=True)
    weights = torch.softmax(scores, dim=-1)
    total = weights.amax(-1, keepdim=True).reciprocal_()
    each = weights.split([s.count for s in plan.strips])
    out = torch.cat([_strip(some, blocks.values, s, False) for some, s in zip(each, plan.strips, strict=True)])
    return out, top, total


def _strip(left: torch.Tensor, pool: torch.Tensor, strip: Strip, is_turned: bool) -> torch.Tensor:
    """left [count, kv_heads, ROW_TILE, k] with the strip's blocks, turned or as they lie."""
    right = pool[strip.first : strip.first + strip.count].flatten(0, 1)
    right.sum()  # as in _product
    right = right.transpose(1, 2) if is_turned else right
    return batched_product(left.flatten(0, 1), right).unflatten(0, (strip.count, -1))


def _joined(found: list[State]) -> State:
    if len(found) == 1:
        return found[0]
    out, top, total = (torch.cat(each, dim=1) for each in zip(*found, strict=True))
    return out, top, total


def _part(rows: torch.Tensor, blocks: Blocks, part: Part, softcap: float | None) -> State:
    """What a block, or its beginning, gives the rows of a part."""
    width = part.width
    scores = _multiply(rows, part.products, lambda number: blocks.key(number)[:, :width].transpose(1, 2))
    if softcap is not None:
        scores = scores.div_(softcap).tanh_().mul_(softcap)
    if part.mask is not None:
        # Adding is far quicker than filling; MASKED drowns every score, and a row hidden as a whole stays finite.
        scores[:, part.mask_start : part.mask_start + part.mask.shape[0]] += part.mask
    top = scores.amax(-1, keepdim=True)
    weights = torch.softmax(scores, dim=-1)
    # The largest weight of a softmax is e^0 / l.
    total = weights.amax(-1, keepdim=True).reciprocal_()
    return _multiply(weights, part.products, lambda number: blocks.value(number)[:, :width]), top, total


def _sink(state: State, sinks: torch.Tensor) -> torch.Tensor:
    """The averages once a score without a value, float32 [kv_heads, n, 1], has taken its share; in place."""
    out, top, total = state
    new_top = torch.maximum(top, sinks)
    share = total * torch.exp(top - new_top)
    return out.mul_(share / (share + torch.exp(sinks - new_top)))


def _merge(state: State, block: State) -> None:
    """Add a block to the state, in place."""
    out, top, total = state
    block_out, block_top, block_total = block
    new_top = torch.maximum(top, block_top)
    old_share = total * torch.exp(top - new_top)
    new_share = block_total * torch.exp(block_top - new_top)
    new_total = old_share + new_share
    out.mul_(old_share.div_(new_total)).add_(block_out.mul_(new_share.div_(new_total)))
    top.copy_(new_top)
    total.copy_(new_total)


def _multiply(rows: torch.Tensor, products: tuple[Product, ...], block: Callable[[int], torch.Tensor]) -> torch.Tensor:
    """rows [kv_heads, n, k] with blocks [kv_heads, k, m], by number, as the products say: [kv_heads, n', m]."""
    parts = [_product(rows[:, product.start : product.stop], block(product.block)) for product in products]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def _product(rows: torch.Tensor, block: torch.Tensor) -> torch.Tensor:
    if rows.shape[1] <= PREFETCH_ROWS:
        # Pulls the block into the cache in memory order, which costs less than it saves; the sum is of no interest.
        block.sum()
    return batched_product(rows, block)
