"""GGUF: what llama.cpp and its relatives write. Each tensor says itself how it is stored; there is no other config."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from evalcard_engine.checkpoint.claims import ModuleClaim, Parts, Quantized
from evalcard_engine.checkpoint.expected import refuse_values
from evalcard_engine.checkpoint.gguf_blocks import BLOCK_TYPES, num_wrong, read_blocks, scheme_words
from evalcard_engine.checkpoint.plain import PLAIN_DTYPES, plain_weight
from evalcard_engine.checkpoint.source import Checkpoint
from evalcard_engine.errors import EngineError, UnsupportedModel
from evalcard_engine.quant.weight import QuantizedWeight


def open_format(checkpoint: Checkpoint, config: Mapping[str, Any]) -> "GGUF":
    """Raises UnsupportedModel naming every tensor of a type that is not read, or that is not where blocks may be."""
    stray = [name for name, place in checkpoint.tensors.items() if place.mapped is None]
    if stray:
        raise EngineError(f"{checkpoint.name}: its config says gguf, but its tensors are in safetensors ({stray[0]}).")
    kinds: dict[str, list[str]] = {}
    for name, place in checkpoint.tensors.items():
        if place.dtype not in PLAIN_DTYPES and (place.dtype not in BLOCK_TYPES or len(place.shape) != 2):
            kinds.setdefault(f"{place.dtype} of {len(place.shape)} dimensions", []).append(name)
    if kinds:
        listed = "; ".join(f"{kind} ({len(names)}): {', '.join(names[:4])}" for kind, names in sorted(kinds.items()))
        known = ", ".join((*PLAIN_DTYPES, *BLOCK_TYPES))
        raise UnsupportedModel(
            f"{checkpoint.name} holds tensors of types that this engine does not read: {listed}. It reads {known}, "
            "the quantized ones as matrices. Give a file in one of these, such as Q4_K_M, or try --backend hf."
        )
    return GGUF()


@dataclass(frozen=True, slots=True)
class GGUF:
    """There are no settings: the file's own types decide."""

    name: str = "gguf"

    def module(self, name: str, shape: tuple[int, int], parts: Parts) -> ModuleClaim:
        """By the type of the ``weight``."""
        place = parts.get("weight")
        if place is None or place.dtype in PLAIN_DTYPES:
            return plain_weight(name, parts)
        leaves = frozenset({"weight"})
        if place.shape != shape:
            fault = f"{name}.weight is {place.dtype} {list(place.shape)}, not {list(shape)}"
            return ModuleClaim(None, leaves, (fault,))
        kind = place.dtype
        source = Quantized(
            {"weight": f"{name}.weight"},
            scheme_words(kind),
            lambda tensors: read_weight(name, kind, shape, tensors),
            check=lambda tensors: value_faults(name, kind, tensors),
        )
        return ModuleClaim(source, leaves)

    def extras(self, name: str, parts: Parts) -> ModuleClaim:
        """There are none: whatever is left over is no part of the model."""
        return ModuleClaim(None)


def value_faults(name: str, kind: str, tensors: Mapping[str, torch.Tensor]) -> list[str]:
    """A fault naming the layer where blocks of its weight have scales that are not finite."""
    is_wrong = num_wrong(tensors["weight"], kind) > 0
    return [f"{name}: its {kind} scales are not finite"] if is_wrong else []


def read_weight(name: str, kind: str, shape: tuple[int, int], tensors: Mapping[str, torch.Tensor]) -> QuantizedWeight:
    """The weight; raises EngineError naming the layer for scales that are not finite."""
    refuse_values(value_faults(name, kind, tensors))
    return read_blocks(tensors["weight"], kind, shape[1])
