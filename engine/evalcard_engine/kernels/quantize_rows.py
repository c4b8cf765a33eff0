"""Inputs rounded to int8 or fp8 on their way into a product: one pass for the scale, one for the codes."""

import torch
import triton
import triton.language as tl

from evalcard_engine.kernels.launch import launch
from evalcard_engine.kernels.rounding import encode_e4m3, round_half_even
from evalcard_engine.quant.activations import LEAST_GROUP_SCALE, LEAST_TOKEN_SCALE, round_activations
from evalcard_engine.quant.weight import Activations

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
_MOST_BLOCK = 4096


@triton.jit
def _power_of_two(top):
    """2^(exponent of top - 8, and one more where its mantissa is 1.75 or more), at least 2^-127; top is not negative
    and finite. 2^-127 has no exponent of its own in float32: it is half of the least normal number."""
    bits = top.to(tl.int32, bitcast=True)
    exponent = (bits >> 23) - 8 + ((bits & 0x7FFFFF) >= 0x600000).to(tl.int32)
    normal = tl.maximum(exponent, 1) << 23
    return tl.where(exponent > 0, normal, 0x400000).to(tl.float32, bitcast=True)


@triton.jit
def _scale_of(top, least, limit, IS_INT8: tl.constexpr, POWER_OF_TWO: tl.constexpr):
    """The scale of numbers with the greatest magnitude ``top``."""
    if POWER_OF_TWO:
        return _power_of_two(top)
    elif IS_INT8:
        return tl.where(top == 0.0, 1.0, tl.div_rn(top, 127.0))
    else:
        return tl.maximum(tl.div_rn(tl.minimum(top, limit), 448.0), least)


@triton.jit
def _quantize_rows_kernel(
    x, static_scale, codes, scales, width, x_stride, num_groups, group_size, least, limit,
    IS_INT8: tl.constexpr, POWER_OF_TWO: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """codes[m, k] = round(x[m, k] / scales[m, g]), scales[m, g] = s(max of |x[m, k]| over group g), or static_scale.

    A group with a number that is not finite gets the scale NaN, so that every product with it shows it.
    """
    row = tl.program_id(0).to(tl.int64)
    group = tl.program_id(1)
    begin = group * group_size
    end = tl.minimum(begin + group_size, width)
    top = tl.zeros((BLOCK,), dtype=tl.float32)
    bad = tl.zeros((BLOCK,), dtype=tl.int32)
    for start in range(begin, end, BLOCK):
        places = start + tl.arange(0, BLOCK)
        size = tl.abs(tl.load(x + row * x_stride + places, mask=places < end, other=0.0).to(tl.float32))
        finite = size < float("inf")
        top = tl.maximum(top, tl.where(finite, size, 0.0))
        bad = bad | tl.where(finite, 0, 1)
    if static_scale is not None:
        scale = tl.load(static_scale).to(tl.float32)
    else:
        scale = _scale_of(tl.max(top, axis=0), least, limit, IS_INT8, POWER_OF_TWO)
    for start in range(begin, end, BLOCK):
        places = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * x_stride + places, mask=places < end, other=0.0).to(tl.float32)
        value = tl.div_rn(value, tl.zeros((BLOCK,), dtype=tl.float32) + scale)
        if IS_INT8:
            value = tl.where(value == value, value, 0.0)
            code = round_half_even(tl.minimum(tl.maximum(value, -128.0), 127.0)).to(tl.int8)
        else:
            code = encode_e4m3(value)
        tl.store(codes + row * width + places, code, mask=places < end)
    scale = tl.where(tl.max(bad, axis=0) > 0, float("nan"), scale)
    tl.store(scales + row * num_groups + group, scale)


def serves(how: Activations) -> bool:
    """Whether this kernel makes such inputs: int8 and fp8, not LLM.int8's outliers."""
    return how.element in ("int8", "fp8_e4m3") and how.outliers is None


def quantize_rows(x: torch.Tensor, how: Activations) -> tuple[torch.Tensor, torch.Tensor]:
    """x [rows, width] of a dtype in DTYPES, unit stride along width -> codes int8 or float8_e4m3fn [rows, width] and
    scales float32 [rows, groups], groups = 1 but for ``per`` group; codes * scales is round_activations(x, how)."""
    assert x.dim() == 2 and (x.shape[1] == 1 or x.stride(1) == 1), f"quantize_rows: x {tuple(x.shape)}, {x.stride()}"
    assert x.dtype in DTYPES and serves(how), f"quantize_rows: x is {x.dtype}, inputs {how}"
    num_rows, width = x.shape
    size = how.group_size if how.per == "group" and how.scale is None else width
    assert size, how
    num_groups = -(-width // size)
    is_int8 = how.element == "int8"
    codes = torch.empty(num_rows, width, dtype=torch.int8 if is_int8 else torch.float8_e4m3fn, device=x.device)
    scales = torch.empty(num_rows, num_groups, dtype=torch.float32, device=x.device)
    if not codes.numel():
        return codes, scales
    arguments = {
        "x": x,
        "static_scale": None if how.scale is None else how.scale.to(x.device),
        "codes": codes if is_int8 else codes.view(torch.uint8),
        "scales": scales,
        "width": width,
        "x_stride": x.stride(0),
        "num_groups": num_groups,
        "group_size": size,
        "least": LEAST_TOKEN_SCALE if how.per == "token" else LEAST_GROUP_SCALE,
        "limit": float("inf") if how.limit is None else how.limit,
    }
    block = min(_MOST_BLOCK, triton.next_power_of_2(size))
    constants = {"IS_INT8": is_int8, "POWER_OF_TWO": how.power_of_two, "BLOCK": block}
    warps = 1 if block <= 256 else 4 if block <= 2048 else 8
    grid = (num_rows, num_groups)
    launch(_quantize_rows_kernel, grid, arguments, constants, warps=warps, stages=1, fp_fusion=False)
    return codes, scales


def quantize_rows_reference(x: torch.Tensor, how: Activations) -> torch.Tensor:
    """float32 [rows, width]: what codes times scales must be."""
    return round_activations(x, how)
