"""The one quantized form: every checkpoint format becomes it, every kernel and reference reads it."""

from dataclasses import dataclass, replace
from typing import Literal

import torch

from evalcard_engine.quant.elements import Element, code_dtype, code_width, decode, unpack_integers


@dataclass(frozen=True, slots=True, eq=False)
class Activations:
    """How a linear's input is quantized before its product; the product is then of quantized numbers."""

    element: Literal["int8", "fp8_e4m3", "fp4_e2m1"]
    per: Literal["token", "group", "tensor"]
    """What shares a scale: a row, ``group_size`` columns of a row, or everything (then ``scale`` is given)."""
    group_size: int | None = None
    scale: torch.Tensor | None = None
    """float32 scalar, calibrated; None where scales follow the values at hand. For fp4 the scale of the scales."""
    power_of_two: bool = False
    """Whether scales are powers of two, as in the MX formats."""
    limit: float | None = None
    """fp8 by token or group: no scale is made for more than this, and greater values saturate (fbgemm's bound)."""
    outliers: float | None = None
    """int8 by token: values of at least this size stay as they are, and the scale is made for the others (LLM.int8)."""


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedWeight:
    """A linear's weight [out, in]: value = (element - zero point) * scale + offset, in float32 and in this order.

    Element (r, c) has the scale, zero point and offset of row block r // row_block and of group group_index[c], or
    c // group_size where there is no group_index. The last block and the last group may be partial. Where ``is_flat``
    the matrix is read row after row as one line, cut into groups of group_size that may begin anywhere in a row.
    """

    codes: torch.Tensor
    """[out, code_width(element, in)], of the element's storage (quant/elements.py)."""
    element: Element
    scales: torch.Tensor
    """float [row blocks, groups]; [1, groups] where flat."""
    group_size: int
    """Columns that share a scale."""
    in_features: int
    zero_points: torch.Tensor | None = None
    """int8 or float, shaped as scales, in units of the element; None where symmetric."""
    offsets: torch.Tensor | None = None
    """float, shaped as scales; what formats add after scaling."""
    group_index: torch.Tensor | None = None
    """int64 [in]: the group of each column."""
    codebook: torch.Tensor | None = None
    """float [16] where the element's values come with the weight."""
    row_block: int = 1
    """Rows that share a scale."""
    is_flat: bool = False
    activations: Activations | None = None
    """None leaves them as they are."""
    scale_bytes: int | None = None
    """What a scale takes in the scheme's own form, where it is held wider here."""
    scheme: str = ""
    """In the field's words, such as w4a16."""

    def __post_init__(self) -> None:
        out = self.codes.shape[0]
        expected = (out, code_width(self.element, self.in_features))
        assert tuple(self.codes.shape) == expected, (tuple(self.codes.shape), expected)
        assert self.codes.dtype == code_dtype(self.element), (self.codes.dtype, self.element)
        groups = -(-self.in_features // self.group_size)
        shape = (-(-out // self.row_block), groups)
        if self.is_flat:
            shape = (1, -(-out * self.in_features // self.group_size))
        assert tuple(self.scales.shape) == shape, (tuple(self.scales.shape), shape)
        assert self.scales.is_floating_point(), self.scales.dtype
        for other in (self.zero_points, self.offsets):
            assert other is None or other.shape == self.scales.shape, (tuple(other.shape), tuple(self.scales.shape))
        assert self.group_index is None or (self.group_index.shape == (self.in_features,) and not self.is_flat)
        assert (self.codebook is None) == (self.element.storage != "nibbles" or self.element.name != "codebook4")

    @property
    def out_features(self) -> int:
        return self.codes.shape[0]

    def to(self, device: str) -> "QuantizedWeight":
        """The same weight on a device; ``self`` where it is there already."""
        if self.codes.device.type == torch.device(device).type:
            return self
        names = ("codes", "scales", "zero_points", "offsets", "group_index", "codebook")
        moved = {name: part.to(device) for name in names if (part := getattr(self, name)) is not None}
        return replace(self, **moved)

    @property
    def num_bytes(self) -> int:
        """Bytes of everything that is held for this weight."""
        parts = (self.codes, self.scales, self.zero_points, self.offsets, self.group_index, self.codebook)
        return sum(part.nbytes for part in parts if part is not None)

    @property
    def stored_bytes(self) -> int:
        """Bytes in the scheme's own form."""
        narrower = 0 if self.scale_bytes is None else self.scales.itemsize - self.scale_bytes
        return self.num_bytes - narrower * self.scales.numel()

    def integers(self) -> torch.Tensor:
        """int8 [out, in], unpacked, zero points not subtracted; integer elements only."""
        assert self.element.is_integer, self.element
        return unpack_integers(self.codes, self.in_features) if self.element.storage == "nibbles" else self.codes

    def dequantize(self) -> torch.Tensor:
        """float32 [out, in]."""
        values = decode(self.codes, self.element, self.in_features, self.codebook)
        if self.zero_points is not None:
            values = values - self._spread(self.zero_points)
        values = values * self._spread(self.scales)
        return values if self.offsets is None else values + self._spread(self.offsets)

    def _spread(self, parts: torch.Tensor) -> torch.Tensor:
        """One number a scale -> float32 [out, in], one an element."""
        out, width = self.out_features, self.in_features
        if self.is_flat:
            return parts[0].float().repeat_interleave(self.group_size)[: out * width].view(out, width)
        columns = self.group_index
        if columns is None:
            columns = torch.arange(width, device=parts.device) // self.group_size
        rows = torch.arange(out, device=parts.device) // self.row_block
        return parts.float()[rows][:, columns]
