"""W8A8 in fp8: e4m3 inputs times e4m3 weights, with scales per tensor, per token and channel, or per block."""

import torch
import triton
import triton.language as tl

from evalcard_engine.kernels.launch import Plan, has_fp8_product, launch_product, plan
from evalcard_engine.kernels.operands import check_operands, loadable
from evalcard_engine.kernels.rounding import decode_e4m3, product
from evalcard_engine.kernels.split_k import store_tile, sum_parts, tile_of
from evalcard_engine.quant.weight import QuantizedWeight


@triton.jit
def _multiply(weight, inputs, total, INNER: tl.constexpr, HAS_PRODUCT: tl.constexpr, INTERPRETED: tl.constexpr):
    """total + the product of two tiles of e4m3 bits, float32 [COLUMNS, ROWS].

    Hopper adds fp8 products in fewer bits than float32, so each tile's sum is made apart and then added; where there
    is no fp8 product, fp16 holds every e4m3, and its products are summed in float32.
    """
    if HAS_PRODUCT:
        return tl.dot(weight.to(tl.float8e4nv, bitcast=True), inputs.to(tl.float8e4nv, bitcast=True), total,
                      max_num_imprecise_acc=INNER)  # fmt: skip
    else:
        return product(decode_e4m3(weight), decode_e4m3(inputs), total, INTERPRETED)


@triton.jit
def _fp8_kernel(
    x, codes, row_scales, column_scales, bias, out,
    num_rows, out_features, in_features, group_size, num_groups, row_block, split_len,
    IN_BLOCKS: tl.constexpr, SPLITS: tl.constexpr, IS_FOLDED: tl.constexpr, HAS_PRODUCT: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """out[m, n] = sum over g of (sum over k in g of x[m, k] codes[n, k]) * row_scales[m, g] * column_scales[n / b, g]
    + bias[n], b = row_block; groups g of group_size where IN_BLOCKS, else a single one. As a part without bias, and
    without scales but IN_BLOCKS. The tile is computed as codes x^T."""
    first_row, first_column = tile_of(tl.program_id(0), num_rows, out_features, ROWS, COLUMNS)
    rows = first_row + tl.arange(0, ROWS)
    columns = first_column + tl.arange(0, COLUMNS)
    in_rows = rows < num_rows
    in_columns = columns < out_features
    part = tl.program_id(1)
    total = tl.zeros((COLUMNS, ROWS), dtype=tl.float32)
    for split in range(0, SPLITS if IS_FOLDED else 1):
        begin = (part + split) * split_len
        partial = tl.zeros((COLUMNS, ROWS), dtype=tl.float32)
        for start in range(begin, tl.minimum(begin + split_len, in_features), INNER):
            inner = start + tl.arange(0, INNER)
            known = inner < in_features
            weight = tl.load(codes + columns.to(tl.int64)[:, None] * in_features + inner[None, :],
                             mask=in_columns[:, None] & known[None, :], other=0)  # fmt: skip
            inputs = tl.load(x + rows.to(tl.int64)[None, :] * in_features + inner[:, None],
                             mask=in_rows[None, :] & known[:, None], other=0)  # fmt: skip
            if IN_BLOCKS:
                found = tl.zeros((COLUMNS, ROWS), dtype=tl.float32)
                found = _multiply(weight, inputs, found, INNER, HAS_PRODUCT, INTERPRETED)
                group = start // group_size
                left = tl.load(row_scales + rows * num_groups + group, mask=in_rows, other=0.0)
                right = tl.load(column_scales + columns // row_block * num_groups + group, mask=in_columns, other=0.0)
                partial = partial + found * left[None, :] * right.to(tl.float32)[:, None]
            else:
                partial = _multiply(weight, inputs, partial, INNER, HAS_PRODUCT, INTERPRETED)
        total = total + partial
    if IS_FOLDED and not IN_BLOCKS:
        left = tl.load(row_scales + rows, mask=in_rows, other=0.0)
        right = tl.load(column_scales + columns // row_block, mask=in_columns, other=0.0).to(tl.float32)
        total = total * left[None, :] * right[:, None]
    store_tile(out, bias, total, rows, columns, num_rows, out_features, part, not IS_FOLDED, INTERPRETED)


def serves(weight: QuantizedWeight) -> bool:
    """Whether an fp8 product gives this weight's linear: e4m3 on both sides, symmetric, scales constant over rows of
    inputs and weight, or over groups of both that tiles divide."""
    acts = weight.activations
    if acts is None or (acts.element, weight.element.name) != ("fp8_e4m3", "fp8_e4m3"):
        return False
    if weight.zero_points is not None or weight.offsets is not None or weight.group_index is not None or weight.is_flat:
        return False
    return weight.scales.shape[1] == 1 if not _in_blocks(weight) else _fits(weight)


def fp8(
    codes: torch.Tensor,
    scales: torch.Tensor,
    weight: QuantizedWeight,
    bias: torch.Tensor | None,
    dtype: torch.dtype,
    *,
    exact: bool = True,
) -> torch.Tensor:
    """codes float8_e4m3fn [rows, in] with scales float32 [rows, groups], as quantize_rows makes them -> [rows, out] of
    dtype. ``exact``: a row's result does not depend on the rows beside it."""
    assert serves(weight), f"fp8: {weight.scheme} {weight.element.name}, scales {tuple(weight.scales.shape)}"
    check_operands("fp8", codes, weight, bias, (torch.float8_e4m3fn,))
    num_rows, out = codes.shape[0], weight.out_features
    groups = weight.scales.shape[1] if _in_blocks(weight) else 1
    assert codes.is_contiguous() and tuple(scales.shape) == (num_rows, groups), f"fp8: scales {tuple(scales.shape)}"
    found = torch.empty(num_rows, out, dtype=dtype, device=codes.device)
    if num_rows == 0:
        return found
    kind = "fp8 widened" if not has_fp8_product(codes.device) else "fp8 blocks" if _in_blocks(weight) else "fp8"
    chosen = plan(kind, num_rows, out, weight.in_features, exact=exact)
    into = found if chosen.is_folded else torch.empty(chosen.splits, num_rows, out, device=codes.device)
    columns = loadable(weight.scales)
    _start(codes, scales, columns, weight, bias, into, chosen)
    if chosen.is_folded:
        return found
    if groups > 1 or _in_blocks(weight):
        sum_parts(into, found, bias)
    else:
        assert columns is not None
        sum_parts(into, found, bias, scales[:, 0], columns[:, 0], weight.row_block)
    return found


def fp8_reference(
    codes: torch.Tensor, scales: torch.Tensor, weight: QuantizedWeight, bias: torch.Tensor | None
) -> torch.Tensor:
    """float64 [rows, out]: the definition."""
    size = weight.group_size if scales.shape[1] > 1 else codes.shape[1]
    spread = scales.double().repeat_interleave(size, dim=1)[:, : codes.shape[1]]
    found = (codes.double() * spread) @ weight.dequantize().double().t()
    return found if bias is None else found + bias.double()


def _in_blocks(weight: QuantizedWeight) -> bool:
    """Whether the inputs have a scale of their own for each group of columns."""
    return weight.activations is not None and weight.activations.per == "group" and weight.activations.scale is None


def _fits(weight: QuantizedWeight) -> bool:
    """Whether both operands have the same groups, and tiles of 128 lie inside one."""
    acts = weight.activations
    return acts is not None and acts.group_size == weight.group_size and weight.group_size % 128 == 0


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
        "x": x.view(torch.uint8),
        "codes": weight.codes.view(torch.uint8),
        "row_scales": row_scales,
        "column_scales": column_scales,
        "bias": bias,
        "out": into,
        "group_size": weight.group_size,
        "num_groups": weight.scales.shape[1],
    }
    constants = {
        "IN_BLOCKS": _in_blocks(weight),
        "SPLITS": chosen.splits,
        "IS_FOLDED": chosen.is_folded,
        "HAS_PRODUCT": has_fp8_product(x.device),
    }
    launch_product(_fp8_kernel, chosen, chosen.num_parts, weight, arguments, constants)
