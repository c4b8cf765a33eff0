"""Scales that are numbers, and yet strange: worth a word, as no tool writes them on purpose, but no fault."""

from collections.abc import Iterator

import torch

from evalcard_engine.checkpoint.claims import Claims, Quantized
from evalcard_engine.checkpoint.faultlists import grouped
from evalcard_engine.checkpoint.reading import TensorReader

_SIGNED = (torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
"""What can hold a scale of 0 or below; a power of two without a sign cannot."""


def scale_notes(claims: Claims, reader: TensorReader) -> tuple[str, ...]:
    """One note for each kind of strangeness, with the modules that share it named."""
    sources = {id(one): (name, one) for name, one in claims.sources.items() if isinstance(one, Quantized)}
    found = ((name.removesuffix(".weight"), note) for name, one in sources.values() for note in _notes(one, reader))
    return tuple(grouped((module, f"{module}: {note}") for module, note in found))


def _notes(source: Quantized, reader: TensorReader) -> Iterator[str]:
    scales = [reader[tensor] for part, tensor in source.tensors.items() if "scale" in part]
    floats = [one.float() for one in scales if one.dtype in _SIGNED]
    if any(bool((one < 0).any()) for one in floats):
        yield "some of its scales are negative"
    if any(bool((one == 0).any()) for one in floats):
        yield "some of its scales are 0, so that what they scale is 0"
