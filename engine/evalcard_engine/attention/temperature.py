"""Queries that grow with their position, as Llama 4 has them in layers without a position encoding.

A token at position p (from 0) has its query multiplied by 1 + scale * log(1 + floor((p + 1) / interval)), which follows
Nakanishi, Scalable-Softmax Is Superior for Attention, arXiv 2501.19399, in steps.
"""

from dataclasses import dataclass
from math import log1p

import torch


@dataclass(frozen=True, slots=True)
class Temperature:
    """The same for all tokens of an interval of positions."""

    scale: float
    interval: int
    """Tokens."""

    def factors(self, positions: torch.Tensor) -> torch.Tensor:
        """int64 [num_tokens] of absolute positions -> float32 [num_tokens]."""
        steps = (positions + 1) // self.interval
        # A number at a time, so that its last digit cannot depend on its neighbours.
        distinct, places = steps.unique(return_inverse=True)
        values = [1.0 + self.scale * log1p(step) for step in distinct.tolist()]
        return torch.tensor(values, dtype=torch.float32, device=positions.device)[places]
