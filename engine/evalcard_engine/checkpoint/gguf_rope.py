"""The position encoding that a GGUF file describes, as transformers' ``rope_parameters``."""

import math
import struct
from typing import Any, Protocol

from evalcard_engine.checkpoint.gguf_file import GGUFFile

ROPE_FREQS = "rope_freqs.weight"
"""Divisors of the frequencies, one for each; the converter's form of the rule of Llama 3."""
DEFAULT_BASE = 10000.0
_LOW, _HIGH, _OLD = 1.0, 4.0, 8192
"""The rule's settings in every released Llama 3; a file holds the divisors and not the settings."""
_TOLERANCE = 1e-5
"""Relative; the divisors are float32."""


class Metadata(Protocol):
    """The metadata of one architecture; faults are collected."""

    file: GGUFFile
    arch: str
    faults: list[str]

    def get(self, key: str, default: Any = None) -> Any: ...

    def number(self, key: str, default: float | None = None) -> float: ...


def plain_rope(base: float) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": base}


def rope_parameters(metadata: Metadata, head_dim: int) -> dict[str, Any]:
    """Of the layers that see everything; a fault is added for what transformers' rules cannot express."""
    base = metadata.number("rope.freq_base", DEFAULT_BASE)
    kind = metadata.get("rope.scaling.type", "none")
    given = [key for key in ("rope.scaling.factor", "rope.scale_linear") if metadata.get(key) not in (None, 0.0)]
    factor = metadata.number(given[0]) if given else 1.0
    if metadata.get("rope.scaling.type") is None and factor != 1.0:
        kind = "linear"  # what llama.cpp takes it for
    plain = plain_rope(base)
    if ROPE_FREQS in metadata.file.tensors:
        if kind != "none":
            metadata.faults.append(f"{ROPE_FREQS} together with {metadata.arch}.rope.scaling.type {kind!r}")
        return _llama3(metadata, plain, head_dim)
    if kind == "none" or (kind == "linear" and factor == 1.0):
        return plain
    if kind == "linear":
        return plain | {"rope_type": "linear", "factor": factor}
    if kind == "yarn":
        return plain | _yarn(metadata, factor)
    metadata.faults.append(f"{metadata.arch}.rope.scaling.type is {kind!r}; none, linear and yarn are run")
    return plain


def _yarn(metadata: Metadata, factor: float) -> dict[str, Any]:
    original = metadata.get("rope.scaling.original_context_length")
    if not isinstance(original, int):
        metadata.faults.append(f"{metadata.arch}.rope.scaling.original_context_length is missing; yarn needs it")
    return {
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": original,
        "beta_fast": metadata.number("rope.scaling.yarn_beta_fast", 32.0),
        "beta_slow": metadata.number("rope.scaling.yarn_beta_slow", 1.0),
    }


def _llama3(metadata: Metadata, plain: dict[str, Any], head_dim: int) -> dict[str, Any]:
    divisors = _divisors(metadata, head_dim)
    if divisors is None or all(one == 1.0 for one in divisors):
        return plain
    factor = max(divisors)
    expected = llama3_divisors(plain["rope_theta"], head_dim, factor)
    if any(not math.isclose(one, other, rel_tol=_TOLERANCE) for one, other in zip(divisors, expected, strict=True)):
        metadata.faults.append(
            f"{ROPE_FREQS} holds other divisors than the rule of Llama 3 gives for a factor of {factor:g} "
            f"(low_freq_factor {_LOW:g}, high_freq_factor {_HIGH:g}, original_max_position_embeddings {_OLD})"
        )
    settings = {"low_freq_factor": _LOW, "high_freq_factor": _HIGH, "original_max_position_embeddings": _OLD}
    return plain | {"rope_type": "llama3", "factor": factor, **settings}


def _divisors(metadata: Metadata, head_dim: int) -> tuple[float, ...] | None:
    """The tensor's values; None, and a fault, where it is not what it must be."""
    place = metadata.file.tensors[ROPE_FREQS]
    if place.type != "F32" or place.shape != (head_dim // 2,):
        metadata.faults.append(f"{ROPE_FREQS} is {place.type} {list(place.shape)}, not F32 {[head_dim // 2]}")
        return None
    with metadata.file.path.open("rb") as opened:
        opened.seek(place.offset)
        return struct.unpack(f"<{head_dim // 2}f", opened.read(place.num_bytes))


def llama3_divisors(base: float, head_dim: int, factor: float) -> list[float]:
    """What the rule of Llama 3 divides each frequency by: 1 for short waves, ``factor`` for long ones, a blend
    between (transformers, modeling_rope_utils, ``llama3``)."""
    divisors = []
    for index in range(0, head_dim, 2):
        turns = _OLD * base ** (-index / head_dim) / (2 * math.pi)
        blend = min(max((turns - _LOW) / (_HIGH - _LOW), 0.0), 1.0)
        divisors.append(1 / ((1 - blend) / factor + blend))
    return divisors
