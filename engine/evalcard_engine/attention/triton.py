"""Attention by Triton kernels, on GPUs and in Triton's interpreter: a step's plan, and a layer's launches."""

from collections.abc import Sequence

import torch

from evalcard_engine.attention.paged_plan import HostPlan, PagedPlan, host_plan
from evalcard_engine.batch import Span
from evalcard_engine.cache.pool import KVPool
from evalcard_engine.kernels.launch import capability
from evalcard_engine.kernels.merge_parts import merge_parts
from evalcard_engine.kernels.paged_attention import paged_attention, tiles_of
from evalcard_engine.transfer import send


def plan_step(spans: Sequence[Span], pool: KVPool, heads: int, kv_heads: int, window: int | None) -> PagedPlan:
    """`host_step` on the pool's device."""
    plan = host_step(spans, pool, heads, kv_heads, window)
    return plan.received(send(plan.arrays, pool.keys[0].device))


def host_step(spans: Sequence[Span], pool: KVPool, heads: int, kv_heads: int, window: int | None) -> HostPlan:
    """What every layer with this window does in a step; all layers have the head sizes of the first."""
    key_size, value_size = pool.keys[0].shape[3], pool.values[0].shape[3]
    tiles = tiles_of(pool.dtype, key_size, value_size, pool.is_coded, capability(pool.keys[0].device))
    return host_plan(spans, pool.page_size, heads, kv_heads, window, tiles)


def attend(
    query: torch.Tensor,
    pool: KVPool,
    layer: int,
    plan: PagedPlan,
    *,
    scale: float,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """query [num_tokens, heads, key_size] over what the pool holds: [num_tokens, heads, value_size], in query's dtype.

    Scores, weights' sums and merges are float32; weights are rounded to query's dtype before they meet values.
    """
    keys, values = pool.stored(layer)
    num_tokens, heads, _ = query.shape
    value_size = values.data.shape[3]
    out = query.new_empty(num_tokens, heads, value_size)
    parts = query.new_empty(plan.num_parts, heads, value_size, dtype=torch.float32)
    tops = query.new_empty(plan.num_parts, heads, dtype=torch.float32)
    for items in plan.items:
        paged_attention(query, keys, values, items, plan.rows, out, parts, tops, scale=scale, softcap=softcap,
                        sinks=sinks)  # fmt: skip
    merge_parts(parts, tops, plan.merged_tokens, plan.merge_starts, plan.merge_order, out)
    return out
