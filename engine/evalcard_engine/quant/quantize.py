"""Quantize a weight on the fly: round to nearest, symmetric, per output channel or per group."""

import torch

from evalcard_engine.errors import EngineError
from evalcard_engine.quant.elements import INT4, INT8, pack_integers
from evalcard_engine.quant.scheme import Scheme, group_size_for
from evalcard_engine.quant.weight import Activations, QuantizedWeight

QUANTIZER_VERSION = "rtn1"
"""Counts up when the same weight and scheme may give other integers or scales; part of the name of the weights."""


def quantize(weight: torch.Tensor, scheme: Scheme, name: str = "weight") -> QuantizedWeight:
    """Round weight [out, in] to the scheme's integers.

    With b bits, scale = max|w| / ((2^b - 1) / 2) over the group, rounded to the weight's own dtype as checkpoints
    store it, and q = round(w / scale) clamped to [-2^(b-1), 2^(b-1) - 1]: the convention of compressed-tensors, whose
    error is at most half a scale (plus the rounding of the scale itself). Raises EngineError for weights that are not
    finite.
    """
    assert weight.dim() == 2 and weight.is_floating_point(), (tuple(weight.shape), weight.dtype)
    out, width = weight.shape
    group_size = group_size_for(width, scheme.group_size)
    groups = weight.float().view(out, width // group_size, group_size)
    low, high = -(2 ** (scheme.weight_bits - 1)), 2 ** (scheme.weight_bits - 1) - 1
    scales = groups.abs().amax(dim=-1, keepdim=True) / ((high - low) / 2)
    if not bool(torch.isfinite(scales).all()):
        raise EngineError(f"{name} holds values that are not finite, so it has no {scheme.name} form.")
    scales = _representable(scales, weight.dtype)
    values = torch.round(groups / scales).clamp_(low, high).to(torch.int8).view(out, width)
    is_wide = scheme.weight_bits == 8
    return QuantizedWeight(
        codes=values if is_wide else pack_integers(values),
        element=INT8 if is_wide else INT4,
        scales=scales[..., 0].to(weight.dtype),
        group_size=group_size,
        in_features=width,
        activations=Activations("int8", "token") if scheme.activation_bits == 8 else None,
        scheme=scheme.name,
    )


def quantize_tokens(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Activations x [rows, width] to int8 [rows, width] and float32 scales [rows, 1]; scale = max|x| / 127 of a row.

    A row of zeros gets scale 1. A row that is not finite gets a scale that is not finite, so the product shows it.
    """
    rows = x.float()
    top = rows.abs().amax(dim=-1, keepdim=True)
    scales = torch.where(top == 0, torch.ones_like(top), top / 127)
    return torch.round(rows / scales).clamp_(-127, 127).to(torch.int8), scales


def _representable(scales: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """float32 scales as ``dtype`` can hold them; groups of zeros, and scales that vanish in dtype, get 1."""
    rounded = scales.to(dtype).float()
    return torch.where(rounded == 0, torch.ones_like(rounded), rounded)
