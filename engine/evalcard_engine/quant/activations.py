"""Activations as a quantized linear sees them: rounded to int8, fp8 or fp4 and scaled back, row by row.

Each function is the definition that faster paths are tested against. A row's result depends on the row alone.
"""

import math

import torch

from evalcard_engine.quant.elements import E2M1
from evalcard_engine.quant.quantize import quantize_tokens
from evalcard_engine.quant.weight import Activations

FP8_MAX = 448.0
"""Greatest finite e4m3."""
FP4_MAX = 6.0
_LEAST_TOKEN_SCALE = 1 / (FP8_MAX * 512)
"""A row of zeros must not divide by zero; the bounds are those of vLLM's kernels, by token and by group."""
_LEAST_GROUP_SCALE = 1e-10 / FP8_MAX


def round_activations(x: torch.Tensor, how: Activations) -> torch.Tensor:
    """x [rows, width], any float dtype -> float32 of the same shape: the values that enter the product.

    With r = round to the element's nearest value, ties to even, saturating, each is r(x / scale) * scale. Scales that
    follow the values come from the greatest magnitude m of what shares them: m / 127 for int8 (the integer kernels'
    choice, where compressed-tensors' own emulation divides by 127.5), m / 448 for fp8, and as `_fp4` and `_exponents`
    say. An infinity becomes NaN: a scale of the whole tensor would saturate it, and a number would hide the overflow.
    """
    rows = x.float()
    rows = torch.where(rows.isinf(), torch.nan, rows)
    if how.element == "fp4_e2m1":
        return _fp4(rows, how)
    if how.scale is not None:
        return _with_scale(rows, how.element, how.scale)
    if how.element == "int8":
        assert how.per == "token", how
        return _int8(rows, how.outliers)
    groups = _groups(rows, how.group_size if how.per == "group" else None)
    top = groups.abs().amax(dim=-1, keepdim=True)
    if how.power_of_two:
        scales = _exponents(top, FP8_MAX)
    else:
        least = _LEAST_TOKEN_SCALE if how.per == "token" else _LEAST_GROUP_SCALE
        scales = (top.clamp_max(how.limit or torch.inf) / FP8_MAX).clamp_min(least)
    return _ungroup(to_fp8(groups / scales).float() * scales, rows)


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


def _int8(rows: torch.Tensor, outliers: float | None) -> torch.Tensor:
    """Rows with scales of their own. LLM.int8 (arXiv 2208.07339) leaves a column with an outlier in any row of the
    batch unquantized; here a row looks at itself alone, which is the same for one row and the same in any batch."""
    kept = torch.zeros_like(rows, dtype=torch.bool) if outliers is None else rows.abs() >= outliers
    codes, scales = quantize_tokens(rows.masked_fill(kept, 0))
    return torch.where(kept, rows, codes.float() * scales)


def _groups(rows: torch.Tensor, size: int | None) -> torch.Tensor:
    """[rows, groups, size]; the last group padded with zeros, which change no maximum."""
    if size is None:
        return rows[:, None, :]
    padded = torch.nn.functional.pad(rows, (0, -rows.shape[1] % size))
    return padded.view(rows.shape[0], -1, size)


def _ungroup(groups: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """The inverse of `_groups`, of the shape of ``rows``."""
    return groups.view(rows.shape[0], -1)[:, : rows.shape[1]]


def _with_scale(rows: torch.Tensor, element: str, scale: torch.Tensor) -> torch.Tensor:
    """One calibrated scale for everything."""
    if element == "int8":
        return torch.round(rows / scale).clamp_(-128, 127) * scale
    return to_fp8(rows / scale).float() * scale


def _fp4(rows: torch.Tensor, how: Activations) -> torch.Tensor:
    """Groups with a scale of their own: e4m3 under a calibrated scale of scales (nvfp4), or a power of two (mxfp4)."""
    groups = _groups(rows, how.group_size)
    top = groups.abs().amax(dim=-1, keepdim=True)
    if how.scale is None:
        scales = _exponents(top, FP4_MAX)
    else:
        # A group too small for any e4m3 scale comes out as zeros: 0.125 is large enough for that.
        scales = to_fp8(how.scale * (top / FP4_MAX)).float()
        scales = torch.where(scales == 0, 0.125, scales) / how.scale
    return _ungroup(to_fp4(groups / scales) * scales, rows)


def _exponents(top: torch.Tensor, limit: float) -> torch.Tensor:
    """Powers of two by which groups with the greatest magnitudes ``top`` are divided before they are rounded.

    The exponent of top less that of the element's greatest value ``limit`` (OCP Microscaling Formats, 2023, 6.3), but
    counted up where the mantissa of top is 1.75 or more, which a limit of 1.5 or 1.75 times a power of two would cut
    off: the rule of compressed-tensors and of vLLM's emulation. At least 2^-127, the least that E8M0 holds.
    """
    mantissa, exponent = torch.frexp(top)  # mantissa in [0.5, 1)
    exponent = exponent - 1 + (mantissa >= 0.875).int() - (math.frexp(limit)[1] - 1)
    scales = torch.exp2(exponent.float().clamp(-127, 127))
    return torch.where(torch.isfinite(top), scales, top)
