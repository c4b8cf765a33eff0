"""The one quantized form: every checkpoint format becomes it, every kernel and reference reads it."""

from dataclasses import dataclass

import torch

from evalcard_engine.quant.scheme import Scheme

INT4_OFFSET = 8
"""A packed nibble holds value + 8, so that [-8, 7] becomes [0, 15]."""


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedWeight:
    """A linear's weight [out, in]: value = (q - zero_point) * scale of its group.

    packed: int8 [out, in] for 8 bits; uint8 [out, ceil(in / 2)] for 4 bits, low nibble first (see `pack_int4`).
    scales: float [out, groups]. zero_points: int8 [out, groups], or None where symmetric.
    group_index: int64 [in], the group of each input column, or None where column c is in group c // group_size.
    """

    packed: torch.Tensor
    scales: torch.Tensor
    zero_points: torch.Tensor | None
    group_index: torch.Tensor | None
    group_size: int
    in_features: int
    scheme: Scheme

    def __post_init__(self) -> None:
        out, width = self.packed.shape
        expected = self.in_features if self.scheme.weight_bits == 8 else -(-self.in_features // 2)
        dtype = torch.int8 if self.scheme.weight_bits == 8 else torch.uint8
        assert self.scheme.weight_bits in (4, 8), self.scheme
        assert width == expected and self.packed.dtype == dtype, (tuple(self.packed.shape), self.packed.dtype)
        groups = -(-self.in_features // self.group_size)
        assert self.scales.shape == (out, groups), (tuple(self.scales.shape), out, groups)
        assert self.scales.is_floating_point(), self.scales.dtype
        assert self.zero_points is None or self.zero_points.shape == self.scales.shape, self.zero_points
        assert self.group_index is None or self.group_index.shape == (self.in_features,), self.group_index

    @property
    def out_features(self) -> int:
        return self.packed.shape[0]

    @property
    def num_bytes(self) -> int:
        """Bytes of everything that is stored for this weight."""
        parts = (self.packed, self.scales, self.zero_points, self.group_index)
        return sum(part.nbytes for part in parts if part is not None)

    def integers(self) -> torch.Tensor:
        """int8 [out, in], unpacked, zero points not subtracted."""
        return self.packed if self.scheme.weight_bits == 8 else unpack_int4(self.packed, self.in_features)

    def dequantize(self) -> torch.Tensor:
        """float32 [out, in]."""
        values = self.integers().float()
        if self.group_index is None:
            columns = torch.arange(self.in_features, device=values.device) // self.group_size
        else:
            columns = self.group_index
        if self.zero_points is not None:
            values -= self.zero_points.float()[:, columns]
        return values.mul_(self.scales.float()[:, columns])


def pack_int4(values: torch.Tensor) -> torch.Tensor:
    """int8 [rows, columns] in [-8, 7] -> uint8 [rows, ceil(columns / 2)]; a missing last nibble holds the value 0."""
    assert values.dtype == torch.int8 and values.dim() == 2, (values.dtype, tuple(values.shape))
    nibbles = (values + INT4_OFFSET).to(torch.uint8)
    if nibbles.shape[1] % 2:
        nibbles = torch.nn.functional.pad(nibbles, (0, 1), value=INT4_OFFSET)
    return nibbles[:, 0::2] | (nibbles[:, 1::2] << 4)


def unpack_int4(packed: torch.Tensor, columns: int) -> torch.Tensor:
    """The inverse of `pack_int4`: int8 [rows, columns]."""
    assert packed.dtype == torch.uint8 and packed.shape[1] == -(-columns // 2), (packed.dtype, tuple(packed.shape))
    nibbles = torch.stack((packed & 0xF, packed >> 4), dim=-1).reshape(packed.shape[0], -1)
    return nibbles[:, :columns].to(torch.int8) - INT4_OFFSET
