"""ggml's quantized blocks as the one quantized form.

Layouts: ggml's own definitions (ggml-common.h, ggml-quants.c). A block of 32 or 256 values lies in one row; its codes
are bit fields of bytes that belong to values some distance apart. Scales and offsets are formed in float32 and in the
order of the reference, so that what a weight stands for is the same to the last bit.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from evalcard_engine.quant.elements import (
    CODEBOOK4,
    INT2,
    INT3,
    INT4,
    INT5,
    INT6,
    INT8,
    Element,
    pack_integers,
    pack_nibbles,
)
from evalcard_engine.quant.weight import QuantizedWeight

IQ4_VALUES = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
"""What the sixteen codes of IQ4_NL and IQ4_XS stand for."""

_Parts = tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]
"""Of n blocks: codes [n, values], integers or places in a codebook; scales [n, groups]; offsets, or None."""


@dataclass(frozen=True, slots=True)
class BlockType:
    """One of ggml's types."""

    element: Element
    block_size: int
    """Values of a block."""
    num_bytes: int
    """Bytes of a block."""
    group_size: int
    """Values that share a scale."""
    split: Callable[[torch.Tensor], _Parts]
    """uint8 [n, num_bytes] -> its parts."""
    halves: tuple[int, ...] = (0,)
    """Where a block has its half-precision numbers, which all its scales and offsets are whole multiples of."""
    zero_point: int = 0
    """Of types whose codes count from 0: what is taken off the stored element, so that it does too."""

    @property
    def words(self) -> str:
        """Such as ``int4, groups of 32, asymmetric``."""
        kind = "16 values" if self.element is CODEBOOK4 else self.element.name
        return f"{kind}, groups of {self.group_size}" + (", asymmetric" if self.zero_point else "")


def read_blocks(raw: torch.Tensor, kind: str, columns: int) -> QuantizedWeight:
    """Rows of blocks, uint8 [rows, bytes of a row], of the type ``kind`` -> the weight [rows, columns].

    value = (element - zero point) * scale + offset equals ggml's own dequantization bit for bit in float32.
    """
    block = BLOCK_TYPES[kind]
    rows = raw.shape[0]
    expected = (rows, columns // block.block_size * block.num_bytes)
    assert raw.dtype == torch.uint8 and tuple(raw.shape) == expected, (kind, raw.dtype, tuple(raw.shape), expected)
    codes, scales, offsets = block.split(raw.reshape(-1, block.num_bytes))
    scales = scales.reshape(rows, -1)
    zeros = torch.full(scales.shape, block.zero_point, dtype=torch.int8) if block.zero_point else None
    return QuantizedWeight(
        codes=_store(codes.reshape(rows, columns), block),
        element=block.element,
        scales=scales,
        group_size=block.group_size,
        in_features=columns,
        zero_points=zeros,
        offsets=None if offsets is None else offsets.reshape(rows, -1),
        codebook=torch.tensor(IQ4_VALUES, dtype=torch.float32) if block.element is CODEBOOK4 else None,
        scheme=scheme_words(kind),
    )


def num_wrong(raw: torch.Tensor, kind: str) -> int:
    """Blocks of uint8 [rows, bytes of a row] with a scale or an offset that is not finite; no code is unpacked."""
    block = BLOCK_TYPES[kind]
    blocks = raw.reshape(-1, block.num_bytes)
    wrong = torch.zeros(len(blocks), dtype=torch.bool)
    for at in block.halves:
        wrong |= ~torch.isfinite(_half(blocks[:, at : at + 2])).flatten()
    return int(wrong.sum())


def scheme_words(kind: str) -> str:
    """Such as ``Q4_K (int4, groups of 32, asymmetric)``."""
    return f"{kind} ({BLOCK_TYPES[kind].words})"


def _store(codes: torch.Tensor, block: BlockType) -> torch.Tensor:
    if block.element is CODEBOOK4:
        return pack_nibbles(codes)
    values = codes.to(torch.int8) + block.zero_point
    return pack_integers(values) if block.element.storage == "nibbles" else values


def _fields(raw: torch.Tensor, run: int, bits: int) -> torch.Tensor:
    """uint8 [n, bytes] -> uint8 [n, bytes * 8 / bits]: of each run of bytes first all lowest fields, then the next."""
    shifts = torch.arange(0, 8, bits, dtype=torch.uint8).view(1, 1, -1, 1)
    fields = raw.reshape(raw.shape[0], -1, 1, run) >> shifts
    return (fields & (2**bits - 1)).reshape(raw.shape[0], -1)


def _half(raw: torch.Tensor) -> torch.Tensor:
    """Two bytes of each block -> float16 [n, 1]."""
    return raw.contiguous().view(torch.float16)


def _signed(codes: torch.Tensor, middle: int) -> torch.Tensor:
    return codes.to(torch.int8) - middle


def _q4_0(raw: torch.Tensor) -> _Parts:
    return _signed(_fields(raw[:, 2:], 16, 4), 8), _half(raw[:, :2]), None


def _q4_1(raw: torch.Tensor) -> _Parts:
    return _fields(raw[:, 4:], 16, 4), _half(raw[:, :2]), _half(raw[:, 2:4])


def _q5_0(raw: torch.Tensor) -> _Parts:
    return _signed(_five_bits(raw[:, 2:6], raw[:, 6:]), 16), _half(raw[:, :2]), None


def _q5_1(raw: torch.Tensor) -> _Parts:
    return _five_bits(raw[:, 4:8], raw[:, 8:]), _half(raw[:, :2]), _half(raw[:, 2:4])


def _five_bits(high: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
    """The fifth bits are one word, value after value; the other four lie as in Q4_0."""
    return _fields(low, 16, 4) | _fields(high, 1, 1) << 4


def _q8_0(raw: torch.Tensor) -> _Parts:
    return raw[:, 2:].contiguous().view(torch.int8), _half(raw[:, :2]), None


def _q2_k(raw: torch.Tensor) -> _Parts:
    scales, top = raw[:, :16], _half(raw[:, 80:82]).float()
    offsets = -(_half(raw[:, 82:84]).float() * (scales >> 4).float())
    return _fields(raw[:, 16:80], 32, 2), top * (scales & 15).float(), offsets


def _q3_k(raw: torch.Tensor) -> _Parts:
    # The third bit is stored inverted: where it is 0, 4 is taken off.
    codes = _signed(_fields(raw[:, 32:96], 32, 2), 4) + (_fields(raw[:, :32], 32, 1) << 2).to(torch.int8)
    scales = _signed(_fields(raw[:, 96:104], 8, 4) | _fields(raw[:, 104:108], 4, 2) << 4, 32)
    return codes, _half(raw[:, 108:110]).float() * scales.float(), None


def _q4_k(raw: torch.Tensor) -> _Parts:
    return _fields(raw[:, 16:], 32, 4), *_six_bit_scales(raw)


def _q5_k(raw: torch.Tensor) -> _Parts:
    codes = _fields(raw[:, 48:], 32, 4) | _fields(raw[:, 16:48], 32, 1) << 4
    return codes, *_six_bit_scales(raw)


def _six_bit_scales(raw: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(scales, offsets) [n, 8] of Q4_K and Q5_K: two halves at the head, then eight pairs of six bits in 12 bytes."""
    low, least, mixed = raw[:, 4:8], raw[:, 8:12], raw[:, 12:16]
    scales = torch.cat((low & 63, (mixed & 15) | (low >> 2 & 48)), dim=1)
    minima = torch.cat((least & 63, (mixed >> 4) | (least >> 2 & 48)), dim=1)
    return _half(raw[:, :2]).float() * scales.float(), -(_half(raw[:, 2:4]).float() * minima.float())


def _q6_k(raw: torch.Tensor) -> _Parts:
    codes = _signed(_fields(raw[:, :128], 64, 4) | _fields(raw[:, 128:192], 32, 2) << 4, 32)
    scales = raw[:, 192:208].contiguous().view(torch.int8)
    return codes, _half(raw[:, 208:210]).float() * scales.float(), None


def _iq4_nl(raw: torch.Tensor) -> _Parts:
    return _fields(raw[:, 2:], 16, 4), _half(raw[:, :2]), None


def _iq4_xs(raw: torch.Tensor) -> _Parts:
    scales = _signed(_fields(raw[:, 4:8], 1, 4) | _fields(raw[:, 2:4], 1, 2) << 4, 32)
    return _fields(raw[:, 8:], 16, 4), _half(raw[:, :2]).float() * scales.float(), None


BLOCK_TYPES: Mapping[str, BlockType] = {
    "Q4_0": BlockType(INT4, 32, 18, 32, _q4_0),
    "Q4_1": BlockType(INT4, 32, 20, 32, _q4_1, zero_point=-8, halves=(0, 2)),
    "Q5_0": BlockType(INT5, 32, 22, 32, _q5_0),
    "Q5_1": BlockType(INT5, 32, 24, 32, _q5_1, zero_point=-16, halves=(0, 2)),
    "Q8_0": BlockType(INT8, 32, 34, 32, _q8_0),
    "Q2_K": BlockType(INT2, 256, 84, 16, _q2_k, zero_point=-2, halves=(80, 82)),
    "Q3_K": BlockType(INT3, 256, 110, 16, _q3_k, halves=(108,)),
    "Q4_K": BlockType(INT4, 256, 144, 32, _q4_k, zero_point=-8, halves=(0, 2)),
    "Q5_K": BlockType(INT5, 256, 176, 32, _q5_k, zero_point=-16, halves=(0, 2)),
    "Q6_K": BlockType(INT6, 256, 210, 16, _q6_k, halves=(208,)),
    "IQ4_NL": BlockType(CODEBOOK4, 32, 18, 32, _iq4_nl),
    "IQ4_XS": BlockType(CODEBOOK4, 256, 136, 32, _iq4_xs),
}
"""By ggml's name."""
