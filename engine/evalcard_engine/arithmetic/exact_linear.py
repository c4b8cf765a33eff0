"""Linears on the CPU whose rows do not depend on their neighbours.

torch's plain linear rounds a row differently with the number of rows beside it and with the thread count. oneDNN's on
a weight packed ahead of time, given at least two rows, does not, and neither does compiled code of ours, which serves
bfloat16: `linear_faults` checks that on the machine at hand.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F

from evalcard_engine.arithmetic.threads import one_thread
from evalcard_engine.native import linear as native

MIN_LINEAR_ROWS = 2
"""oneDNN multiplies a single row with another kernel than two or more."""

FALLBACK_ROWS = 32
"""Row tile of the linear that stands in where oneDNN is missing or fails the self-test."""

FALLBACK_COLUMNS = 16
"""Its widths are padded to multiples of this: with less, rows at the end of a tile are rounded differently."""


@dataclass(frozen=True, slots=True)
class PackedLinear:
    """A weight [out, in] laid out for `linear`: for oneDNN, or for compiled code, or padded for neither of them."""

    out_features: int
    in_features: int
    packed: torch.Tensor | None = None
    plain: torch.Tensor | None = None
    compiled: torch.Tensor | None = None

    @property
    def weight(self) -> torch.Tensor:
        """What was laid out, [out, in]."""
        if self.compiled is not None:
            return native.unpack(self.compiled, self.out_features)
        weight = self.plain if self.packed is None else self.packed.to_dense()
        assert weight is not None, self
        return weight[: self.out_features, : self.in_features]


@cache
def onednn_serves(dtype: torch.dtype) -> bool:
    """Whether oneDNN-prepacked linears exist for ``dtype`` here and keep their rows apart."""
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return False
    if dtype not in (torch.float32, torch.bfloat16):
        return False
    return not linear_faults(dtype, _pack)


@cache
def compiled_serves(dtype: torch.dtype) -> bool:
    """Whether compiled linears exist for ``dtype`` here, keep their rows apart and compute what they should."""
    if not native.is_there(dtype) or linear_faults(dtype, _compile, COMPILED_SHAPES):
        return False
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(rows, 96, generator=generator).to(dtype) for rows in (13, 40))
    found = linear(x, _compile(weight), None, torch.float32)
    return torch.allclose(found.double(), x.double() @ weight.double().T, rtol=0, atol=1e-4)


def is_compiled(width: int, dtype: torch.dtype) -> bool:
    """Whether weights [..., width] are laid out for compiled code, which takes columns in pairs."""
    return width % 2 == 0 and compiled_serves(dtype)


def linear_words(dtype: torch.dtype) -> str:
    """Whose linears these are, for the numerics string."""
    if compiled_serves(dtype):
        return native.words()
    return "onednn" if onednn_serves(dtype) else f"tiles of {FALLBACK_ROWS}"


def pack_linear(weight: torch.Tensor) -> PackedLinear:
    """Lay out a CPU weight [out, in] for exact products; the caller may drop its own copy."""
    assert weight.dim() == 2 and weight.device.type == "cpu", (tuple(weight.shape), weight.device)
    if is_compiled(weight.shape[1], weight.dtype):
        return _compile(weight)
    return _pack(weight) if onednn_serves(weight.dtype) else _keep(weight)


def linear(
    x: torch.Tensor, weight: PackedLinear, bias: torch.Tensor | None, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """x [..., in] times the packed weight plus bias: [..., out] in x's dtype, or of a weight for compiled code in
    float32 where ``dtype`` says so.

    Each row of the result depends on its own row of x alone, to the last bit.
    """
    rows = x.reshape(-1, weight.in_features)
    num_rows = rows.shape[0]
    assert dtype in (None, x.dtype) or weight.compiled is not None, (dtype, x.dtype)
    if weight.compiled is not None:
        out = native.linear(rows, weight.compiled, weight.out_features, bias, dtype or x.dtype)
    elif weight.packed is None:
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
    return PackedLinear(weight.shape[0], weight.shape[1], packed)


def _compile(weight: torch.Tensor) -> PackedLinear:
    return PackedLinear(weight.shape[0], weight.shape[1], compiled=native.pack(weight))


def _keep(weight: torch.Tensor) -> PackedLinear:
    out, width = weight.shape
    padded = F.pad(weight, (0, -width % FALLBACK_COLUMNS, 0, -out % FALLBACK_COLUMNS)).contiguous()
    return PackedLinear(out, width, plain=padded)


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


SHAPES = ((576, 192), (1536, 160), (33, 7))
"""(in, out) of weights that are tried."""

COMPILED_SHAPES = ((576, 192), (1536, 160), (34, 7))
"""Likewise where columns come in pairs."""


def linear_faults(
    dtype: torch.dtype,
    pack: Callable[[torch.Tensor], PackedLinear],
    shapes: Sequence[tuple[int, int]] = SHAPES,
) -> list[str]:
    """Rows computed alone, in small groups and by one thread, against the same rows in one large product."""
    generator = torch.Generator().manual_seed(0)
    for width, out in shapes:
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
