"""What is quantized how: the spelling of schemes (``w8a8``, ``w4a16``), parsed without torch.

A scheme is written as parts joined by ``+`` in any case; ``Scheme.name`` is the canonical lower-case form.
"""

import difflib
from dataclasses import dataclass

from evalcard_engine.errors import EngineError


class UnknownScheme(EngineError):
    """The text names no scheme this version can apply."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """How the linears of a model are quantized on the fly; embeddings and the head are left alone."""

    name: str
    weight_bits: int
    activation_bits: int
    """16 means not quantized."""
    group_size: int | None
    """Weights per scale along the input width; None is one scale per output channel."""
    title: str
    """One line for tables and cards."""


SCHEMES: dict[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        Scheme("w8a8", 8, 8, None, "int8 weights per channel, int8 activations per token (dynamic)"),
        Scheme("w4a16", 4, 16, 128, "int4 weights in groups of 128, activations unquantized"),
    )
}


def parse_scheme(text: str) -> Scheme:
    """The scheme that ``text`` spells; raises UnknownScheme with the near matches."""
    name = text.strip().lower()
    if name in SCHEMES:
        return SCHEMES[name]
    near = difflib.get_close_matches(name, SCHEMES, n=3, cutoff=0.4)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise UnknownScheme(f"unknown scheme {text!r}.{hint} Known schemes: {', '.join(sorted(SCHEMES))}.")


def group_size_for(width: int, wanted: int | None) -> int:
    """The group size a linear of this input width really gets: the largest divisor of width that is <= wanted.

    576 asked for 128 gives 96. None asks for one group over the whole width.
    """
    assert width > 0 and (wanted is None or wanted > 0), (width, wanted)
    if wanted is None:
        return width
    return next(size for size in range(min(width, wanted), 0, -1) if width % size == 0)
