"""The end of a product: partial sums added in order, scales, bias, and the rounding to the result's dtype."""

import torch
import triton
import triton.language as tl

from evalcard_engine.kernels.launch import is_interpreted, launch
from evalcard_engine.kernels.rounding import narrow

_BLOCK = 1024


@triton.jit
def tile_of(program, num_rows, out_features, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """(first row, first column) of a program's tile: bands of eight column tiles, so that both operands stay in L2."""
    row_tiles = tl.cdiv(num_rows, ROWS)
    column_tiles = tl.cdiv(out_features, COLUMNS)
    band = program // (8 * row_tiles)
    band_width = tl.minimum(column_tiles - band * 8, 8)
    inside = program % (8 * row_tiles)
    return inside // band_width * ROWS, (band * 8 + inside % band_width) * COLUMNS


@triton.jit
def store_tile(
    out, bias, total, rows, columns, num_rows, out_features, part, IS_PART: tl.constexpr, INTERPRETED: tl.constexpr
):
    """Store total [columns, rows]: as the part-th partial sum [parts, num_rows, out_features], or with the bias added
    as the result [num_rows, out_features]."""
    mask = (columns < out_features)[:, None] & (rows < num_rows)[None, :]
    if IS_PART:
        place = (part * num_rows + rows).to(tl.int64)[None, :] * out_features + columns[:, None]
        tl.store(out + place, total, mask=mask)
    else:
        if bias is not None:
            total = total + tl.load(bias + columns, mask=columns < out_features, other=0.0).to(tl.float32)[:, None]
        place = rows.to(tl.int64)[None, :] * out_features + columns[:, None]
        tl.store(out + place, narrow(total, out.dtype.element_ty, INTERPRETED), mask=mask)


@triton.jit
def _sum_kernel(
    parts, row_scales, column_scales, bias, out, num_rows, out_features, row_block,
    PARTS: tl.constexpr, BLOCK: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """out[m, n] = (sum over i in order of parts[i, m, n]) * row_scales[m] * column_scales[n // row_block] + bias[n]"""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < out_features
    total = tl.zeros((BLOCK,), dtype=parts.dtype.element_ty)
    for part in range(PARTS):
        total += tl.load(parts + (part * num_rows + row) * out_features + columns, mask=mask, other=0)
    total = total.to(tl.float32)
    if row_scales is not None:
        scales = tl.load(column_scales + columns // row_block, mask=mask, other=0.0).to(tl.float32)
        total = total * tl.load(row_scales + row) * scales
    if bias is not None:
        total = total + tl.load(bias + columns, mask=mask, other=0.0).to(tl.float32)
    tl.store(out + row * out_features + columns, narrow(total, out.dtype.element_ty, INTERPRETED), mask=mask)


def sum_parts(
    parts: torch.Tensor,
    out: torch.Tensor,
    bias: torch.Tensor | None,
    row_scales: torch.Tensor | None = None,
    column_scales: torch.Tensor | None = None,
    row_block: int = 1,
) -> None:
    """Fill out [rows, columns] from parts [parts, rows, columns], float32 or int32, contiguous, as in `sum_reference`.

    Scales are float32 [rows] and float [ceil(columns / row_block)], both or neither; bias is float [columns].
    """
    num_parts, num_rows, columns = parts.shape
    assert out.shape == (num_rows, columns) and parts.is_contiguous() and out.is_contiguous(), (parts.shape, out.shape)
    assert (row_scales is None) == (column_scales is None)
    arguments = {"parts": parts, "row_scales": row_scales, "column_scales": column_scales, "bias": bias, "out": out,
                 "num_rows": num_rows, "out_features": columns, "row_block": row_block}  # fmt: skip
    constants = {"PARTS": num_parts, "BLOCK": _BLOCK, "INTERPRETED": is_interpreted()}
    grid = (num_rows, -(-columns // _BLOCK))
    launch(_sum_kernel, grid, arguments, constants, warps=4, stages=1, fp_fusion=False)


def sum_reference(
    parts: torch.Tensor,
    bias: torch.Tensor | None,
    row_scales: torch.Tensor | None = None,
    column_scales: torch.Tensor | None = None,
    row_block: int = 1,
) -> torch.Tensor:
    """float32 [rows, columns]: the parts added in order, times both scales, plus the bias, each step rounded."""
    total = parts[0].clone()
    for part in parts[1:]:
        total += part
    total = total.float()
    if row_scales is not None and column_scales is not None:
        spread = column_scales.float().repeat_interleave(row_block)[: total.shape[1]]
        total = total * row_scales[:, None] * spread
    return total if bias is None else total + bias.float()
