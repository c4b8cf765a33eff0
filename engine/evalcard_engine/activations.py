"""Activation functions whose every element is rounded alike, wherever it lies in its tensor.

torch's own silu and gelu compute the last few elements of a thread's share with other instructions than the rest, so
their result changes with the shape and the thread count. exp, tanh and erf do not, nor do the basic operations.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from evalcard_engine.errors import UnsupportedModel
from evalcard_engine.native import rowwise
from evalcard_engine.quant.workspace import Workspace


def silu(x: torch.Tensor) -> torch.Tensor:
    """x / (1 + e^-x), float32."""
    return x / torch.exp(-x).add_(1.0)


def gelu(x: torch.Tensor) -> torch.Tensor:
    """x (1 + erf(x / sqrt 2)) / 2, float32."""
    return torch.erf(x * math.sqrt(0.5)).add_(1.0).mul_(x).mul_(0.5)


def gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    """x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, float32 (Hendrycks and Gimpel, arXiv 1606.08415)."""
    inner = (x * x).mul_(0.044715).add_(1.0).mul_(x).mul_(math.sqrt(2 / math.pi))
    return inner.tanh_().add_(1.0).mul_(x).mul_(0.5)


def sigmoid(x: torch.Tensor) -> torch.Tensor:
    """1 / (1 + e^-x), computed in float32 and returned in x's dtype; torch's own has the faults of its silu."""
    return torch.exp(-x.float()).add_(1.0).reciprocal_().to(x.dtype)


ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": silu,
    "swish": silu,
    "gelu": gelu,
    "gelu_pytorch_tanh": gelu_tanh,
    "relu": torch.relu,
}
"""By the name in config.json."""


def activation_name(config: Any) -> str:
    """Of an MLP, by transformers' config: Gemma has a key of its own, which is the one that counts."""
    return str(getattr(config, "hidden_activation", None) or config.hidden_act)


class ExactActivation(nn.Module):
    """One of ACTIVATIONS, computed in float32 and returned in the dtype of its input."""

    def __init__(self, name: str) -> None:
        super().__init__()
        if name not in ACTIVATIONS:
            raise UnsupportedModel(
                f"the activation {name!r} has no exact form here (known: {', '.join(sorted(ACTIVATIONS))}). "
                "Try --backend vllm or --backend hf."
            )
        self._function = ACTIVATIONS[name]
        self.is_compiled = False
        """Whether native/rowwise.c makes gates of it, where it is silu."""

    @property
    def is_compiled_silu(self) -> bool:
        return self.is_compiled and self._function is silu

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_compiled_silu:
            rows = x.reshape(-1, x.shape[-1])
            return rowwise.silu_mul(rows, torch.ones_like(rows)).view(x.shape)
        return self._function(x.float()).to(x.dtype)

    def gate(self, gate: torch.Tensor, up: torch.Tensor, workspace: Workspace) -> torch.Tensor:
        """self(gate) * up, of one shape [rows, width] and dtype, in as few passes as give the same bits.

        May overwrite ``gate``; what lies between is written to ``workspace``.
        """
        if self.is_compiled_silu:
            rows, width = gate.shape
            out = gate if gate.is_contiguous() else workspace.take("gated", rows, width, gate.dtype)
            return rowwise.silu_mul(gate, up, out=out)
        if self._function is not silu:
            return self(gate).mul_(up)
        numbers, (rows, width) = gate, gate.shape
        if gate.dtype != torch.float32:
            numbers = workspace.take("gate in float32", rows, width, torch.float32).copy_(gate)
        spare = workspace.take("spare", rows, width, torch.float32)
        numbers.div_(torch.neg(numbers, out=spare).exp_().add_(1.0))
        return (gate if numbers is gate else gate.copy_(numbers)).mul_(up)
