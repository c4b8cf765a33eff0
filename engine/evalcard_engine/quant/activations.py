"""Activations as a quantized linear sees them: rounded to int8, fp8 or fp4 and scaled back, row by row.

Each function is the definition that faster paths are tested against. A row's result depends on the row alone.
"""

import torch

from evalcard_engine.quant.elements import E2M1
from evalcard_engine.quant.quantize import quantize_tokens
from evalcard_engine.quant.weight import Activations

FP8_MAX = 448.0
"""Greatest finite e4m3."""
FP4_MAX = 6.0
_FP8_LEAST_SCALE = 1 / (FP8_MAX * 512)
"""A row of zeros must not divide by zero; the bound that vLLM's kernels use."""


def round_activations(x: torch.Tensor, how: Activations) -> torch.Tensor:
    """x [rows, width], any float dtype -> float32 of the same shape: the values that enter the product."""
    rows = x.float()
    if how.element == "fp4_e2m1":
        return _fp4(rows, how)
    if how.scale is not None:
        return _with_scale(rows, how.element, how.scale)
    if how.element == "int8":
        assert how.per == "token", how
        codes, scales = quantize_tokens(rows)
        return codes.float() * scales
    groups = _groups(rows, how.group_size if how.per == "group" else None)
    scales = (groups.abs().amax(dim=-1, keepdim=True) / FP8_MAX).clamp_min(_FP8_LEAST_SCALE)
    return (to_fp8(groups / scales).float() * scales).view(rows.shape[0], -1)[:, : rows.shape[1]]


def to_fp8(values: torch.Tensor) -> torch.Tensor:
    """float32 -> float8_e4m3fn, ties to even; beyond the greatest finite value it saturates, NaN stays."""
    return values.clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn)


def to_fp4(values: torch.Tensor) -> torch.Tensor:
    """float32 -> the nearest e2m1 value as float32: ties to the even mantissa, saturating; NaN stays."""
    table = torch.tensor(E2M1, device=values.device)
    middles = (table[1:] + table[:-1]) / 2
    size = values.abs()
    # A tie goes to the value with an even index: up from odd ones, down from even ones.
    up = torch.bucketize(size, middles, right=True)
    down = torch.bucketize(size, middles, right=False)
    index = torch.where((up != down) & (up % 2 == 1), down, up)
    return torch.where(values.isnan(), values, torch.copysign(table[index], values))


def _groups(rows: torch.Tensor, size: int | None) -> torch.Tensor:
    """[rows, groups, size]; the last group padded with zeros, which change no maximum."""
    if size is None:
        return rows[:, None, :]
    padded = torch.nn.functional.pad(rows, (0, -rows.shape[1] % size))
    return padded.view(rows.shape[0], -1, size)


def _with_scale(rows: torch.Tensor, element: str, scale: torch.Tensor) -> torch.Tensor:
    """One calibrated scale for everything."""
    if element == "int8":
        return torch.round(rows / scale).clamp_(-128, 127) * scale
    return to_fp8(rows / scale).float() * scale


def _fp4(rows: torch.Tensor, how: Activations) -> torch.Tensor:
    """Groups with a scale of their own: e4m3 under a calibrated scale of scales (nvfp4), or a power of two (mxfp4)."""
    groups = _groups(rows, how.group_size)
    top = groups.abs().amax(dim=-1, keepdim=True)
    if how.scale is not None:
        scales = to_fp8(how.scale * (top / FP4_MAX)).float() / how.scale
        scales = torch.where(scales == 0, torch.full_like(scales, 2.0**-9) / how.scale, scales)
    else:
        # The exponent of the greatest value, less that of the greatest e2m1 (OCP Microscaling Formats, 2023, 6.3).
        scales = torch.exp2(torch.floor(torch.log2(top.clamp_min(2.0**-125))) - 2)
        scales = torch.where(top.isnan(), top, scales)
    return (to_fp4(groups / scales) * scales).view(rows.shape[0], -1)[:, : rows.shape[1]]
