"""The linears that stand where a transformers model had its own: packed and exact, or quantized."""

import torch
import torch.nn.functional as F
from torch import nn

from evalcard_engine.arithmetic import exact_linear
from evalcard_engine.quant.activations import round_activations
from evalcard_engine.quant.int8_linear import Int8Linear, serves_int8
from evalcard_engine.quant.kernel_linear import KernelLinear
from evalcard_engine.quant.packed_linear import TiledLinear
from evalcard_engine.quant.weight import QuantizedWeight
from evalcard_engine.quant.workspace import Workspace

LINEARS_VERSION = "q1"
"""Counts up when the linears of a compressed checkpoint may compute other numbers; part of the numerics."""


class ExactLinear(nn.Module):
    """y = x W^T + b on the CPU; every row of y depends on its own row of x alone."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.weight = exact_linear.pack_linear(weight)
        self.bias = bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return exact_linear.linear(x, self.weight, self.bias)


class DenseLinear(nn.Module):
    """y = x W^T + b as torch computes it, for devices without an exact form."""

    weight: torch.Tensor

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.bias = bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)


class WideHead(nn.Module):
    """A head whose logits are float32 where its input is not: of half precision, eight bits of them left in bfloat16,
    they would make ties of answers that the model tells apart.

    Its weight is float32, or bfloat16 as it was stored where `gives_float32`: products of such numbers are exact in
    float32, so the same precision takes half of the memory.
    """

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.inner
        if isinstance(inner, ExactLinear) and inner.weight.compiled is not None:
            return exact_linear.linear(x, inner.weight, inner.bias, torch.float32)
        logits: torch.Tensor = inner(x.float())
        return logits


def gives_float32(dtype: torch.dtype) -> bool:
    """Whether linears of ``dtype`` on the CPU can give float32 of their sums."""
    return exact_linear.compiled_serves(dtype)


class RoundedLinear(nn.Module):
    """y = r(x) W^T + b with the input rounded as the scheme says: the definition of a linear with quantized inputs."""

    def __init__(
        self, weight: QuantizedWeight, bias: torch.Tensor | None, dtype: torch.dtype, workspace: Workspace | None = None
    ) -> None:
        super().__init__()
        assert weight.activations is not None, weight.scheme
        self._how = weight.activations
        self.inner = weight_only_linear(weight, bias, dtype, workspace)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = round_activations(x.reshape(-1, x.shape[-1]), self._how)
        return self.inner(rows.to(x.dtype)).view(*x.shape[:-1], -1)


def plain_linear(weight: torch.Tensor, bias: torch.Tensor | None) -> nn.Module:
    """An unquantized linear on the weight's device."""
    return ExactLinear(weight, bias) if weight.device.type == "cpu" else DenseLinear(weight, bias)


def weight_only_linear(
    weight: QuantizedWeight, bias: torch.Tensor | None, dtype: torch.dtype, workspace: Workspace | None
) -> nn.Module:
    """The linear of the dequantized weight: expanded here, or kept packed where tiles have a ``workspace``."""
    if workspace is None:
        return plain_linear(weight.dequantize().to(dtype), bias)
    return TiledLinear(weight, bias, dtype, workspace)


def quantized_linear(
    weight: QuantizedWeight,
    bias: torch.Tensor | None,
    dtype: torch.dtype,
    *,
    kernels: bool = False,
    workspace: Workspace | None = None,
) -> nn.Module:
    """A quantized linear. With ``kernels`` it stays packed and Triton runs it; without, int8 products run on the codes,
    and everything else is dequantized: tile by tile in each product where there is a ``workspace``, which needs a CPU,
    else once, here. The two give the same bits."""
    if kernels:
        return KernelLinear(weight, bias)
    if serves_int8(weight):
        return Int8Linear(weight, bias)
    if weight.activations is not None:
        return RoundedLinear(weight, bias, dtype, workspace)
    return weight_only_linear(weight, bias, dtype, workspace)
