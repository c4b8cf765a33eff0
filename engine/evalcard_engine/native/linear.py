"""Linears of bfloat16 weights by linear.c, with bfloat16 or float32 results; all sums are float32."""

import ctypes
from functools import cache

import torch

from evalcard_engine.native.build import Built, built

COLUMNS = 32
"""Outputs of a panel, as linear.c has it."""


class _Linear(ctypes.Structure):
    """``Linear`` of linear.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("x", "weight", "bias", "out")),
        *((name, ctypes.c_int64) for name in ("x_row", "out_row", "rows", "width", "outputs", "is_wide", "threads")),
    )


def is_there(dtype: torch.dtype) -> bool:
    """Whether linears of this dtype were compiled here; what they compute is not checked yet."""
    library = _library().library
    return dtype == torch.bfloat16 and library is not None and hasattr(library, "linear_bfloat16")


def words() -> str:
    """Which compiler and source serve; else the reason why none does."""
    return _library().words


def pack(weight: torch.Tensor) -> torch.Tensor:
    """weight, bfloat16 [out, in] with an even number of columns -> bfloat16 [panels, in / 2, COLUMNS, 2], the last
    panel filled with zeros."""
    outputs, width = weight.shape
    assert weight.dtype == torch.bfloat16 and width % 2 == 0, (weight.dtype, width)
    weight = weight.contiguous()
    packed = torch.empty(-(-outputs // COLUMNS), width // 2, COLUMNS, 2, dtype=torch.bfloat16)
    library = _library().library
    assert library is not None, words()
    pointers = (ctypes.c_void_p(tensor.data_ptr()) for tensor in (weight, packed))
    library.pack_bfloat16(*pointers, *map(ctypes.c_int64, (outputs, width, torch.get_num_threads())))
    return packed


def unpack(packed: torch.Tensor, outputs: int) -> torch.Tensor:
    """What was packed, [outputs, in]."""
    return packed.transpose(1, 2).reshape(-1, packed.shape[1] * 2)[:outputs]


def linear(
    rows: torch.Tensor, packed: torch.Tensor, outputs: int, bias: torch.Tensor | None, dtype: torch.dtype
) -> torch.Tensor:
    """bfloat16 rows [n, in] times a packed weight plus bias [outputs]: [n, outputs] in ``dtype``, bfloat16 or
    float32."""
    num_rows, width = rows.shape
    assert rows.dtype == packed.dtype == torch.bfloat16 and width == 2 * packed.shape[1], (rows.dtype, rows.shape)
    assert dtype in (torch.bfloat16, torch.float32), dtype
    if rows.stride(1) != 1:
        rows = rows.contiguous()
    out = torch.empty(num_rows, outputs, dtype=dtype)
    bias = None if bias is None else bias.float()
    call = _Linear(
        rows.data_ptr(), packed.data_ptr(), None if bias is None else bias.data_ptr(), out.data_ptr(), rows.stride(0),
        outputs, num_rows, width, outputs, dtype == torch.float32, torch.get_num_threads(),
    )  # fmt: skip
    library = _library().library
    assert library is not None, words()
    library.linear_bfloat16(ctypes.byref(call))
    return out


@cache
def _library() -> Built:
    found = built("linear")
    for name in ("linear_bfloat16", "pack_bfloat16"):
        if found.library is not None and hasattr(found.library, name):
            getattr(found.library, name).restype = None
    return found
