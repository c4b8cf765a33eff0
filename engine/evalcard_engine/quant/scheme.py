"""What is quantized how: the spelling of schemes (``w8a8``, ``w4a16-g64``, ``sparse24+fp8``), parsed without torch.

A scheme is written as parts joined by ``+`` in any case; ``Scheme.name`` is the canonical lower-case form. Base names
are those of compressed-tensors and of published cards; ``-g64`` or ``-channel`` after one changes its groups.
``kv=fp8`` may stand alone: it quantizes the KV cache and leaves weights as they are stored.
"""

import difflib
import re
from dataclasses import dataclass, replace
from typing import Literal

from evalcard_engine.errors import EngineError


class UnknownScheme(EngineError):
    """The text names no scheme this version can apply."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """How the linears of a model are quantized on the fly; embeddings stay as they are, and so does an unnamed head."""

    name: str
    element: str | None
    """Of the weights, a name of quant/elements.py, ``nf4``, or None where they keep their dtype."""
    group_size: int | None
    """Weights per scale along the input width; None is one scale per output channel."""
    title: str
    """One line for tables and cards."""
    symmetric: bool = True
    block: int | None = None
    """Scales of blocks of so many rows and columns."""
    activations: str | None = None
    """Element that inputs are rounded to; None leaves them."""
    is_sparse24: bool = False
    """Of every four weights in a row the two smaller ones are set to 0 first."""
    head_bits: int | None = None
    """Bits of the output head's integers, one scale per channel; None leaves the head."""
    kv_cache: str | None = None
    """Element that keys and values are stored as, fp8_e4m3 (scale 1) or int8 (a scale for each token and head); None
    stores them in the dtype computed in, or as the checkpoint says."""

    @property
    def changes_weights(self) -> bool:
        """False where only the KV cache is quantized, which compressed checkpoints allow too."""
        return self.element is not None or self.is_sparse24 or self.head_bits is not None

    @property
    def weight_bits(self) -> int:
        return {None: 16, "int8": 8, "fp8_e4m3": 8}.get(self.element, 4)

    @property
    def activation_bits(self) -> int:
        """16 means not quantized."""
        return {None: 16, "int8": 8, "fp8_e4m3": 8}.get(self.activations, 4)


_TOKENS8 = "int8 activations per token (dynamic)"
_FP8_TOKENS = "fp8 activations per token (dynamic)"
SCHEMES: dict[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        Scheme("w8a8", "int8", None, f"int8 weights per channel, {_TOKENS8}", activations="int8"),
        Scheme("w8a16", "int8", None, "int8 weights per channel, activations unquantized"),
        Scheme("w4a16", "int4", 128, "int4 weights in groups of 128, activations unquantized"),
        Scheme("w4a16_asym", "int4", 128, "int4 weights in groups of 128 with zero points, activations unquantized",
               symmetric=False),
        Scheme("fp8", "fp8_e4m3", None, f"fp8 weights per channel, {_FP8_TOKENS}", activations="fp8_e4m3"),
        Scheme("fp8_block", "fp8_e4m3", 128, "fp8 weights in blocks of 128x128, fp8 activations in groups of 128 "
               "(dynamic)", block=128, activations="fp8_e4m3"),
        Scheme("w8a16_fp8", "fp8_e4m3", None, "fp8 weights per channel, activations unquantized"),
        Scheme("nf4", "nf4", 64, "NF4 weights in blocks of 64, activations unquantized"),
        Scheme("nvfp4a16", "fp4_e2m1", 16, "fp4 weights in groups of 16 with fp8 scales, activations unquantized"),
        Scheme("mxfp4a16", "fp4_e2m1", 32, "fp4 weights in groups of 32 with powers of two as scales, activations "
               "unquantized"),
    )
}  # fmt: skip
"""Base schemes by canonical name."""

ALIASES = {
    "int8": "w8a8", "int4": "w4a16", "fp8_dynamic": "fp8", "w8a8_fp8": "fp8", "w8a8_int8": "w8a8", "int8_w8a8": "w8a8",
    "fp8a16": "w8a16_fp8",
}  # fmt: skip
"""Other spellings in use -> canonical name."""

SPARSE24 = "sparse24"
_GROUPED = ("w8a16", "w4a16", "w4a16_asym")
"""Schemes whose groups may be chosen."""
_GROUP_SIZES = (32, 64, 128)
_PART = re.compile(r"(?P<base>[a-z0-9_]+?)(?:-(?P<group>g(?P<size>\d+)|channel))?")
_HEADS: dict[str, Literal[8]] = {"w8": 8}
_KV_CACHES = {"fp8": "fp8_e4m3", "int8": "int8"}
"""Spelling after ``kv=`` -> element."""


def parse_scheme(text: str) -> Scheme:
    """The scheme that ``text`` spells; raises UnknownScheme with the near matches."""
    parts = [part.strip() for part in text.strip().lower().split("+")]
    heads, caches = ([part for part in parts if part.startswith(key)] for key in ("head=", "kv="))
    bases = [part for part in parts if part not in (SPARSE24, *heads, *caches)]
    if max(len(bases), len(heads), len(caches), parts.count(SPARSE24)) > 1:
        raise UnknownScheme(
            f"scheme {text!r} joins {' and '.join(parts)}; join at most one base scheme with {SPARSE24}, head=w8 and "
            "kv=fp8, such as sparse24+fp8+kv=fp8."
        )
    changes_weights = bool(bases) or SPARSE24 in parts
    if not changes_weights and (heads or not caches):
        raise UnknownScheme(f"scheme {text!r} names nothing to apply to the weights. {_known()}")
    title = "weights in 16 bits" if changes_weights else "weights and activations as they are"
    found = _base(bases[0], text) if bases else Scheme("", None, None, title)
    return _with_kv_cache(_with_options(found, SPARSE24 in parts, heads, text), caches, text)


def _base(part: str, text: str) -> Scheme:
    match = _PART.fullmatch(part)
    name = ALIASES.get(match["base"], match["base"]) if match else part
    if match is None or name not in SCHEMES:
        near = difflib.get_close_matches(part, [*SCHEMES, *ALIASES], n=3, cutoff=0.4)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise UnknownScheme(f"unknown scheme {text!r}.{hint} {_known()}")
    return _regrouped(SCHEMES[name], match["group"], match["size"]) if match["group"] else SCHEMES[name]


def _regrouped(scheme: Scheme, group: str, size: str | None) -> Scheme:
    if scheme.name not in _GROUPED or (size is not None and int(size) not in _GROUP_SIZES):
        sizes = ", ".join(f"-g{one}" for one in _GROUP_SIZES)
        raise UnknownScheme(
            f"{scheme.name}-{group} is no scheme; {', '.join(_GROUPED)} may be followed by {sizes} or -channel."
        )
    chosen = int(size) if size is not None else None
    if chosen == scheme.group_size:
        return scheme
    where = f"in groups of {chosen}" if chosen else "per channel"
    before = f"in groups of {scheme.group_size}" if scheme.group_size else "per channel"
    return replace(scheme, name=f"{scheme.name}-{group}", group_size=chosen, title=scheme.title.replace(before, where))


def _with_options(scheme: Scheme, is_sparse: bool, options: list[str], text: str) -> Scheme:
    names, title = [scheme.name] if scheme.name else [], scheme.title
    if is_sparse:
        names, title = [SPARSE24, *names], f"2:4 sparsity by magnitude, {title}"
    head = None
    if options:
        spelled = options[0].removeprefix("head=")
        if spelled not in _HEADS:
            raise UnknownScheme(f"scheme {text!r}: the head can be quantized as {', '.join(_HEADS)}, got {spelled!r}.")
        head = _HEADS[spelled]
        names, title = [*names, options[0]], f"{title}, int{head} head per channel"
    return replace(scheme, name="+".join(names), title=title, is_sparse24=is_sparse, head_bits=head)


def _with_kv_cache(scheme: Scheme, caches: list[str], text: str) -> Scheme:
    if not caches:
        return scheme
    spelled = caches[0].removeprefix("kv=")
    if spelled not in _KV_CACHES:
        known = ", ".join(_KV_CACHES)
        raise UnknownScheme(f"scheme {text!r}: the KV cache can be quantized as {known}, got {spelled!r}.")
    name = f"{scheme.name}+{caches[0]}".removeprefix("+")
    return replace(scheme, name=name, title=f"{scheme.title}, {spelled} KV cache", kv_cache=_KV_CACHES[spelled])


def _known() -> str:
    return (
        f"Known schemes: {', '.join(sorted(SCHEMES))}; with sparse24+ before one, +head=w8 or +kv=fp8 "
        "after it; kv=fp8 and kv=int8 may stand alone."
    )


def group_size_for(width: int, wanted: int | None) -> int:
    """The group size a linear of this input width really gets: the largest divisor of width that is <= wanted.

    576 asked for 128 gives 96. None asks for one group over the whole width.
    """
    assert width > 0 and (wanted is None or wanted > 0), (width, wanted)
    if wanted is None:
        return width
    return next(size for size in range(min(width, wanted), 0, -1) if width % size == 0)
