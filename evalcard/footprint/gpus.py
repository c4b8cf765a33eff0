"""Cards and what they hold; whether a model and its requests fit."""

import re
from dataclasses import dataclass
from fractions import Fraction

from evalcard.errors import UserError

GIB = 2**30
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Gpu:
    """One card."""

    name: str
    num_bytes: int
    title: str = ""
    """As it is sold; "" of one that is given by its size."""


GPUS = {
    gpu.name: gpu
    for gpu in (
        # What the driver reports as total memory (nvidia-smi, in MiB). The "80 GB" of a data sheet are 80 GiB of memory
        # chips, all of which the driver of an A100 reports; newer cards reserve some, and the L40S gives some to ECC.
        Gpu("a100-80", 81920 * _MIB, "A100 80 GB"),
        Gpu("h100-80", 81559 * _MIB, "H100 80 GB"),
        Gpu("h200", 143771 * _MIB, "H200 141 GB"),
        Gpu("l40s", 46068 * _MIB, "L40S 48 GB"),
    )
}
"""Known cards by name."""
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(gib|gb)?", re.IGNORECASE)


def parse_gpu(text: str) -> Gpu:
    """A known card, or a size: a number alone counts GiB, as cards are sold ("80 GB" is 80 GiB); 80GB with its unit
    counts 80 * 10^9 bytes. Raises UserError."""
    name = text.strip().lower()
    if name in GPUS:
        return GPUS[name]
    match = _SIZE.fullmatch(name)
    unit = 10**9 if match and match[2] == "gb" else GIB
    num_bytes = int(Fraction(match[1]) * unit) if match else 0
    if not _MIB <= num_bytes < 2**50:
        raise UserError(
            f"unknown GPU {text!r}. Give {', '.join(GPUS)}, or the memory of one card as a number of GiB such as 80 "
            "(80GB counts 10^9 bytes)."
        )
    return Gpu(name.replace(" ", ""), num_bytes)


def parse_share(share: float) -> float:
    """Raises UserError for what is no share of a card's memory."""
    if not 0.01 <= share <= 1:  # nan is none either
        raise UserError(f"--gpu-share {share:g}: give the part of each card's memory that may be used, 0.01 to 1.")
    return share


@dataclass(frozen=True, slots=True)
class Room:
    """Memory of equal cards that may be used."""

    gpu: Gpu
    share: float
    """Of a card's memory; the rest is for activations, CUDA graphs and others' use."""

    def __post_init__(self) -> None:
        assert 0 < self.share <= 1, self.share

    def num_bytes(self, gpus: int) -> int:
        return gpus * int(Fraction(str(self.share)) * self.gpu.num_bytes)


@dataclass(frozen=True, slots=True)
class Fit:
    """Weights and requests on a number of cards, as if their memory were one."""

    gpus: int
    requests: int
    """That fit at once beside the weights; 0 where not even one does."""
    free_bytes: int
    """What the weights leave; negative where they do not fit."""


def fit(weights: int, request: int, room: Room, gpus: int | None = None, requests: int = 1) -> Fit:
    """On the fewest cards that hold the weights and so many requests of ``request`` bytes each, or on ``gpus`` cards.

    Weights and caches are taken to spread evenly: a plain division of bytes, the least that any engine needs.
    """
    assert weights > 0 and request > 0 and requests > 0, (weights, request, requests)
    one = room.num_bytes(1)
    num = gpus if gpus is not None else -(-(weights + requests * request) // one)
    free = room.num_bytes(num) - weights
    return Fit(num, max(free // request, 0), free)
