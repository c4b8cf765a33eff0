"""RMSNorm (Zhang and Sennrich, arXiv 1910.07467), with the residual added first where there is one."""

import torch
import triton
import triton.language as tl

from evalcard_engine.kernels.launch import is_interpreted, launch
from evalcard_engine.kernels.rounding import narrow

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
_MOST_BLOCK = 4096


@triton.jit
def _sum_of(x, residual, total, row, start, end, x_stride, BLOCK: tl.constexpr, INTERPRETED: tl.constexpr):
    """float32 [BLOCK] of a row of x + residual, rounded to their dtype and stored as ``total``; x where no residual."""
    places = start + tl.arange(0, BLOCK)
    value = tl.load(x + row * x_stride + places, mask=places < end, other=0.0)
    if residual is not None:
        added = tl.load(residual + row * end + places, mask=places < end, other=0.0)
        value = narrow(value.to(tl.float32) + added.to(tl.float32), x.dtype.element_ty, INTERPRETED)
        tl.store(total + row * end + places, value, mask=places < end)
    return value.to(tl.float32)


@triton.jit
def _rms_norm_kernel(
    x, residual, weight, out, total, width, x_stride, eps,
    ADD_ONE: tl.constexpr, BLOCK: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """s = x + residual; h = s / sqrt(mean(s^2) + eps); out = weight * round(h), or round((1 + weight) * h) where
    ADD_ONE; round is to the dtype of x, and so is the result."""
    row = tl.program_id(0).to(tl.int64)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, width, BLOCK):
        value = _sum_of(x, residual, total, row, start, width, x_stride, BLOCK, INTERPRETED)
        squares += value * value
    mean = tl.div_rn(tl.sum(squares, axis=0), width.to(tl.float32))
    factor = tl.div_rn(1.0, tl.sqrt_rn(mean + eps))
    for start in range(0, width, BLOCK):
        places = start + tl.arange(0, BLOCK)
        value = _sum_of(x, residual, total, row, start, width, x_stride, BLOCK, INTERPRETED) * factor
        scale = tl.load(weight + places, mask=places < width, other=0.0).to(tl.float32)
        if ADD_ONE:
            value = value * (1.0 + scale)
        else:
            value = narrow(value, x.dtype.element_ty, INTERPRETED).to(tl.float32) * scale
        tl.store(out + row * width + places, narrow(value, x.dtype.element_ty, INTERPRETED), mask=places < width)


def rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    residual: torch.Tensor | None = None,
    *,
    add_one: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """x [rows, width] of a dtype in DTYPES, unit stride along width; weight float [width]; residual as x, contiguous.

    Returns the norm and what was normed (x + residual, or x itself). ``add_one`` is Gemma's weight, stored less one
    and applied before the rounding. A row's result does not depend on the rows beside it.
    """
    assert x.dim() == 2 and x.dtype in DTYPES, f"rms_norm: x {tuple(x.shape)} {x.dtype}"
    num_rows, width = x.shape
    assert width == 1 or x.stride(1) == 1, f"rms_norm: x has strides {x.stride()}"
    assert tuple(weight.shape) == (width,) and weight.is_contiguous(), f"rms_norm: weight {tuple(weight.shape)}"
    if residual is not None:
        assert residual.shape == x.shape and residual.is_contiguous(), f"rms_norm: residual {tuple(residual.shape)}"
        assert residual.dtype == x.dtype, f"rms_norm: residual is {residual.dtype}, x {x.dtype}"
    out = torch.empty(num_rows, width, dtype=x.dtype, device=x.device)
    total = x if residual is None else torch.empty_like(out)
    if not out.numel():
        return out, total
    arguments = {"x": x, "residual": residual, "weight": weight, "out": out, "total": total, "width": width,
                 "x_stride": x.stride(0), "eps": eps}  # fmt: skip
    block = min(_MOST_BLOCK, triton.next_power_of_2(width))
    constants = {"ADD_ONE": add_one, "BLOCK": block, "INTERPRETED": is_interpreted()}
    warps = 1 if block <= 256 else 4 if block <= 2048 else 8
    launch(_rms_norm_kernel, (num_rows,), arguments, constants, warps=warps, stages=1, fp_fusion=False)
    return out, total


def rms_norm_reference(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    residual: torch.Tensor | None = None,
    *,
    add_one: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same in torch, step by step as transformers' modules do it."""
    total = x if residual is None else x + residual
    wide = total.float()
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    if add_one:
        return (wide * (1.0 + weight.float())).to(x.dtype), total
    return (weight.float() * wide.to(x.dtype).float()).to(x.dtype), total
