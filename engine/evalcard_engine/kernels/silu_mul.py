"""The gate of an MLP: SiLU of one half times the other."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from evalcard_engine.kernels.launch import is_interpreted, launch
from evalcard_engine.kernels.rounding import narrow

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
_BLOCK = 1024


@triton.jit
def _silu_mul_kernel(
    gate, up, out, width, gate_stride, up_stride, BLOCK: tl.constexpr, INTERPRETED: tl.constexpr
):  # fmt: skip
    """out = round(gate / (1 + exp(-gate))) * up, round being to the dtype of all three."""
    row = tl.program_id(0).to(tl.int64)
    places = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = places < width
    value = tl.load(gate + row * gate_stride + places, mask=mask, other=0.0).to(tl.float32)
    value = tl.div_rn(value, 1.0 + tl.exp(-value))
    value = narrow(value, out.dtype.element_ty, INTERPRETED).to(tl.float32)
    value = value * tl.load(up + row * up_stride + places, mask=mask, other=0.0).to(tl.float32)
    tl.store(out + row * width + places, narrow(value, out.dtype.element_ty, INTERPRETED), mask=mask)


def silu_mul(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """gate and up [rows, width] of one dtype in DTYPES, unit stride along width (halves of one tensor will do) ->
    contiguous [rows, width] of that dtype."""
    assert gate.dim() == 2 and gate.dtype in DTYPES, f"silu_mul: gate {tuple(gate.shape)} {gate.dtype}"
    assert up.shape == gate.shape and up.dtype == gate.dtype, f"silu_mul: up {tuple(up.shape)} {up.dtype}"
    num_rows, width = gate.shape
    for name, part in (("gate", gate), ("up", up)):
        assert width == 1 or part.stride(1) == 1, f"silu_mul: {name} has strides {part.stride()}"
    out = torch.empty(num_rows, width, dtype=gate.dtype, device=gate.device)
    if not out.numel():
        return out
    arguments = {"gate": gate, "up": up, "out": out, "width": width, "gate_stride": gate.stride(0),
                 "up_stride": up.stride(0)}  # fmt: skip
    constants = {"BLOCK": _BLOCK, "INTERPRETED": is_interpreted()}
    grid = (num_rows, -(-width // _BLOCK))
    launch(_silu_mul_kernel, grid, arguments, constants, warps=4, stages=1, fp_fusion=False)
    return out


def silu_mul_reference(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """The same in torch."""
    return F.silu(gate.float()).to(gate.dtype) * up
