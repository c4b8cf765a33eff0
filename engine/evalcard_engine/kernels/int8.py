"""W8A8: int8 inputs times int8 weights, an exact int32 sum, then both scales and the bias in float32."""

import torch
import triton
import triton.language as tl

from evalcard_engine.kernels.launch import Plan, launch_product, plan
from evalcard_engine.kernels.operands import check_operands, loadable
from evalcard_engine.kernels.split_k import store_tile, sum_parts, sum_reference, tile_of
from evalcard_engine.quant.weight import QuantizedWeight

MOST_INNER = 2**17
"""127 * 128 * 2^17 is the last sum that int32 is sure to hold."""


@triton.jit
def _int8_kernel(
    x, codes, row_scales, column_scales, bias, out,
    num_rows, out_features, in_features, row_block, split_len,
    IS_PART: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """out[m, n] = (sum over k of x[m, k] codes[n, k]) * row_scales[m] * column_scales[n // row_block] + bias[n]; as a
    part only the sum, int32. The tile is computed as codes x^T."""
    first_row, first_column = tile_of(tl.program_id(0), num_rows, out_features, ROWS, COLUMNS)
    rows = first_row + tl.arange(0, ROWS)
    columns = first_column + tl.arange(0, COLUMNS)
    part = tl.program_id(1)
    begin = part * split_len
    total = tl.zeros((COLUMNS, ROWS), dtype=tl.int32)
    for start in range(begin, tl.minimum(begin + split_len, in_features), INNER):
        inner = start + tl.arange(0, INNER)
        known = inner < in_features
        weight = tl.load(codes + columns.to(tl.int64)[:, None] * in_features + inner[None, :],
                         mask=(columns < out_features)[:, None] & known[None, :], other=0)  # fmt: skip
        inputs = tl.load(x + rows.to(tl.int64)[None, :] * in_features + inner[:, None],
                         mask=(rows < num_rows)[None, :] & known[:, None], other=0)  # fmt: skip
        total = tl.dot(weight, inputs, total, out_dtype=tl.int32)
    if IS_PART:
        store_tile(out, bias, total, rows, columns, num_rows, out_features, part, True, INTERPRETED)
    else:
        left = tl.load(row_scales + rows, mask=rows < num_rows, other=0.0)
        right = tl.load(column_scales + columns // row_block, mask=columns < out_features, other=0.0).to(tl.float32)
        scaled = total.to(tl.float32) * left[None, :] * right[:, None]
        store_tile(out, bias, scaled, rows, columns, num_rows, out_features, part, False, INTERPRETED)


def serves(weight: QuantizedWeight) -> bool:
    """Whether an integer product gives this weight's linear: int8, symmetric, one scale a row (or block of rows) of
    the weight, and one a row of inputs."""
    acts = weight.activations
    return (
        weight.element.storage == "int8"
        and weight.zero_points is None
        and weight.offsets is None
        and weight.group_index is None
        and not weight.is_flat
        and weight.scales.shape[1] == 1
        and weight.in_features < MOST_INNER
        and acts is not None
        and acts.element == "int8"
        and acts.per != "group"
        and acts.outliers is None
    )


def int8(
    codes: torch.Tensor,
    scales: torch.Tensor,
    weight: QuantizedWeight,
    bias: torch.Tensor | None,
    dtype: torch.dtype,
) -> torch.Tensor:
    """codes int8 [rows, in] with scales float32 [rows, 1], as quantize_rows makes them -> [rows, out] of dtype.

    Equals `int8_reference` bit for bit, whatever the tile: integer sums do not depend on their order.
    """
    assert serves(weight), f"int8: {weight.scheme} {weight.element.name}, scales {tuple(weight.scales.shape)}"
    check_operands("int8", codes, weight, bias, (torch.int8,))
    num_rows, out = codes.shape[0], weight.out_features
    assert codes.is_contiguous() and tuple(scales.shape) == (num_rows, 1), f"int8: scales {tuple(scales.shape)}"
    found = torch.empty(num_rows, out, dtype=dtype, device=codes.device)
    if num_rows == 0:
        return found
    chosen = plan("int8", num_rows, out, weight.in_features, exact=False)
    is_part = chosen.splits > 1
    into = found if not is_part else codes.new_empty(chosen.splits, num_rows, out, dtype=torch.int32)
    columns = loadable(weight.scales)
    _start(codes, scales, columns, weight, bias, into, chosen)
    if is_part:
        assert columns is not None
        sum_parts(into, found, bias, scales[:, 0], columns[:, 0], weight.row_block)
    return found


def int8_reference(
    codes: torch.Tensor, scales: torch.Tensor, weight: QuantizedWeight, bias: torch.Tensor | None
) -> torch.Tensor:
    """float32 [rows, out], the sum exact and rounded once to float32."""
    total = (codes.double() @ weight.codes.double().t()).float()
    return sum_reference(total[None], bias, scales[:, 0], weight.scales[:, 0], weight.row_block)


def _start(
    x: torch.Tensor,
    row_scales: torch.Tensor,
    column_scales: torch.Tensor | None,
    weight: QuantizedWeight,
    bias: torch.Tensor | None,
    into: torch.Tensor,
    chosen: Plan,
) -> None:
    arguments = {
        "x": x,
        "codes": weight.codes,
        "row_scales": row_scales,
        "column_scales": column_scales,
        "bias": bias,
        "out": into,
    }
    constants = {"IS_PART": chosen.splits > 1}
    launch_product(_int8_kernel, chosen, chosen.splits, weight, arguments, constants)
