"""Linears on the CPU whose rows do not depend on their neighbours.

torch's plain linear rounds a row differently with the number of rows beside it and with the thread count. oneDNN's on
a weight packed ahead of time, given at least two rows, does not: `linear_faults` checks that on the machine at hand.
"""

from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F

from evalcard_engine.arithmetic.threads import one_thread

MIN_LINEAR_ROWS = 2
"""oneDNN multiplies a single row with another kernel than two or more."""

FALLBACK_ROWS = 32
"""Row tile of the linear that stands in where oneDNN is missing or fails the self-test."""

FALLBACK_COLUMNS = 16
"""Its widths are padded to multiples of this: with less, rows at the end of a tile are rounded differently."""


@dataclass(frozen=True, slots=True)
class PackedLinear:
    """A weight [out, in] laid out for `linear`; ``plain`` holds it, padded, where oneDNN does not serve."""

    out_features: int
    in_features: int
    packed: torch.Tensor | None
    plain: torch.Tensor | None


@cache
def onednn_serves(dtype: torch.dtype) -> bool:
    """Whether oneDNN-prepacked linears exist for ``dtype`` here and keep their rows apart."""
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return False
    if dtype not in (torch.float32, torch.bfloat16):
        return False
    return not linear_faults(dtype, _pack)


def pack_linear(weight: torch.Tensor) -> PackedLinear:
    """Lay out a CPU weight [out, in] for exact products; the caller may drop its own copy."""
    assert weight.dim() == 2 and weight.device.type == "cpu", (tuple(weight.shape), weight.device)
    return _pack(weight) if onednn_serves(weight.dtype) else _keep(weight)


def linear(x: torch.Tensor, weight: PackedLinear, bias: torch.Tensor | None) -> torch.Tensor:
    """x [..., in] times the packed weight plus bias: [..., out] in x's dtype.

    Each row of the result depends on its own row of x alone, to the last bit.
    """
    rows = x.reshape(-1, weight.in_features)
    num_rows = rows.shape[0]
    if weight.packed is None:
        out = _tiled_linear(rows, weight, bias)
    elif num_rows == 0:
        out = rows.new_empty(0, weight.out_features)
    else:
        if num_rows < MIN_LINEAR_ROWS:
            rows = F.pad(rows, (0, 0, 0, MIN_LINEAR_ROWS - num_rows))
        out = torch.ops.mkldnn._linear_pointwise(rows, weight.packed, bias, "none", [], "")[:num_rows]
    return out.reshape(*x.shape[:-1], weight.out_features)


def _pack(weight: torch.Tensor) -> PackedLinear:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())
    return PackedLinear(weight.shape[0], weight.shape[1], packed, None)


def _keep(weight: torch.Tensor) -> PackedLinear:
    out, width = weight.shape
    padded = F.pad(weight, (0, -width % FALLBACK_COLUMNS, 0, -out % FALLBACK_COLUMNS)).contiguous()
    return PackedLinear(out, width, None, padded)


def _tiled_linear(rows: torch.Tensor, weight: PackedLinear, bias: torch.Tensor | None) -> torch.Tensor:
    """The slow stand-in: every product has the same FALLBACK_ROWS rows, the last one padded."""
    num_rows = rows.shape[0]
    assert weight.plain is not None, weight
    if num_rows == 0:
        return rows.new_empty(0, weight.out_features)
    padded = F.pad(rows, (0, -weight.in_features % FALLBACK_COLUMNS, 0, -num_rows % FALLBACK_ROWS))
    tiles = [F.linear(tile, weight.plain) for tile in padded.split(FALLBACK_ROWS)]
    out = torch.cat(tiles)[:num_rows, : weight.out_features]
    return out if bias is None else out + bias


def linear_faults(dtype: torch.dtype, pack) -> list[str]:
    """Rows computed alone, in small groups and by one thread, against the same rows in one large product."""
    generator = torch.Generator().manual_seed(0)
    for width, out in ((576, 192), (1536, 160), (33, 7)):
        weight = pack(torch.randn(out, width, generator=generator).to(dtype))
        x = torch.randn(67, width, generator=generator).to(dtype)
        whole = linear(x, weight, None)
        few = {rows: linear(x[3 : 3 + rows], weight, None) for rows in (1, 2, 7, 33)}
        if not all(torch.equal(part, whole[3 : 3 + rows]) for rows, part in few.items()):
            return [f"linear {dtype} {width}x{out}: rows depend on the row count"]
        with one_thread():
            alone = linear(x, weight, None)
        if not torch.equal(alone, whole):
            return [f"linear {dtype} {width}x{out}: rows depend on the thread count"]
    return []


def fallback_faults(dtype: torch.dtype) -> list[str]:
    """`linear_faults` of the slow stand-in."""
    return linear_faults(dtype, _keep)
