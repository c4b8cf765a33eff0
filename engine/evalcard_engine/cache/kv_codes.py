"""Keys and values in eight bits: what is stored instead of a number, and the number that every reader gets back.

fp8 is e4m3 under one scale for a layer's keys and one for its values. int8 has a scale for each token and head beside
its codes, as vLLM's int8_per_token_head has: the greatest magnitude / 127 of the head where no scale is given, else
the layer's own. What is not finite is stored as NaN (of int8 in the scale), because a saturated number would hide it.
"""

import errno
import math
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch

from evalcard_engine.quant.floats import to_fp8
from evalcard_engine.quant.quantize import quantize_tokens

KV_CODES_VERSION = "kv1"
"""Counts up when the same keys and values may be stored as other codes or read as other numbers."""

SCALE_BYTES = 4
"""Of the float32 scale that int8 stores for each token and head."""

_HALF_TO_E4M3 = 256.0
"""2^(15 - 7): the exponent biases of float16 and e4m3 differ by eight."""


@dataclass(frozen=True, slots=True)
class KVCodes:
    """How the keys and values of one layer are stored."""

    element: Literal["fp8_e4m3", "int8"]
    key_scale: float | None = None
    """What keys are divided by before they are rounded; None, of int8 only, is one made for each token and head."""
    value_scale: float | None = None

    def __post_init__(self) -> None:
        for scale in (self.key_scale, self.value_scale):
            assert scale is None and self.element == "int8" or scale is not None and 0 < scale < float("inf"), self

    @property
    def dtype(self) -> torch.dtype:
        return torch.int8 if self.element == "int8" else torch.float8_e4m3fn

    @property
    def scale_bytes(self) -> int:
        """Bytes stored for each token and head beside the codes of its key, and as many for its value."""
        return SCALE_BYTES if self.element == "int8" else 0


def encode(values: torch.Tensor, element: str, scale: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor | None]:
    """values [..., size] of any float dtype -> (codes [..., size], of int8 the scales float32 [..., 1]).

    scale: float32 [1] on the device of ``values``. With it fp8 is e4m3(x / scale), saturating, and int8
    round(x / scale) in [-128, 127], both to even. A head of which one value is not finite is NaN as a whole in int8.
    """
    rows = values.float()
    if element == "fp8_e4m3":
        assert scale is not None, element
        return to_fp8(torch.where(rows.isinf(), torch.nan, rows) / scale), None
    is_finite = torch.isfinite(rows).all(dim=-1, keepdim=True)
    rows = torch.where(is_finite, rows, 0.0)
    if scale is None:
        codes, scales = quantize_tokens(rows)
    else:
        codes, scales = torch.round(rows / scale).clamp_(-128, 127).to(torch.int8), scale
    return codes, torch.where(is_finite, scales, torch.nan)


def decode(codes: torch.Tensor, scales: torch.Tensor, may_be_nan: bool = True) -> torch.Tensor:
    """float32: codes [..., size] times their scales, float32 [1] or [..., 1].

    may_be_nan false promises codes without NaN, of which the CPU then makes the same numbers several times faster.
    """
    if codes.dtype == torch.int8 or may_be_nan or codes.device.type != "cpu":
        return codes.float().mul_(scales)
    # Sign, exponent and mantissa move to their places in a float16; the widened sign leaves one bit too many behind.
    halves = codes.view(torch.int8).to(torch.int16).bitwise_left_shift_(7).bitwise_and_(~(1 << 14))
    return halves.view(torch.float16).float().mul_(scales * _HALF_TO_E4M3)


class Stored(NamedTuple):
    """Pages as they lie in memory, for a reader of its own: numbers, or codes times their scale."""

    data: torch.Tensor
    """[num_pages, kv_heads, page_size, size]."""
    scale: torch.Tensor | None = None
    """float32 [1], of fp8 codes."""
    scales: torch.Tensor | None = None
    """float32 [num_pages, kv_heads, page_size, 1], of int8 codes."""

    @property
    def has_scales(self) -> bool:
        """Whether the scales are there that the dtype of ``data`` asks for, and no others."""
        is_fp8, is_int8 = self.data.dtype == torch.float8_e4m3fn, self.data.dtype == torch.int8
        return (self.scale is not None) == is_fp8 and (self.scales is not None) == is_int8


def _zeros(shape: Sequence[int], dtype: torch.dtype, device: torch.device | str) -> torch.Tensor:
    """Zeros that on the CPU take memory page by page as they are first written: a pool is rarely filled."""
    if torch.device(device).type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    return _untouched(math.prod(shape) * dtype.itemsize).view(dtype).view(*shape)


def _untouched(num_bytes: int) -> torch.Tensor:
    """uint8 [num_bytes] of the system's zeros. torch writes its own, and so does numpy in memory that was freed."""
    if not hasattr(mmap, "MAP_ANONYMOUS"):
        return torch.from_numpy(np.zeros(num_bytes, np.uint8))
    try:
        memory = mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        if error.errno != errno.ENOMEM:
            raise
        raise MemoryError(f"{num_bytes:,} bytes cannot be had") from error
    return torch.frombuffer(memory, dtype=torch.uint8)


class Pages:
    """One layer's keys or its values: [num_pages, kv_heads, page_size, size], as numbers or as codes. Zero at first."""

    def __init__(
        self, shape: tuple[int, int, int, int], dtype: torch.dtype, device: torch.device | str, codes: KVCodes | None,
        scale: float | None,
    ) -> None:  # fmt: skip
        """codes with their ``scale``: as `KVCodes` says; None stores numbers of ``dtype``."""
        self.data = _zeros(shape, dtype if codes is None else codes.dtype, device)
        self._element = None if codes is None else codes.element
        self._scale = None if scale is None else torch.tensor([scale], dtype=torch.float32, device=device)
        is_int8 = self._element == "int8"
        self._scales = _zeros((*shape[:-1], 1), torch.float32, device) if is_int8 else None

    @property
    def num_bytes(self) -> int:
        return self.data.nbytes + (0 if self._scales is None else self._scales.nbytes)

    @property
    def stored(self) -> Stored:
        return Stored(self.data, self._scale if self._scales is None else None, self._scales)

    def write(self, rows: torch.Tensor, fresh: torch.Tensor) -> None:
        """fresh [num_tokens, kv_heads, size] to ``rows``, int64 [num_tokens * kv_heads], as KVPool.slot_rows says."""
        size = self.data.shape[-1]
        fresh = fresh.reshape(-1, size)
        if self._element is None:
            self.data.view(-1, size).index_copy_(0, rows, fresh.to(self.data.dtype))
            return
        codes, scales = encode(fresh, self._element, self._scale)
        # Bytes, because not every device copies float8 by index.
        self.data.view(torch.uint8).view(-1, size).index_copy_(0, rows, codes.view(torch.uint8))
        if self._scales is not None and scales is not None:
            self._scales.view(-1, 1).index_copy_(0, rows, scales)

    def read(self, pages: int | torch.Tensor, may_be_nan: bool = True) -> torch.Tensor:
        """Numbers of one page [kv_heads, page_size, size], or of several, int64 [n]: [n, kv_heads, page_size, size].

        Codes as float32 (may_be_nan as for `decode`), numbers in their dtype.
        """
        if self._element is None:
            return self.data[pages]
        picked = self.data.view(torch.uint8)[pages].view(self.data.dtype)
        scales = self._scale if self._scales is None else self._scales[pages]
        assert scales is not None, self._element
        return decode(picked, scales, may_be_nan)

    def copy_tokens(self, source_page: int, target_page: int, count: int) -> None:
        """Copy the first ``count`` slots of one page to another."""
        for tensor in (self.data, self._scales):
            if tensor is not None:
                tensor[target_page, :, :count] = tensor[source_page, :, :count]
