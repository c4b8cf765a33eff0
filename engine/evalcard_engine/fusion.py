"""What the CPU does in one go where transformers' modules take several steps, without changing a bit.

Linears of one input are one product, or share its codes where they quantize it, and an MLP runs in blocks of rows, so
that what lies between its linears stays near the processor. Modules stay transformers' own, with their names.
"""

from types import MethodType
from typing import Any

import torch
from torch import nn

from evalcard_engine.activations import ExactActivation
from evalcard_engine.joined import GATE_UP, QKV, join, project
from evalcard_engine.native import rowwise
from evalcard_engine.quant.int8_linear import Int8Linear, TokenCodes, quantize_rows
from evalcard_engine.quant.linear import ExactLinear
from evalcard_engine.quant.workspace import Workspace

SHARED_INPUTS = (QKV, GATE_UP)
"""Linears of one module that every family here calls one after the other with the same tensor."""

MLP = ("gate_proj", "up_proj", "down_proj")

BLOCK_ROWS = 512
"""Of an MLP: enough for the full speed of its products, few enough that what lies between them stays in the cache."""

BLOCKED = (ExactLinear, Int8Linear)
"""Linears as fast in blocks as in one piece; one that unpacks its weight anew for every product is not among them."""


def fuse(module: nn.Module) -> None:
    """Prepare the layers of a causal language model on the CPU, once their weights are filled in."""
    workspace = Workspace()
    for owner in module.get_submodule("model.layers").modules():
        _share_codes(owner, workspace)
        for names in SHARED_INPUTS:
            join(owner, names)
        if all(isinstance(owner._modules.get(name), BLOCKED) for name in MLP) and _activation(owner) is not None:
            mlp: Any = owner
            mlp.workspace = workspace
            # Of the object, not of its class, which another engine in the process may use otherwise.
            vars(mlp)["forward"] = MethodType(_mlp, mlp)


def _share_codes(owner: nn.Module, workspace: Workspace) -> None:
    """Let the integer linears among a module's own that get the same tensor quantize it once."""
    integer = {name: one for name, one in owner.named_children() if isinstance(one, Int8Linear)}
    groups = [[name for name in names if name in integer] for names in SHARED_INPUTS]
    groups += [[name] for name in integer if not any(name in names for names in SHARED_INPUTS)]
    for group in groups:
        tokens = TokenCodes(len(group))
        for name in group:
            integer[name].share(tokens, workspace)


def _activation(mlp: nn.Module) -> ExactActivation | None:
    """The activation function of an MLP, whichever of its names it goes by."""
    found = mlp._modules.get("act_fn", mlp._modules.get("activation_fn"))
    return found if isinstance(found, ExactActivation) else None


def _mlp(self: Any, x: torch.Tensor) -> torch.Tensor:
    """An MLP of x [..., hidden]: down(act(gate(x)) * up(x)), block by block."""
    linears = [getattr(self, name) for name in MLP]
    if any(linear._forward_hooks for linear in linears):  # somebody watches the linears one by one
        return type(self).forward(self, x)
    rows = x.reshape(-1, x.shape[-1])
    are_integer = all(isinstance(linear, Int8Linear) for linear in linears)
    if are_integer and rowwise.serves(x.dtype) and _makes_codes(self):
        return _compiled_blocks(self, rows).view(x.shape)
    is_integer = are_integer and x.dtype == torch.float32
    return (_integer_blocks if is_integer else _blocks)(self, rows).view(x.shape)


def _blocks(mlp: Any, rows: torch.Tensor) -> torch.Tensor:
    if len(rows) <= BLOCK_ROWS:
        return _block(mlp, rows)
    out = torch.empty_like(rows)
    for block, into in zip(rows.split(BLOCK_ROWS), out.split(BLOCK_ROWS), strict=True):
        into.copy_(_block(mlp, block))
    return out


def _block(mlp: Any, rows: torch.Tensor) -> torch.Tensor:
    act = _activation(mlp)
    assert act is not None, type(mlp)
    gate, up = project(mlp, GATE_UP, rows)
    out: torch.Tensor = mlp.down_proj(act.gate(gate, up, mlp.workspace))
    return out


def _integer_blocks(mlp: Any, rows: torch.Tensor) -> torch.Tensor:
    """With integer linears rows are quantized once, and what the products give lies in memory that is used again."""
    width, workspace, act = mlp.down_proj.codes.shape[1], mlp.workspace, _activation(mlp)
    assert act is not None, type(mlp)
    out, (codes, scales) = torch.empty_like(rows), quantize_rows(rows, workspace)
    for part, scale, into in zip(*(each.split(BLOCK_ROWS) for each in (codes, scales, out)), strict=True):
        gate, up = (workspace.take(name, len(part), width, torch.float32) for name in ("gate", "up"))
        mlp.gate_proj.scaled(part, scale, gate)
        mlp.up_proj.scaled(part, scale, up)
        mlp.down_proj.scaled(*quantize_rows(act.gate(gate, up, workspace), workspace), into)
    return out


def _makes_codes(mlp: Any) -> bool:
    """Whether the gate's numbers can become codes in the pass that makes them."""
    act = _activation(mlp)
    return act is not None and act.is_compiled_silu and mlp.gate_proj.bias is None and mlp.up_proj.bias is None


def _compiled_blocks(mlp: Any, rows: torch.Tensor) -> torch.Tensor:
    """`_integer_blocks` whose gates become codes in one pass, for rows of any dtype that rowwise.c serves."""
    workspace, width = mlp.workspace, mlp.down_proj.codes.shape[1]
    out, (codes, scales) = torch.empty_like(rows), quantize_rows(rows, workspace)
    for part, scale, into in zip(*(each.split(BLOCK_ROWS) for each in (codes, scales, out)), strict=True):
        gate, up = mlp.gate_proj.integers(part, "gate"), mlp.up_proj.integers(part, "up")
        gated, gated_scales = workspace.take("codes", len(part), width, torch.int8), scale.new_empty(scale.shape)
        columns = mlp.gate_proj.scales, mlp.up_proj.scales
        rowwise.silu_mul_codes(gate, up, scale, *columns, gated, gated_scales, rows.dtype)
        mlp.down_proj.scaled(gated, gated_scales, into)
    return out
