"""compressed-tensors: what llm-compressor writes. One module's tensors become a QuantizedWeight.

Layouts follow the library's own files (version 0.19). What is quantized is decided by the tensors that are there; the
config says how to read them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evalcard_engine.checkpoint.claims import ModuleClaim, Parts, Quantized, named
from evalcard_engine.checkpoint.ct_config import Group, matches, read_groups
from evalcard_engine.checkpoint.ct_weights import Reading, read_inputs, read_weight, scheme_words, weight_parts
from evalcard_engine.checkpoint.plain import PLAIN_DTYPES, plain_weight
from evalcard_engine.checkpoint.source import Checkpoint
from evalcard_engine.errors import EngineError

_CLASSES = ("Linear", "Embedding")
_INPUT_PARTS = ("input_scale", "input_zero_point", "input_global_scale")


def open_format(checkpoint: Checkpoint, config: Mapping[str, Any]) -> "CompressedTensors":
    """Raises EngineError listing every setting that cannot be honoured."""
    groups, faults = read_groups(config)
    faults += [fault for group in groups for fault in read_inputs(group.inputs)[1]]
    if config.get("kv_cache_scheme"):
        faults.append("kv_cache_scheme: a quantized KV cache is not run yet")
    if faults:
        listed = "; ".join(dict.fromkeys(faults))
        raise EngineError(f"{checkpoint.name}: its compressed-tensors settings cannot be honoured: {listed}.")
    fmt = str(config.get("format") or "")
    return CompressedTensors(tuple(groups), tuple(config.get("ignore") or ()), fmt)


@dataclass(frozen=True, slots=True)
class CompressedTensors:
    """One checkpoint's settings."""

    groups: tuple[Group, ...]
    ignore: tuple[str, ...]
    default_format: str
    name: str = "compressed-tensors"

    def module(self, name: str, shape: tuple[int, int], parts: Parts) -> ModuleClaim:
        """By the tensors that are there: a plain ``weight`` alone is plain, whatever the config targets."""
        extra = [leaf for leaf in parts if leaf.startswith("weight_")]
        weight = parts.get("weight")
        if not extra and (weight is None or weight.dtype in PLAIN_DTYPES):
            return plain_weight(name, parts)
        group = self._group(name)
        if group is None:
            fault = f"{name} is quantized ({', '.join(sorted(parts))}), but no config group targets it"
            return ModuleClaim(None, frozenset(parts), (fault,))
        expected, faults = weight_parts(name, shape, group.weights, parts)
        inputs = {leaf for leaf in _INPUT_PARTS if leaf in parts}
        needed = read_inputs(group.inputs)[0]
        faults += named(f"{name}: activation scales missing", sorted(needed - inputs))
        leaves = frozenset({*expected, *inputs})
        reading = Reading(name, shape, group.weights, group.inputs)
        source = Quantized(
            {leaf: f"{name}.{leaf}" for leaf in leaves},
            scheme_words(group.weights, group.inputs),
            lambda tensors: read_weight(reading, tensors),
        )
        return ModuleClaim(source, leaves, tuple(faults))

    def extras(self, name: str, parts: Parts) -> ModuleClaim:
        """There are none: scales of a KV cache come with a kv_cache_scheme, which open_format refuses."""
        return ModuleClaim(None)

    def _group(self, name: str) -> Group | None:
        """The group of a linear: by its own name first, then by pattern, then by class, as the library has it."""
        ordered = sorted(
            ((target, group) for group in self.groups for target in group.targets), key=lambda pair: _rank(pair[0])
        )
        return next((g for target, g in ordered if any(matches(target, name, kind) for kind in _CLASSES)), None)


def _rank(target: str) -> int:
    if target.startswith("re:"):
        return 1
    return 2 if target in _CLASSES else 0
