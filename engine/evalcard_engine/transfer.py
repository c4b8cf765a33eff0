"""From the host to a device by one copy: arrays packed side by side, from memory that the device reads by itself."""

from collections.abc import Sequence

import numpy as np
import torch

ALIGNMENT = 16
"""Bytes at whose multiples arrays begin, as kernels like it."""

_TORCH = {np.dtype(np.int32): torch.int32, np.dtype(np.int64): torch.int64}


def send(arrays: Sequence[np.ndarray], device: torch.device | str) -> list[torch.Tensor]:
    """Copies of int32 and int64 arrays of one dimension, on the device, without waiting for it.

    Pinned memory is torch's own: it is not used again before the copy out of it is done.
    """
    starts, size = offsets([array.nbytes for array in arrays])
    packed = host_bytes(max(size, ALIGNMENT), device)
    fill(packed, arrays, starts)
    sent = packed.to(device, non_blocking=True)
    return [view(sent, start, _TORCH[array.dtype], len(array)) for array, start in zip(arrays, starts, strict=True)]


def offsets(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where parts of these many bytes begin when they lie side by side, and how many bytes they take together."""
    starts, size = [], 0
    for one in sizes:
        starts.append(size)
        size += -(-one // ALIGNMENT) * ALIGNMENT
    return starts, size


def host_bytes(size: int, device: torch.device | str) -> torch.Tensor:
    """uint8 [size] on the host, pinned where the device is a GPU; what it holds is not said."""
    return torch.empty(size, dtype=torch.uint8, pin_memory=torch.device(device).type == "cuda")


def fill(packed: torch.Tensor, arrays: Sequence[np.ndarray], starts: Sequence[int]) -> None:
    """Write each array to the bytes of ``packed`` from its start on."""
    target = packed.numpy()
    for array, start in zip(arrays, starts, strict=True):
        target[start : start + array.nbytes] = array.view(np.uint8)


def view(packed: torch.Tensor, start: int, dtype: torch.dtype, count: int) -> torch.Tensor:
    """``count`` numbers of uint8 ``packed`` from byte ``start`` on, in place."""
    return packed[start : start + count * dtype.itemsize].view(dtype)
