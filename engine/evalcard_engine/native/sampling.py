"""What draws of tokens take, by sampling.c: sums, searches and random bits, all of whole numbers, so torch's own.

Nothing here can be called where `serves` says no. All tensors are on the CPU and contiguous.
"""

import ctypes
from functools import cache
from typing import Any

import torch

from evalcard_engine.native.build import Built, built

_P, _N, _F, _D, _W = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_double, ctypes.c_uint32

_ARGUMENTS = {
    "likely_places": (_P, _P, _N, _F, _F, _D, _N, _F, _P),
    "philox_words": (_P, _N, _W, _W, _W, _W, _P),
}


def serves() -> bool:
    """Whether the functions were compiled here."""
    return _library().library is not None


def likely_places(
    values: torch.Tensor,
    exponentials: torch.Tensor,
    bits: int,
    *,
    top: float,
    share: float,
    least_mass: int,
    least_value: float,
) -> torch.Tensor:
    """Ascending int64 places of a row that sampler.keep would keep, and that have values of at least ``least_value``.

    values: float32 [n], finite, ``top`` the largest; exponentials: float32 [n] from 0 to 1, which weigh as multiples of
    2^-bits. share: of top-p, 1 for none; least_mass: of min-p, in such units.
    """
    for numbers in (values, exponentials):
        assert numbers.dtype == torch.float32 and numbers.dim() == 1, (numbers.dtype, numbers.shape)
        assert numbers.is_contiguous(), numbers.stride()
    count = values.numel()
    assert exponentials.numel() == count > 0, (values.shape, exponentials.shape)
    places = torch.empty(count, dtype=torch.int64)
    kept = _function("likely_places")(
        values.data_ptr(), exponentials.data_ptr(), count, 2.0**bits, top, share, least_mass, least_value,
        places.data_ptr(),
    )  # fmt: skip
    if kept < 0:
        raise MemoryError(f"the candidates among {count} tokens cannot be sorted")
    return places[:kept]


def philox_words(tokens: torch.Tensor, low: int, high: int, position: int, repeat: int) -> torch.Tensor:
    """int64 [n]: the 32-bit word of each of int64 [n] ``tokens`` at an address of noise.py, its parts 32-bit values."""
    assert tokens.dtype == torch.int64 and tokens.is_contiguous(), (tokens.dtype, tokens.stride())
    words = torch.empty_like(tokens)
    _function("philox_words")(tokens.data_ptr(), tokens.numel(), low, high, position, repeat, words.data_ptr())
    return words


def _check(numbers: torch.Tensor) -> None:
    assert numbers.dtype == torch.float32 and numbers.dim() == 1, (numbers.dtype, numbers.shape)
    assert numbers.is_contiguous(), numbers.stride()


def _function(name: str) -> Any:
    library = _library().library
    assert library is not None, _library().words
    return getattr(library, name)


@cache
def _library() -> Built:
    found = built("sampling")
    if found.library is not None:
        for name, arguments in _ARGUMENTS.items():
            function = getattr(found.library, name)
            function.argtypes, function.restype = arguments, None if name == "philox_words" else _N
    return found
