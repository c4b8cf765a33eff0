"""What a transformers layer does between its linears, in one go each: norms, gates, rotary embedding and cache writes.

Two sets of functions do it: Triton's kernels on a GPU, compiled C on the CPU.
Modules stay transformers' own, with their weights and names; only their ``forward`` is replaced, so whatever walks over
a model (filling it, watching it for values that are not finite) finds what it knows. Each stands for the code of
transformers' module of the same families, which tests hold it against.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import MethodType
from typing import Any

import torch
from torch import nn

from evalcard_engine.activations import activation_name
from evalcard_engine.attention.hook import STEP_ARGUMENT, Step, Stored, attend
from evalcard_engine.family import Family
from evalcard_engine.joined import QKV, project
from evalcard_engine.native import rowwise

NORM_ADDS_ONE = {
    "llama": False, "mistral": False, "qwen2": False, "qwen3": False, "gemma3": True, "gemma3_text": True,
}  # fmt: skip
"""By model type: whether norms store their weight less one. A family that is not here keeps torch's modules."""


@dataclass(frozen=True, slots=True)
class RowFunctions:
    """Functions of one signature, whoever computes them; kernels/ and native/rowwise.py say what they do."""

    rms_norm: Callable[..., tuple[torch.Tensor, torch.Tensor]]
    silu_mul: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    rotary_cache: Callable[..., torch.Tensor]


def triton_functions() -> RowFunctions:
    from evalcard_engine.kernels.rms_norm import rms_norm
    from evalcard_engine.kernels.rotary_cache import rotary_cache
    from evalcard_engine.kernels.silu_mul import silu_mul

    return RowFunctions(rms_norm, silu_mul, rotary_cache)


def compiled_functions() -> RowFunctions:
    return RowFunctions(rowwise.rms_norm, rowwise.silu_mul, rowwise.rotary_cache)


def hook_modules(module: nn.Module, family: Family, functions: RowFunctions) -> tuple[str, ...]:
    """Let ``functions`` compute what they can of a causal language model, before or after its weights are filled in.

    Returns what they compute, in words: ``norms``, ``gates``, ``rotary and cache writes``; nothing for a family
    without an entry in NORM_ADDS_ONE.
    """
    adds_one = NORM_ADDS_ONE.get(family.model_type)
    if adds_one is None:
        return ()
    for norm in module.modules():
        if type(norm).__name__.endswith("RMSNorm"):
            _replace(norm, partial(_norm, rms_norm=functions.rms_norm, adds_one=adds_one))
    has_gates = False
    layers = module.get_submodule("model.layers")
    for layer in layers.children():
        attention, mlp = layer.get_submodule("self_attn"), layer.get_submodule("mlp")
        _replace(attention, partial(_attention, rotary_cache=functions.rotary_cache))
        _replace(layer, _four_norms if hasattr(layer, "pre_feedforward_layernorm") else _two_norms)
        if _is_silu(mlp):
            _replace(mlp, partial(_gated, silu_mul=functions.silu_mul))
            has_gates = True
    return "norms", *(("gates",) if has_gates else ()), "rotary and cache writes"


def _replace(module: nn.Module, forward: Callable[..., Any]) -> None:
    # Of the object, not of its class: another engine in the process may run the same class on the CPU.
    vars(module)["forward"] = MethodType(forward, module)


def _is_silu(mlp: nn.Module) -> bool:
    return activation_name(mlp.config) in ("silu", "swish")


def _norm(
    self: Any,
    x: torch.Tensor,
    residual: torch.Tensor | None = None,
    *,
    rms_norm: Callable[..., tuple[torch.Tensor, torch.Tensor]],
    adds_one: bool,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """x [..., width] -> its norm; with a residual of its shape (the norm of x + residual, x + residual)."""
    eps = self.eps if adds_one else self.variance_epsilon
    width = x.shape[-1]
    added = None if residual is None else residual.reshape(-1, width)
    out, total = rms_norm(x.reshape(-1, width), self.weight, eps, added, add_one=adds_one)
    return out.view(x.shape) if residual is None else (out.view(x.shape), total.view(x.shape))


def _gated(
    self: Any, x: torch.Tensor, *, silu_mul: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """An MLP of x [..., hidden]: down(silu(gate(x)) * up(x))."""
    gate, up = self.gate_proj(x), self.up_proj(x)
    width = gate.shape[-1]
    return self.down_proj(silu_mul(gate.reshape(-1, width), up.reshape(-1, width)).view(gate.shape))


def _two_norms(self: Any, hidden_states: torch.Tensor, **kwargs: Any) -> torch.Tensor:
    """A layer with one norm before attention and one before the MLP."""
    attended, _ = self.self_attn(hidden_states=self.input_layernorm(hidden_states), **kwargs)
    normed, total = self.post_attention_layernorm(attended, hidden_states)
    return total + self.mlp(normed)


def _four_norms(self: Any, hidden_states: torch.Tensor, **kwargs: Any) -> torch.Tensor:
    """A layer whose attention and MLP are also normed on the way out."""
    attended, _ = self.self_attn(hidden_states=self.input_layernorm(hidden_states), **kwargs)
    normed, total = self.pre_feedforward_layernorm(self.post_attention_layernorm(attended), hidden_states)
    return total + self.post_feedforward_layernorm(self.mlp(normed))


def _attention(
    self: Any,
    hidden_states: torch.Tensor,
    position_embeddings: tuple[torch.Tensor, torch.Tensor],
    *,
    rotary_cache: Callable[..., torch.Tensor],
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """hidden_states [1, num_tokens, hidden] -> the attention of the step's sequences, of the same shape."""
    step = kwargs[STEP_ARGUMENT]
    assert isinstance(step, Step) and hidden_states.shape[0] == 1, (type(step), tuple(hidden_states.shape))
    num_tokens = hidden_states.shape[1]
    query, key, value = (part.view(num_tokens, -1, self.head_dim) for part in project(self, QKV, hidden_states))
    if hasattr(self, "q_norm"):
        query, key = self.q_norm(query), self.k_norm(key)
    rows = _rotate_and_store(rotary_cache, query, key, value, position_embeddings, step, self.layer_idx)
    if step.is_store_only:
        raise Stored
    out = attend(rows, step, self.layer_idx, self.scaling, None)
    return self.o_proj(out.to(query.dtype).view(1, num_tokens, -1)), None


def _rotate_and_store(
    rotary_cache: Callable[..., torch.Tensor],
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    position_embeddings: tuple[torch.Tensor, torch.Tensor],
    step: Step,
    layer: int,
) -> torch.Tensor:
    """Rotated queries [num_tokens, heads, size]; rotated keys, and values, go to the step's slots of the pool."""
    cos, sin = (table[0].contiguous() for table in position_embeddings)
    pool, slots = step.pool, step.batch.slots
    if not pool.is_coded:
        # Nothing that attends to a pool filled here reads what lies behind a sequence's end.
        return rotary_cache(query, key, value, cos, sin, slots, pool.keys[layer], pool.values[layer])
    # Codes are made in torch, which wants the rotated keys themselves: they go to pages of one token each.
    num_tokens, kv_heads, size = key.shape
    keys, values = (part.new_empty(num_tokens, kv_heads, 1, size) for part in (key, value))
    places = torch.arange(num_tokens, device=slots.device)
    rotated = rotary_cache(query, key, value, cos, sin, places, keys, values)
    pool.write(layer, step.rows, keys[:, :, 0], value)
    return rotated
