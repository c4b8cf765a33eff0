"""Quantize a weight on the fly: round to nearest, with the scales that compressed-tensors would choose."""

from dataclasses import replace

import torch

from evalcard_engine.errors import EngineError
from evalcard_engine.quant.elements import INT4, INT8, pack_integers
from evalcard_engine.quant.floats import quantize_fp8, quantize_mxfp4, quantize_nf4, quantize_nvfp4
from evalcard_engine.quant.scheme import Scheme, group_size_for
from evalcard_engine.quant.weight import Activations, QuantizedWeight

QUANTIZER_VERSION = "rtn1"
"""Counts up when the same weight and scheme may give other codes or scales; part of the name of the weights."""


def quantize(weight: torch.Tensor, scheme: Scheme, name: str = "weight") -> QuantizedWeight:
    """Round weight [out, in] to the scheme's codes. Raises EngineError for weights that are not finite, and for widths
    that do not fit a scheme whose blocks are fixed."""
    assert weight.dim() == 2 and weight.is_floating_point(), (tuple(weight.shape), weight.dtype)
    assert scheme.element is not None, scheme
    if not bool(torch.isfinite(weight).all()):
        raise EngineError(f"{name} holds values that are not finite, so it has no {scheme.name} form.")
    if scheme.is_sparse24:
        weight = sparsify24(weight, name)
    found = _codes(weight, scheme, name)
    return replace(found, activations=_activations(scheme), scheme=scheme.name)


def sparsify24(weight: torch.Tensor, name: str = "weight") -> torch.Tensor:
    """Of every four neighbours in a row the two of least magnitude become 0, the later one where two are equal.

    Raises EngineError where the width is no multiple of 4.
    """
    out, width = weight.shape
    if width % 4:
        raise EngineError(f"{name} has {width} columns, which do not divide into fours, so it has no 2:4 form.")
    fours = weight.view(out, width // 4, 4)
    kept = fours.float().abs().sort(dim=-1, descending=True, stable=True).indices[..., :2]
    return torch.zeros_like(fours).scatter_(-1, kept, fours.gather(-1, kept)).view(out, width)


def _codes(weight: torch.Tensor, scheme: Scheme, name: str) -> QuantizedWeight:
    if scheme.element in ("int4", "int8"):
        return _integers(weight, scheme)
    if scheme.element == "fp8_e4m3":
        return quantize_fp8(weight, scheme.block)
    if scheme.element == "nf4":
        return quantize_nf4(weight, scheme.group_size or 64)
    group_size = scheme.group_size
    assert scheme.element == "fp4_e2m1" and group_size is not None, scheme
    if weight.shape[1] % group_size:
        raise EngineError(
            f"{name} has {weight.shape[1]} columns, which do not divide into groups of {group_size}; {scheme.name} "
            "has no other. Use w4a16."
        )
    return quantize_nvfp4(weight, group_size) if group_size == 16 else quantize_mxfp4(weight, group_size)


def _integers(weight: torch.Tensor, scheme: Scheme) -> QuantizedWeight:
    """With b bits and symmetric, scale = max|w| / ((2^b - 1) / 2) over the group, rounded to the weight's own dtype as
    checkpoints store it, and q = round(w / scale) clamped to [-2^(b-1), 2^(b-1) - 1]; the error is at most half a scale
    (plus the rounding of the scale itself). With zero points, scale = (max - min) / (2^b - 1) of a range that holds 0.
    """
    out, width = weight.shape
    group_size = group_size_for(width, scheme.group_size)
    groups = weight.float().view(out, width // group_size, group_size)
    low, high = -(2 ** (scheme.weight_bits - 1)), 2 ** (scheme.weight_bits - 1) - 1
    zeros = None
    if scheme.symmetric:
        scales = _representable(groups.abs().amax(dim=-1, keepdim=True) / ((high - low) / 2), weight.dtype)
        values = torch.round(groups / scales)
    else:
        least, most = groups.amin(dim=-1, keepdim=True).clamp_max(0), groups.amax(dim=-1, keepdim=True).clamp_min(0)
        scales = _representable((most - least) / (high - low), weight.dtype)
        zeros = torch.round(low - least / scales).clamp_(low, high)
        values = torch.round(groups / scales + zeros)
        zeros = zeros[..., 0].to(torch.int8)
    codes = values.clamp_(low, high).to(torch.int8).view(out, width)
    is_wide = scheme.weight_bits == 8
    return QuantizedWeight(
        codes=codes if is_wide else pack_integers(codes),
        element=INT8 if is_wide else INT4,
        scales=scales[..., 0].to(weight.dtype),
        group_size=group_size,
        in_features=width,
        zero_points=zeros,
    )


def _activations(scheme: Scheme) -> Activations | None:
    if scheme.activations is None:
        return None
    if scheme.activations == "int8":
        return Activations("int8", "token")
    assert scheme.activations == "fp8_e4m3", scheme
    return Activations("fp8_e4m3", "group", scheme.block) if scheme.block else Activations("fp8_e4m3", "token")


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
