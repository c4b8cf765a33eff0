"""How a transformers model calls our attention: a registered function, and a step passed down as an argument."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from evalcard_engine.arithmetic.products import exact_widths
from evalcard_engine.attention import compiled, cpu, torch_ref
from evalcard_engine.attention.blocks import read_blocks
from evalcard_engine.attention.plan import BlockTable, Geometry, block_table, geometry
from evalcard_engine.attention.reach import Chunked, Reach
from evalcard_engine.attention.rules import LayerRule
from evalcard_engine.attention.temperature import Temperature
from evalcard_engine.batch import Batch, Span
from evalcard_engine.cache.pool import KVPool
from evalcard_engine.quant.workspace import Workspace
from evalcard_engine.torchao_noise import quiet_torchao
from evalcard_engine.transfer import send

if TYPE_CHECKING:  # Triton is not everywhere
    from evalcard_engine.attention.paged_plan import HostPlan, PagedPlan

ATTENTION_NAME = "evalcard_packed"
"""transformers builds masks and caches of its own for names that contain flash, sdpa or paged; this one has none."""

STEP_ARGUMENT = "evalcard_step"
"""The keyword argument that carries the step through the model's own forward."""


Rotary = tuple[torch.Tensor, torch.Tensor]
"""Cosines and sines [1, num_tokens, size], in the dtype computed in."""


@dataclass(frozen=True, slots=True)
class Step:
    """Everything the layers of one forward pass share."""

    batch: Batch
    pool: KVPool
    rows: torch.Tensor
    """int64 [num_tokens * kv_heads], from KVPool.slot_rows."""
    rules: Sequence[LayerRule]
    """By layer."""
    factors: Mapping[Temperature, torch.Tensor]
    """What each temperature is for this step's tokens: float32 [num_tokens]."""
    rotary: Rotary | None = None
    """Instead of the model's own, where they go by sequence."""
    table: BlockTable | None = None
    """The CPU's alone, as are ``geometries``."""
    geometries: Mapping[Reach, Geometry] | None = None
    compiled_plans: "CompiledPlans | None" = None
    """Instead of these two, where compiled code attends."""
    paged_plans: "Mapping[Reach, PagedPlan] | None" = None
    """Likewise, where Triton's kernels attend. Without any plan the plain definition does."""
    last: "LastRows | None" = None
    """Where the last layer computes only some of the rows."""
    is_store_only: bool = False
    """Keys and values are all that is wanted of a layer: `Stored` is raised once they are in the pool."""


@dataclass(frozen=True, slots=True)
class CompiledPlans:
    """A step's plan for each reach, and where they may all work."""

    by_reach: Mapping[Reach, compiled.CompiledPlan]
    workspace: Workspace


@dataclass(frozen=True, slots=True)
class LastRows:
    """The rows of a step whose logits are asked for, as a step of their own."""

    rows: torch.Tensor
    """int64 [num_kept], ascending: their places in the packed row."""
    step: Step


class Stored(Exception):
    """No fault: a layer's keys and values are stored, and nothing else is wanted of it."""


def prepare_step(
    batch: Batch,
    pool: KVPool,
    heads: int,
    kv_heads: int,
    rules: Sequence[LayerRule],
    rotary: Rotary | None = None,
    *,
    kernels: bool = False,
    plans: "Mapping[Reach, PagedPlan] | None" = None,
    workspace: Workspace | None = None,
) -> Step:
    """Plan one step for every layer of a model whose attention follows these rules; ``kernels``: for Triton's, where
    they serve all of them. ``plans``: those of `plan_attention`, on the device, where they are made already.
    ``workspace``: for compiled attention, which must serve the pool."""
    assert batch.page_size == pool.page_size, (batch.page_size, pool.page_size)
    rows = pool.slot_rows(batch.slots)
    temperatures = {rule.temperature for rule in rules if rule.temperature is not None}
    factors = {one: one.factors(batch.positions) for one in temperatures}
    if kernels and plans is None and (made := plan_attention(batch.spans, pool, heads, kv_heads, rules)) is not None:
        device = batch.token_ids.device
        plans = {reach: plan.received(send(plan.arrays, device)) for reach, plan in made.items()}
    if plans is not None:
        return Step(batch, pool, rows, rules, factors, rotary, paged_plans=plans)
    if kernels or batch.token_ids.device.type != "cpu":
        return Step(batch, pool, rows, rules, factors, rotary)
    reaches = {rule.reach for rule in rules}
    if workspace is not None:
        by_reach = {reach: compiled.plan_step(batch.spans, pool, heads, kv_heads, reach) for reach in reaches}
        return Step(batch, pool, rows, rules, factors, rotary, compiled_plans=CompiledPlans(by_reach, workspace))
    # A pool that holds NaN is cleaned on the way from the pages to the blocks.
    table = block_table(batch.spans, batch.page_size, gather=pool.tainted)
    dtype = torch.float32 if pool.is_coded else pool.keys[0].dtype
    widths = exact_widths(dtype, kv_heads, (pool.keys[0].shape[-1], pool.values[0].shape[-1]))
    geometries = {
        reach: geometry(batch.spans, table, heads, kv_heads, reach, widths, are_strips=not pool.is_coded)
        for reach in reaches
    }
    return Step(batch, pool, rows, rules, factors, rotary, table, geometries)


def plan_attention(
    spans: Sequence[Span], pool: KVPool, heads: int, kv_heads: int, rules: Sequence[LayerRule]
) -> "dict[Reach, HostPlan] | None":
    """What Triton's kernels do in a step, on the host and without waiting for anything; None where they do not serve
    every layer."""
    reaches = {rule.reach for rule in rules}
    if any(isinstance(reach, Chunked) for reach in reaches):
        return None
    from evalcard_engine.attention import triton

    windows = {reach for reach in reaches if not isinstance(reach, Chunked)}
    return {window: triton.host_step(spans, pool, heads, kv_heads, window) for window in windows}


def register() -> None:
    """Make the function known to transformers under ATTENTION_NAME; doing it twice changes nothing."""
    with quiet_torchao():
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(ATTENTION_NAME, packed_attention)


def packed_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **kwargs: object,
) -> tuple[torch.Tensor, None]:
    """transformers' attention interface: query [1, heads, num_tokens, size], key and value with their own heads;
    s_aux [heads], the sinks of gpt-oss.

    Stores the new keys and values, then attends over each sequence's pages: over what they hold now, rounded where the
    pool stores codes, so that a token's own step sees what every later one will. Returns
    [1, num_tokens, heads, value_size] and no attention weights.
    """
    step = kwargs[STEP_ARGUMENT]
    assert isinstance(step, Step), type(step)
    assert attention_mask is None and dropout == 0.0 and query.shape[0] == 1, (type(attention_mask), dropout)
    layer = module.layer_idx
    assert isinstance(layer, int), layer
    rule = step.rules[layer]
    # Some families leave the window to a mask, which we have none of; whoever names one names ours.
    assert sliding_window is None or sliding_window == rule.reach, (layer, sliding_window, rule)
    step.pool.write(layer, step.rows, key[0].transpose(0, 1), value[0].transpose(0, 1))
    if step.is_store_only:
        raise Stored
    rows = query[0].transpose(0, 1)
    if rule.temperature is not None:
        rows = (rows * step.factors[rule.temperature][:, None, None]).to(rows.dtype)
    out = attend(rows, step, layer, scaling, softcap, s_aux)
    return out.to(query.dtype)[None], None


def attend(
    rows: torch.Tensor,
    step: Step,
    layer: int,
    scaling: float,
    softcap: float | None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Queries [num_tokens, heads, key_size] over what the pool holds of each sequence, this step's tokens included:
    [num_tokens, heads, value_size], float32, or by kernels in the dtype of rows, or by compiled code in that of the
    pool. sinks: [heads], where the layer has any."""
    reach = step.rules[layer].reach
    if step.paged_plans is not None:
        from evalcard_engine.attention import triton

        plan = step.paged_plans[reach]
        return triton.attend(rows, step.pool, layer, plan, scale=scaling, softcap=softcap, sinks=sinks)
    if step.compiled_plans is not None:
        pages = step.pool.keys[layer], step.pool.values[layer]
        plans = step.compiled_plans
        return compiled.attend(
            rows, *pages, plans.by_reach[reach], plans.workspace, scale=scaling, softcap=softcap, sinks=sinks
        )
    if step.table is None or step.geometries is None:
        return torch_ref.attend(
            rows, step.pool, layer, step.batch, scale=scaling, window=reach, softcap=softcap, sinks=sinks
        )
    blocks = read_blocks(step.pool, layer, step.table)
    return cpu.attend(rows, blocks, step.geometries[reach], scaling, softcap, sinks)
