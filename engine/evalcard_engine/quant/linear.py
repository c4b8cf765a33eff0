"""The linears that stand where a transformers model had its own: packed and exact, or quantized."""

import torch
import torch.nn.functional as F
from torch import nn

from evalcard_engine import numerics
from evalcard_engine.quant.activations import round_activations
from evalcard_engine.quant.quantize import quantize_tokens
from evalcard_engine.quant.weight import QuantizedWeight

LINEARS_VERSION = "q1"
"""Counts up when the linears of a compressed checkpoint may compute other numbers; part of the numerics."""


class ExactLinear(nn.Module):
    """y = x W^T + b on the CPU; every row of y depends on its own row of x alone."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.weight = numerics.pack_linear(weight)
        self.bias = bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return numerics.linear(x, self.weight, self.bias)


class DenseLinear(nn.Module):
    """y = x W^T + b as torch computes it, for devices without an exact form."""

    weight: torch.Tensor

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.bias = bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)


class Int8Linear(nn.Module):
    """w8a8: tokens quantized as they come, an exact integer product, then both scales and the bias in float32."""

    columns: torch.Tensor
    """int8 [in, out]"""
    scales: torch.Tensor
    """float32 [1, out]"""

    def __init__(self, weight: QuantizedWeight, bias: torch.Tensor | None) -> None:
        super().__init__()
        assert serves_int8(weight), weight.scheme
        self.register_buffer("columns", weight.codes.t().contiguous())
        self.register_buffer("scales", weight.scales.float().view(1, -1))
        self.bias = None if bias is None else bias.float()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, scales = quantize_tokens(x.reshape(-1, x.shape[-1]))
        out = numerics.int8_product(rows, self.columns).float().mul_(scales).mul_(self.scales)
        if self.bias is not None:
            out += self.bias
        return out.to(x.dtype).view(*x.shape[:-1], -1)


class RoundedLinear(nn.Module):
    """y = r(x) W^T + b with the input rounded as the scheme says: the definition of a linear with quantized inputs."""

    def __init__(self, weight: QuantizedWeight, bias: torch.Tensor | None, dtype: torch.dtype) -> None:
        super().__init__()
        assert weight.activations is not None, weight.scheme
        self._how = weight.activations
        self.inner = plain_linear(weight.dequantize().to(dtype), bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = round_activations(x.reshape(-1, x.shape[-1]), self._how)
        return self.inner(rows.to(x.dtype)).view(*x.shape[:-1], -1)


def serves_int8(weight: QuantizedWeight) -> bool:
    """Whether the integer product gives this weight's linear: int8, symmetric, one scale a row; tokens likewise."""
    acts = weight.activations
    plain = weight.zero_points is None and weight.offsets is None and weight.group_index is None and not weight.is_flat
    return (
        plain
        and weight.element.name == "int8"
        and weight.scales.shape == (weight.out_features, 1)
        and acts is not None
        and (acts.element, acts.per) == ("int8", "token")
        and acts.outliers is None
    )


def plain_linear(weight: torch.Tensor, bias: torch.Tensor | None) -> nn.Module:
    """An unquantized linear on the weight's device."""
    return ExactLinear(weight, bias) if weight.device.type == "cpu" else DenseLinear(weight, bias)


def quantized_linear(weight: QuantizedWeight, bias: torch.Tensor | None, dtype: torch.dtype) -> nn.Module:
    """A quantized linear. All but int8 products are dequantized once, here: no faster, but the numbers are the
    scheme's."""
    if serves_int8(weight):
        return Int8Linear(weight, bias)
    if weight.activations is not None:
        return RoundedLinear(weight, bias, dtype)
    return plain_linear(weight.dequantize().to(dtype), bias)
