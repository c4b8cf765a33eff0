"""Linears of one input as one product: the queries, keys and values of a layer, the gate and the up of its MLP.

Only of weights that are laid out for compiled code, where a column of a product does not know the others: the same
bits, in fewer calls. The linears stay where they are and keep working; their weights become parts of the joined one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from evalcard_engine.arithmetic import exact_linear
from evalcard_engine.arithmetic.exact_linear import PackedLinear
from evalcard_engine.native.linear import COLUMNS
from evalcard_engine.quant.linear import ExactLinear

QKV = ("q_proj", "k_proj", "v_proj")
GATE_UP = ("gate_proj", "up_proj")

_ATTRIBUTE = "joined_linears"
"""Of a module whose linears were joined. Not a module itself, so that whatever walks over a model meets them once."""


def join(owner: nn.Module, names: Sequence[str]) -> None:
    """Let `project` compute the linears ``names`` of a module together, where they are of a kind that can be."""
    linears = [owner._modules.get(name) for name in names]
    compiled = [one for one in linears if isinstance(one, ExactLinear) and one.weight.compiled is not None]
    if len(compiled) != len(names):
        return
    weights = [one.weight for one in compiled]
    is_whole = all(weight.out_features % COLUMNS == 0 for weight in weights)
    if not is_whole or len({weight.in_features for weight in weights}) > 1:
        return
    biases = [one.bias for one in compiled if one.bias is not None]
    if len(biases) in (0, len(compiled)):
        vars(owner)[_ATTRIBUTE] = _Joined(compiled, biases)


class _Joined:
    """Several linears' weights in one piece."""

    def __init__(self, linears: Sequence[ExactLinear], biases: Sequence[torch.Tensor]) -> None:
        self._linears = linears
        self._sizes = [one.weight.out_features for one in linears]
        packed = torch.cat([_compiled(one) for one in linears])
        self._weight = PackedLinear(sum(self._sizes), linears[0].weight.in_features, compiled=packed)
        self._bias = torch.cat(list(biases)) if biases else None
        parts = packed.split([size // COLUMNS for size in self._sizes])
        for one, part in zip(linears, parts, strict=True):
            one.weight = replace(one.weight, compiled=part)

    @property
    def is_watched(self) -> bool:
        return any(one._forward_hooks for one in self._linears)

    def __call__(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return exact_linear.linear(x, self._weight, self._bias).split(self._sizes, dim=-1)


def _compiled(linear: ExactLinear) -> torch.Tensor:
    assert linear.weight.compiled is not None, linear
    return linear.weight.compiled


def project(owner: Any, names: Iterable[str], x: torch.Tensor) -> Sequence[torch.Tensor]:
    """What the linears ``names`` of a module make of x [..., in]: [..., out] each, with unit stride along the last."""
    joined = vars(owner).get(_ATTRIBUTE)
    if joined is None or joined.is_watched:  # somebody watches the linears one by one
        return [getattr(owner, name)(x) for name in names]
    parts: tuple[torch.Tensor, ...] = joined(x)
    return parts
