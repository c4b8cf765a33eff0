"""What a stored code stands for, before any scale: integers, small floats, and codebooks of sixteen values."""

from dataclasses import dataclass
from typing import Literal

import torch

Storage = Literal["nibbles", "int8", "float8_e4m3fn", "float8_e5m2"]

NIBBLE_OFFSET = 8
"""A packed nibble of an integer element holds value + 8, so that [-8, 7] becomes [0, 15]."""


@dataclass(frozen=True, slots=True)
class Element:
    """One kind of code."""

    name: str
    bits: int
    """What a code takes where it is packed as tightly as its format does."""
    storage: Storage
    """How a QuantizedWeight holds it: two in a byte (low nibble first), or one in a byte."""
    values: tuple[float, ...] | None = None
    """Of a codebook, by code; None where the code is its own value, or where each weight brings its codebook."""

    @property
    def is_integer(self) -> bool:
        return self.name.startswith("int")

    @property
    def limits(self) -> tuple[int, int]:
        """Least and greatest integer."""
        assert self.is_integer, self
        return -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1


E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Sign aside, the values of a float with two bits of exponent and one of mantissa (OCP Microscaling Formats, 2023)."""

INT2, INT3, INT4 = (Element(f"int{bits}", bits, "nibbles") for bits in (2, 3, 4))
INT5, INT6, INT8 = (Element(f"int{bits}", bits, "int8") for bits in (5, 6, 8))
FP8_E4M3 = Element("fp8_e4m3", 8, "float8_e4m3fn")
FP8_E5M2 = Element("fp8_e5m2", 8, "float8_e5m2")
FP4_E2M1 = Element("fp4_e2m1", 4, "nibbles", E2M1 + tuple(-value for value in E2M1))
CODEBOOK4 = Element("codebook4", 4, "nibbles")
"""Sixteen values that come with the weight: NF4, bitsandbytes' FP4, IQ4_NL."""

ELEMENTS = {
    element.name: element for element in (INT2, INT3, INT4, INT5, INT6, INT8, FP8_E4M3, FP8_E5M2, FP4_E2M1, CODEBOOK4)
}
_STORED = {"nibbles": torch.uint8, "int8": torch.int8, "float8_e4m3fn": torch.float8_e4m3fn,
           "float8_e5m2": torch.float8_e5m2}  # fmt: skip


def code_dtype(element: Element) -> torch.dtype:
    return _STORED[element.storage]


def code_width(element: Element, columns: int) -> int:
    """Bytes of a row of ``columns`` codes."""
    return -(-columns // 2) if element.storage == "nibbles" else columns


def pack_nibbles(codes: torch.Tensor) -> torch.Tensor:
    """Codes 0 to 15, uint8 [rows, columns] -> uint8 [rows, ceil(columns / 2)], low nibble first.

    A missing last nibble is 8, the integer 0.
    """
    assert codes.dtype == torch.uint8 and codes.dim() == 2, (codes.dtype, tuple(codes.shape))
    if codes.shape[1] % 2:
        codes = torch.nn.functional.pad(codes, (0, 1), value=NIBBLE_OFFSET)
    return codes[:, 0::2] | (codes[:, 1::2] << 4)


def unpack_nibbles(packed: torch.Tensor, columns: int) -> torch.Tensor:
    """The inverse of `pack_nibbles`: uint8 [rows, columns]."""
    assert packed.dtype == torch.uint8 and packed.shape[1] == -(-columns // 2), (packed.dtype, tuple(packed.shape))
    return torch.stack((packed & 0xF, packed >> 4), dim=-1).reshape(packed.shape[0], -1)[:, :columns]


def pack_integers(values: torch.Tensor) -> torch.Tensor:
    """int8 [rows, columns] in [-8, 7] as nibbles; narrower integers are held the same way."""
    assert values.dtype == torch.int8, values.dtype
    return pack_nibbles((values + NIBBLE_OFFSET).to(torch.uint8))


def unpack_integers(packed: torch.Tensor, columns: int) -> torch.Tensor:
    """The inverse of `pack_integers`: int8 [rows, columns]."""
    return unpack_nibbles(packed, columns).to(torch.int8) - NIBBLE_OFFSET


def decode(codes: torch.Tensor, element: Element, columns: int, codebook: torch.Tensor | None = None) -> torch.Tensor:
    """float32 [rows, columns]: what the codes stand for, before scales and zero points."""
    if element.storage != "nibbles":
        return codes.float()
    if element.is_integer:
        return unpack_integers(codes, columns).float()
    values = codebook if element.values is None else torch.tensor(element.values, device=codes.device)
    assert values is not None and values.shape == (16,), (element, values)
    return values.float()[unpack_nibbles(codes, columns).long()]
