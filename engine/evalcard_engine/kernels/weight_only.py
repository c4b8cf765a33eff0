"""Products with quantized weights and plain inputs: W4A16, W8A16, fp8, fp4 and codebooks, dequantized on the way."""

import torch
import triton
import triton.language as tl

from evalcard_engine.kernels.launch import Plan, launch_product, plan
from evalcard_engine.kernels.operands import check_operands, grouping, loadable, regular
from evalcard_engine.kernels.rounding import (
    decode_e2m1,
    decode_e4m3,
    decode_e5m2,
    decode_integer,
    narrow,
    product,
)
from evalcard_engine.kernels.split_k import store_tile, sum_parts, tile_of
from evalcard_engine.quant.weight import QuantizedWeight

DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def _elements(codes, codebook, columns, start, out_features, in_features, code_width, ELEMENT: tl.constexpr,
              INNER: tl.constexpr, COLUMNS: tl.constexpr):  # fmt: skip
    """What the codes of weight rows ``columns`` and inner places [start, start + INNER) stand for: float32."""
    begin = codes + columns.to(tl.int64)[:, None] * code_width
    inside = (columns < out_features)[:, None]
    if ELEMENT == "int8" or ELEMENT == "fp8_e4m3" or ELEMENT == "fp8_e5m2":
        inner = start + tl.arange(0, INNER)
        code = tl.load(begin + inner[None, :], mask=inside & (inner < in_features)[None, :], other=0)
        if ELEMENT == "int8":
            return decode_integer(code ^ 0x80, 128)
        elif ELEMENT == "fp8_e4m3":
            return decode_e4m3(code).to(tl.float32)
        else:
            return decode_e5m2(code).to(tl.float32)
    else:
        pairs = start // 2 + tl.arange(0, INNER // 2)
        both = tl.load(begin + pairs[None, :], mask=inside & (pairs < code_width)[None, :], other=0)
        code = tl.reshape(tl.join(both & 15, both >> 4), (COLUMNS, INNER))
        if ELEMENT == "int4":
            return decode_integer(code, 8)
        elif ELEMENT == "fp4_e2m1":
            return decode_e2m1(code).to(tl.float32)
        else:
            return tl.load(codebook + code.to(tl.int32)).to(tl.float32)


@triton.jit
def _spread(parts, group_index, columns, start, out_features, in_features, group_size, num_groups, row_block,
            GROUPING: tl.constexpr, INNER: tl.constexpr, COLUMNS: tl.constexpr):  # fmt: skip
    """The scales (or zero points, or offsets) of the same weights: float32 [COLUMNS, INNER]."""
    inside = columns < out_features
    if GROUPING > 0:
        groups = start // group_size + tl.arange(0, GROUPING)
        place = (columns // row_block)[:, None] * num_groups + groups[None, :]
        found = tl.load(parts + place, mask=inside[:, None] & (groups < num_groups)[None, :], other=0).to(tl.float32)
        wide = tl.broadcast_to(found[:, :, None], (COLUMNS, GROUPING, INNER // GROUPING))
        return tl.reshape(wide, (COLUMNS, INNER))
    else:
        inner = start + tl.arange(0, INNER)
        known = inner < in_features
        if GROUPING == 0:
            place = (columns // row_block)[:, None] * num_groups + (inner // group_size)[None, :]
        elif GROUPING == -1:
            group = tl.load(group_index + inner, mask=known, other=0)
            place = (columns // row_block)[:, None] * num_groups + group[None, :]
        else:
            place = (columns.to(tl.int64)[:, None] * in_features + inner[None, :]) // group_size
        return tl.load(parts + place, mask=inside[:, None] & known[None, :], other=0).to(tl.float32)


@triton.jit
def _weight_only_kernel(
    x, codes, scales, zero_points, offsets, group_index, codebook, bias, out,
    num_rows, out_features, in_features, x_stride, code_width, group_size, num_groups, row_block, split_len,
    ELEMENT: tl.constexpr, GROUPING: tl.constexpr, SPLITS: tl.constexpr, IS_FOLDED: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """out[m, n] = sum over k of x[m, k] w[n, k] + bias[n],
    w[n, k] = (element[n, k] - zero_points[n / b, g]) * scales[n / b, g] + offsets[n / b, g], rounded to the dtype of x,
    g the group of k and b = row_block. The tile is computed as W x^T, so that dequantized weights stay in registers.
    """
    first_row, first_column = tile_of(tl.program_id(0), num_rows, out_features, ROWS, COLUMNS)
    rows = first_row + tl.arange(0, ROWS)
    columns = first_column + tl.arange(0, COLUMNS)
    part = tl.program_id(1)
    total = tl.zeros((COLUMNS, ROWS), dtype=tl.float32)
    for split in range(0, SPLITS if IS_FOLDED else 1):
        begin = (part + split) * split_len
        partial = tl.zeros((COLUMNS, ROWS), dtype=tl.float32)
        for start in range(begin, tl.minimum(begin + split_len, in_features), INNER):
            weight = _elements(codes, codebook, columns, start, out_features, in_features, code_width, ELEMENT,
                               INNER, COLUMNS)  # fmt: skip
            if zero_points is not None:
                weight = weight - _spread(zero_points, group_index, columns, start, out_features, in_features,
                                          group_size, num_groups, row_block, GROUPING, INNER, COLUMNS)  # fmt: skip
            weight = weight * _spread(scales, group_index, columns, start, out_features, in_features, group_size,
                                      num_groups, row_block, GROUPING, INNER, COLUMNS)  # fmt: skip
            if offsets is not None:
                weight = weight + _spread(offsets, group_index, columns, start, out_features, in_features,
                                          group_size, num_groups, row_block, GROUPING, INNER, COLUMNS)  # fmt: skip
            inner = start + tl.arange(0, INNER)
            mask = (inner < in_features)[:, None] & (rows < num_rows)[None, :]
            inputs = tl.load(x + rows.to(tl.int64)[None, :] * x_stride + inner[:, None], mask=mask, other=0.0)
            partial = product(narrow(weight, x.dtype.element_ty, INTERPRETED), inputs, partial, INTERPRETED)
        total = total + partial
    store_tile(out, bias, total, rows, columns, num_rows, out_features, part, not IS_FOLDED, INTERPRETED)


def weight_only(
    x: torch.Tensor, weight: QuantizedWeight, bias: torch.Tensor | None, *, exact: bool = True
) -> torch.Tensor:
    """x [rows, in] of a dtype in DTYPES, unit stride along in -> [rows, out] of that dtype.

    The weights that enter the product are weight.dequantize() rounded to x's dtype, bit for bit; sums are float32.
    ``exact``: a row's result does not depend on the rows beside it. What weight.activations asks for is not done here.
    """
    check_operands("weight_only", x, weight, bias, DTYPES)
    weight = regular(weight)
    num_rows, out = x.shape[0], weight.out_features
    found = x.new_empty(num_rows, out)
    if num_rows == 0:
        return found
    chosen = plan(_kind(x.dtype, weight), num_rows, out, weight.in_features, exact=exact)
    into = found if chosen.is_folded else x.new_empty(chosen.splits, num_rows, out, dtype=torch.float32)
    _start(x, weight, bias, into, chosen)
    if not chosen.is_folded:
        sum_parts(into, found, bias)
    return found


def weight_only_reference(x: torch.Tensor, weight: QuantizedWeight, bias: torch.Tensor | None) -> torch.Tensor:
    """float64 [rows, out]: the definition, of weights rounded to x's dtype."""
    found = x.double() @ weight.dequantize().to(x.dtype).double().t()
    return found if bias is None else found + bias.double()


def _kind(dtype: torch.dtype, weight: QuantizedWeight) -> str:
    """The row of launch.TILES: many scales to a tile take registers, and more so where each is looked up."""
    if dtype == torch.float32:
        return "fp32"
    if min(grouping(weight, inner) for inner in (64, 128)) < 1:
        return "half gathered"
    return "half" if grouping(weight, 64) == 1 else "half fine"


def _start(
    x: torch.Tensor, weight: QuantizedWeight, bias: torch.Tensor | None, into: torch.Tensor, chosen: Plan
) -> None:
    """Start `_weight_only_kernel`; the bias waits for the sum where there are parts."""
    arguments = {
        "x": x,
        "codes": weight.codes.view(torch.uint8),
        "scales": loadable(weight.scales),
        "zero_points": loadable(weight.zero_points),
        "offsets": loadable(weight.offsets),
        "group_index": weight.group_index,
        "codebook": weight.codebook,
        "bias": bias,
        "out": into,
        "x_stride": x.stride(0),
        "code_width": weight.codes.shape[1],
        "group_size": weight.group_size,
        "num_groups": weight.scales.shape[1],
    }
    constants = {
        "ELEMENT": _element(weight),
        "GROUPING": grouping(weight, chosen.tile.inner),
        "SPLITS": chosen.splits,
        "IS_FOLDED": chosen.is_folded,
    }
    launch_product(_weight_only_kernel, chosen, chosen.num_parts, weight, arguments, constants)


def _element(weight: QuantizedWeight) -> str:
    """How a code is read: narrower integers are held as int4 or int8."""
    if weight.element.is_integer:
        return "int4" if weight.element.storage == "nibbles" else "int8"
    return weight.element.name
