"""Attention on the CPU: paged, packed, and exact in the sense that no row depends on the rest of the step.

For a row q and its keys k_j, values v_j: out = sum_j softmax_j(scale * q.k_j) v_j. It is reduced over blocks of 256
keys, each by torch's fused attention or, where that does not serve, by two products; what the blocks give is merged in
order (states.py).
"""

from dataclasses import dataclass

import torch

from evalcard_engine.arithmetic.products import ROW_TILE, batched_product, fused_block, fused_serves
from evalcard_engine.attention.blocks import Blocks, DenseBlocks
from evalcard_engine.attention.plan import Chunk, Geometry, Part
from evalcard_engine.attention.states import State, joined, merge, pick, rows_of, sink
from evalcard_engine.attention.strips import Strip

PREFETCH_ROWS = 64
"""Products of fewer rows are bound by reading their block, which MKL does in an order that memory dislikes."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """What the products of a layer share."""

    blocks: Blocks
    scale: float
    softcap: float | None
    is_fused: bool


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
    rows = query.reshape(-1, key_size).index_select(0, plan.query_rows)
    rows = rows.view(blocks.kv_heads, plan.num_rows, key_size)
    extra = None if sinks is None else sinks.float()[plan.query_rows % heads].view(blocks.kv_heads, plan.num_rows, 1)
    is_fused = softcap is None and fused_serves(blocks.dtype, blocks.kv_heads, (key_size, blocks.value_size))
    layer = _Layer(blocks, scale, softcap, is_fused)
    rows = rows.to(blocks.dtype) if is_fused else rows.float() * scale
    parts = []
    for chunk in plan.chunks:
        found = _chunk(rows[:, chunk.start : chunk.stop], layer, chunk)
        parts.append(found[0] if extra is None else sink(found, extra[:, chunk.start : chunk.stop]))
    out = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
    return out.reshape(-1, blocks.value_size).index_select(0, plan.output_rows).view(num_tokens, heads, -1)


def _chunk(rows: torch.Tensor, layer: _Layer, chunk: Chunk) -> State:
    """One chunk through its waves, of rows [kv_heads, n, key_size]."""
    if chunk.strips is not None:
        return _strip_chunk(rows, layer, chunk)
    first, *others = chunk.waves
    state = joined([_part(rows[:, part.start : part.stop], layer, part) for part in first.parts])
    for wave in others:
        for part in wave.parts:
            merge(rows_of(state, 1, part.start, part.stop), _part(rows[:, part.start : part.stop], layer, part))
    return state


def _part(rows: torch.Tensor, layer: _Layer, part: Part) -> State:
    """What a block, or its beginning, gives the rows of a part."""
    return (_fused_part if layer.is_fused else _plain_part)(rows, layer, part)


def _fused_part(rows: torch.Tensor, layer: _Layer, part: Part) -> State:
    rows = rows[None]
    outs, log_sums = [], []
    for product in part.products:
        some = rows[:, :, product.start : product.stop]
        keys = _beginning(layer.blocks.key(product.block), part.width, some)
        values = _beginning(layer.blocks.value(product.block), part.width, some)
        out, log_sum = fused_block(some, keys, values, layer.scale, product.mask)
        outs.append(out)
        log_sums.append(log_sum)
    top = log_sums[0] if len(log_sums) == 1 else torch.cat(log_sums, dim=2)
    out = outs[0] if len(outs) == 1 else torch.cat(outs, dim=2)
    return out[0].float(), top[0], torch.ones_like(top[0])


def _plain_part(rows: torch.Tensor, layer: _Layer, part: Part) -> State:
    all_scores = []
    for product in part.products:
        some = rows[:, product.start : product.stop]
        keys = _beginning(layer.blocks.key(product.block), part.width, some)[0].float()
        scores = _capped(batched_product(some, keys.transpose(1, 2)), layer.softcap)
        # Adding is far quicker than filling; MASKED drowns every score, and a row hidden as a whole stays finite.
        all_scores.append(scores if product.mask is None else scores.add_(product.mask))
    scores = all_scores[0] if len(all_scores) == 1 else torch.cat(all_scores, dim=1)
    weights, top, total = _softmax(scores)
    found = []
    for product in part.products:
        some = weights[:, product.start : product.stop]
        values = _beginning(layer.blocks.value(product.block), part.width, some)[0].float()
        found.append(batched_product(some, values))
    return found[0] if len(found) == 1 else torch.cat(found, dim=1), top, total


def _beginning(block: torch.Tensor, width: int, rows: torch.Tensor) -> torch.Tensor:
    """The first keys or values of a block [1, kv_heads, BLOCK, size], pulled into the cache in memory order where few
    rows [..., n, k] meet them, which costs less than it saves."""
    if width < block.shape[2]:
        block = block[:, :, :width]
    if rows.shape[-2] <= PREFETCH_ROWS and block.dtype == torch.float32:
        block.sum()  # which is of no interest
    return block


def _capped(scores: torch.Tensor, softcap: float | None) -> torch.Tensor:
    return scores if softcap is None else scores.div_(softcap).tanh_().mul_(softcap)


def _softmax(scores: torch.Tensor) -> State:
    """Weights, largest score, and sum of exponentials."""
    top = scores.amax(-1, keepdim=True)
    weights = torch.softmax(scores, dim=-1)
    # The largest weight of a softmax is e^0 / l.
    return weights, top, weights.amax(-1, keepdim=True).reciprocal_()


def _strip_chunk(rows: torch.Tensor, layer: _Layer, chunk: Chunk) -> State:
    """A chunk of strips: all blocks at once, merged in order."""
    assert chunk.strips is not None and chunk.strip_mask is not None, chunk
    tiles = rows.unflatten(1, (-1, ROW_TILE)).transpose(0, 1).index_select(0, chunk.strips.tiles)
    meet = _fused_strip if layer.is_fused else _plain_strip
    found, start = [], 0
    for strip in chunk.strips.strips:
        these = slice(start, start + strip.count)
        found.append(meet(tiles[these], layer, strip, chunk.strip_mask[these]))
        start += strip.count
    entries = joined(found, dim=0)
    first, *others = chunk.strips.waves
    state = pick(entries, first)
    for wave in others:
        merge(rows_of(state, 0, 0, len(wave)), pick(entries, wave))
    out, top, total = (part.transpose(0, 1).flatten(1, 2) for part in state)
    return out, top, total


def _fused_strip(tiles: torch.Tensor, layer: _Layer, strip: Strip, mask: torch.Tensor) -> State:
    """What every block of a strip gives its tile, of tiles [count, kv_heads, ROW_TILE, key_size]: [count, kv_heads,
    ROW_TILE, value_size], and top and total likewise."""
    keys, values = _blocks(layer, strip)
    out, log_sum = fused_block(tiles, keys, values, layer.scale, mask)
    return out.float(), log_sum, torch.ones_like(log_sum)


def _plain_strip(tiles: torch.Tensor, layer: _Layer, strip: Strip, mask: torch.Tensor) -> State:
    keys, values = _blocks(layer, strip)
    weights, top, total = _softmax(_capped(_times(tiles, keys.float().transpose(2, 3)), layer.softcap).add_(mask))
    return _times(weights, values.float()), top, total


def _blocks(layer: _Layer, strip: Strip) -> tuple[torch.Tensor, torch.Tensor]:
    blocks, these = layer.blocks, slice(strip.first, strip.first + strip.count)
    assert isinstance(blocks, DenseBlocks), type(blocks)
    return blocks.keys[these], blocks.values[these]


def _times(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """left [count, kv_heads, ROW_TILE, k] with as many matrices [count, kv_heads, k, m]."""
    return batched_product(left.flatten(0, 1), right.flatten(0, 1)).unflatten(0, left.shape[:2])
