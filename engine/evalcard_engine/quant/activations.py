"""Activations as a quantized linear sees them: rounded to int8, fp8 or fp4 and scaled back, row by row.

Each function is the definition that faster paths are tested against. A row's result depends on the row alone.
"""

import torch

from evalcard_engine.quant.elements import FP4_E2M1
from evalcard_engine.quant.floats import FP4_MAX, FP8_MAX, fp4_codes, mx_scales, to_fp8
from evalcard_engine.quant.quantize import quantize_tokens
from evalcard_engine.quant.weight import Activations

LEAST_TOKEN_SCALE = 1 / (FP8_MAX * 512)
"""A row of zeros must not divide by zero; the bounds are those of vLLM's kernels, by token and by group."""
LEAST_GROUP_SCALE = 1e-10 / FP8_MAX


def round_activations(x: torch.Tensor, how: Activations) -> torch.Tensor:
    """x [rows, width], any float dtype -> float32 of the same shape: the values that enter the product.

    With r = round to the element's nearest value, ties to even, saturating, each is r(x / scale) * scale. Scales that
    follow the values come from the greatest magnitude m of what shares them: m / 127 for int8 (the integer kernels'
    choice, where compressed-tensors' own emulation divides by 127.5), m / 448 for fp8, and as `_fp4` and `mx_scales`
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
        scales = mx_scales(top, FP8_MAX)
    else:
        least = LEAST_TOKEN_SCALE if how.per == "token" else LEAST_GROUP_SCALE
        scales = (top.clamp_max(how.limit or torch.inf) / FP8_MAX).clamp_min(least)
    return _ungroup(to_fp8(groups / scales).float() * scales, rows)


def to_fp4(values: torch.Tensor) -> torch.Tensor:
    """float32 -> the nearest e2m1 value as float32: ties to the even mantissa, saturating; NaN stays."""
    assert FP4_E2M1.values is not None
    rounded = torch.tensor(FP4_E2M1.values, device=values.device)[fp4_codes(values).long()]
    return torch.where(values.isnan(), values, rounded)


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
        scales = mx_scales(top, FP4_MAX)
    else:
        # A group too small for any e4m3 scale comes out as zeros: 0.125 is large enough for that.
        scales = to_fp8(how.scale * (top / FP4_MAX)).float()
        scales = torch.where(scales == 0, 0.125, scales) / how.scale
    return _ungroup(to_fp4(groups / scales) * scales, rows)
