"""A quantized weight at its stored size, and any rows of it as float32: equal to `QuantizedWeight.dequantize` in every
bit, in a few passes over the rows that are asked for."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch

from evalcard_engine.quant.elements import NIBBLE_OFFSET, decode
from evalcard_engine.quant.weight import QuantizedWeight

_PALETTE = 256
"""A byte tells so many numbers apart."""
_PROBE = 1 << 16
"""Scales that are looked at before all of them are sorted."""
_HALVES = (torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """float32 [rows, columns], held as narrow as no bit of them is lost."""

    held: torch.Tensor
    """[rows, columns] of a float dtype or int8; uint8 places in ``palette`` where there is one."""
    palette: torch.Tensor | None = None
    """float32 [at most 256]: fp8 scales under one scale of scales, powers of two, and the like take few values."""

    def floats(self, rows: torch.Tensor | slice) -> torch.Tensor:
        """float32 of some rows."""
        found = self.held[rows]
        return found.float() if self.palette is None else self.palette[found.int()]

    def flat(self, places: torch.Tensor) -> torch.Tensor:
        """float32, shaped as ``places``, of a single row's columns."""
        found = self.held[0][places]
        return found.float() if self.palette is None else self.palette[found.int()]


def narrow(numbers: torch.Tensor) -> Numbers:
    """Hold a copy of numbers [rows, columns], in 8 or 16 bits where they come back as they are."""
    if numbers.dtype == torch.int8:
        return Numbers(_own(numbers))
    wide = numbers.float()
    if numbers.numel() > 2 * _PALETTE and _takes_few_values(wide.reshape(-1)[:_PROBE]):
        values, places = torch.unique(wide, return_inverse=True)
        if values.numel() <= _PALETTE and bool(torch.isfinite(values).all()):
            return Numbers(places.to(torch.uint8), values)
    if numbers.dtype in _HALVES:
        return Numbers(_own(numbers))
    fits = (dtype for dtype in _HALVES if torch.equal(wide.to(dtype).float(), wide))
    return Numbers(_own(wide.to(next(fits, torch.float32))))


def _own(part: torch.Tensor) -> torch.Tensor:
    """A copy: what a reader gives may be a view into a file, or into a larger tensor that would be kept alive."""
    return part.clone(memory_format=torch.contiguous_format)


def _takes_few_values(probe: torch.Tensor) -> bool:
    return torch.unique(probe).numel() <= _PALETTE


class RowTiles:
    """Codes and scales of a weight [out, in]; `fill` dequantizes rows of it into a buffer."""

    def __init__(self, weight: QuantizedWeight) -> None:
        self.out_features, self.in_features = weight.out_features, weight.in_features
        self._codes = _own(weight.codes)
        self._decode, self._table = _decoder(weight)
        self._group_size, self._row_block, self._is_flat = weight.group_size, weight.row_block, weight.is_flat
        scales, zeros, offsets = weight.scales, weight.zero_points, weight.offsets
        if weight.is_flat and self.in_features % self._group_size == 0:
            self._is_flat = False
            shape = (self.out_features, self.in_features // self._group_size)
            scales = scales.view(shape)
            zeros, offsets = (None if part is None else part.view(shape) for part in (zeros, offsets))
        self._scales = narrow(scales)
        self._zeros, self._offsets = (None if part is None else narrow(part) for part in (zeros, offsets))
        self._columns = None if self._is_flat else _uneven_columns(weight)

    def fill(self, start: int, stop: int, into: torch.Tensor) -> None:
        """Rows [start, stop) as float32 into a contiguous [stop - start, in]: element - zero point, times scale, plus
        offset, each step rounded to float32 and in this order."""
        self._decode(self._codes[start:stop], into, self._table)
        if self._zeros is not None:
            self._apply(torch.Tensor.sub_, self._zeros, start, stop, into)
        self._apply(torch.Tensor.mul_, self._scales, start, stop, into)
        if self._offsets is not None:
            self._apply(torch.Tensor.add_, self._offsets, start, stop, into)

    def _apply(
        self, step: Callable[..., torch.Tensor], numbers: Numbers, start: int, stop: int, into: torch.Tensor
    ) -> None:
        rows, width = into.shape
        if self._is_flat:
            places = torch.arange(start * width, stop * width) // self._group_size
            step(into, numbers.flat(places).view(rows, width))
            return
        whole = slice(start, stop)
        found = numbers.floats(whole if self._row_block == 1 else torch.arange(start, stop) // self._row_block)
        if self._columns is not None:
            step(into, found.index_select(1, self._columns))
        else:
            step(into.view(rows, -1, self._group_size), found[..., None])


def _uneven_columns(weight: QuantizedWeight) -> torch.Tensor | None:
    """int32 [in]: the group of each column, where groups do not cut a row into equal parts in order."""
    if weight.group_index is not None:
        return weight.group_index.to(torch.int32)
    is_even = weight.in_features % weight.group_size == 0
    return None if is_even else torch.arange(weight.in_features, dtype=torch.int32) // weight.group_size


_Decode = Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None], None]
"""Codes [rows, code width], float32 [rows, in] to be filled, and the table where there is one."""


def _decoder(weight: QuantizedWeight) -> tuple[_Decode, torch.Tensor | None]:
    """How this weight's codes become numbers fastest, and the table that takes."""
    element = weight.element
    if element.storage == "int8":
        return _copy, None
    if element.storage == "float8_e5m2":
        return _from_e5m2, None
    if element.storage == "float8_e4m3fn":
        has_nan = bool(((weight.codes.view(torch.uint8) & 0x7F) == 0x7F).any())
        return (_copy if has_nan else _from_e4m3), None
    if element.is_integer and weight.in_features % 2 == 0 and sys.byteorder == "little":
        return _from_nibbles, None
    pairs = torch.arange(256, dtype=torch.uint8)[:, None]
    return _from_pairs, decode(pairs, element, 2, weight.codebook).contiguous().view(torch.float64).view(-1)


def _copy(codes: torch.Tensor, into: torch.Tensor, _: torch.Tensor | None) -> None:
    into.copy_(codes)


def _from_nibbles(codes: torch.Tensor, into: torch.Tensor, _: torch.Tensor | None) -> None:
    """Two nibbles side by side in a byte become two bytes side by side in 16 bits, without a change of order."""
    words = codes.to(torch.int16)
    words |= words << 4
    words &= 0x0F0F
    into.copy_(words.view(torch.int8))
    into.sub_(NIBBLE_OFFSET)


def _from_pairs(codes: torch.Tensor, into: torch.Tensor, table: torch.Tensor | None) -> None:
    """A byte looks up both of its values, which lie in the table as one number of 64 bits."""
    assert table is not None
    places = codes.reshape(-1).int()
    if into.shape[1] % 2 == 0:
        torch.index_select(table, 0, places, out=into.view(torch.float64).view(-1))
        return
    pairs = torch.index_select(table, 0, places).view(torch.float32)
    into.copy_(pairs.view(into.shape[0], -1)[:, : into.shape[1]])


def _from_e4m3(codes: torch.Tensor, into: torch.Tensor, _: torch.Tensor | None) -> None:
    """The bits of e4m3 are those of a half whose exponent is 8 less; no NaN among them.

    Sign-extended and shifted by 7, magnitude and sign stand where a half has them, but for a second sign below it.
    """
    words = codes.view(torch.int8).to(torch.int16)
    words <<= 7
    words &= ~0x4000
    into.copy_(words.view(torch.float16))
    into.mul_(256)


def _from_e5m2(codes: torch.Tensor, into: torch.Tensor, _: torch.Tensor | None) -> None:
    """e5m2 is the upper half of a half."""
    words = codes.view(torch.int8).to(torch.int16)
    words <<= 8
    into.copy_(words.view(torch.float16))
