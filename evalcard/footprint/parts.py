"""The tensors of a model by what they are, without the tensors."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, get_args

Kind = Literal["embedding", "head", "attention", "mlp", "experts", "shared experts", "router", "norms", "vision"]
"""``vision``: everything beside the text model, such as the tower and its projector."""
KINDS: tuple[Kind, ...] = get_args(Kind)
"""In the order of tables."""


@dataclass(frozen=True, slots=True)
class Part:
    """Equal tensors: matrices [rows, columns], or vectors where columns is None."""

    kind: Kind
    rows: int
    columns: int | None = None
    count: int = 1
    used: int | None = None
    """How many of them one token passes through; None is all. Fewer for experts."""
    is_linear: bool = False
    """A linear of the decoder's layers, which schemes compress. Routers and gates are not: published checkpoints keep
    them, since a small error there sends a token elsewhere."""

    @property
    def num_weights(self) -> int:
        return self.count * self.rows * (self.columns or 1)

    @property
    def num_active(self) -> int:
        """Weights that one token uses."""
        return self.num_weights if self.used is None else self.num_weights // self.count * self.used


def linear(
    kind: Kind, rows: int, columns: int, has_bias: bool = False, count: int = 1, used: int | None = None
) -> list[Part]:
    """``count`` linears of the decoder, with their biases."""
    weight = Part(kind, rows, columns, count, used, is_linear=True)
    return [weight, Part(kind, rows, None, count, used)] if has_bias else [weight]


def collected(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Equal parts of many layers as one each, in order of first sight."""
    counts: Counter[Part] = Counter(parts)
    return tuple(
        replace(part, count=part.count * times, used=None if part.used is None else part.used * times)
        for part, times in counts.items()
    )
