"""Which of the tokens before it a token sees, in one layer: all, those in a sliding window, or those of its chunk."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch


@dataclass(frozen=True, slots=True)
class Chunked:
    """A token sees itself and those before it in its own stretch [size * n, size * (n + 1)) of positions."""

    size: int


Reach = int | Chunked | None
"""None: all tokens before it. A number: a sliding window of so many tokens, itself among them."""

_Positions = TypeVar("_Positions", np.ndarray, torch.Tensor)


def first_seen(positions: _Positions, reach: int | Chunked) -> _Positions:
    """The first position that tokens at these absolute positions see; below 0 where a window begins before it."""
    return positions - positions % reach.size if isinstance(reach, Chunked) else positions - (reach - 1)
