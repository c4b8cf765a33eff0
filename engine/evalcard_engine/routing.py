"""Routers of mixtures of experts on the CPU: transformers' own code, with the operators that round by company replaced.

A router is a product and a few functions of its rows, which families spell differently. Its code runs as it is, and
while it runs, its product and any sigmoid are the exact ones.
"""

from collections.abc import Mapping
from types import MethodType
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode

from evalcard_engine.activations import sigmoid
from evalcard_engine.arithmetic.exact_linear import PackedLinear, linear, pack_linear

_SIGMOIDS = frozenset({torch.sigmoid, torch.Tensor.sigmoid})
ROUTERS = ("gate", "router")
"""As transformers' modules call them."""


class _ExactOperators(TorchFunctionMode):
    """F.linear of the one weight there is, if any, and sigmoid, in forms that round each row or element alone."""

    def __init__(self, has_weight: bool) -> None:
        super().__init__()
        self._has_weight = has_weight
        self._packed: PackedLinear | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        if func is F.linear and self._has_weight:
            x, weight, *bias = args
            if self._packed is None:  # as the router's own code has it by now: some widen it
                self._packed = pack_linear(weight)
            return linear(x, self._packed, bias[0] if bias else (kwargs or {}).get("bias"))
        if func in _SIGMOIDS:
            return sigmoid(args[0])
        return func(*args, **(kwargs or {}))


def make_routers_exact(module: nn.Module) -> None:
    """Prepare all routers of a model on the CPU."""
    for owner in module.modules():
        if "experts" not in owner._modules:
            continue
        for name in ROUTERS:
            router = owner._modules.get(name)
            if router is not None:
                _replace(router, _ExactOperators(has_weight=True))
        if "shared_expert_gate" in owner._modules:  # whose sigmoid the layer itself takes
            _replace(owner, _ExactOperators(has_weight=False))


def _replace(owner: nn.Module, operators: _ExactOperators) -> None:
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        with operators:
            return type(self).forward(self, *args, **kwargs)

    # Of the object, not of its class, which another engine in the process may use otherwise.
    vars(owner)["forward"] = MethodType(forward, owner)
