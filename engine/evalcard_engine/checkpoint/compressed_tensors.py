"""compressed-tensors: what llm-compressor writes. One module's tensors become a QuantizedWeight.

Layouts follow the library's own files (0.9 to 0.20). What is quantized is decided by the tensors that are
there; the config says how to read them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from evalcard_engine.checkpoint import ct_kv, sparse24
from evalcard_engine.checkpoint.claims import ModuleClaim, Parts, Quantized
from evalcard_engine.checkpoint.ct_config import Group, Settings, read_settings
from evalcard_engine.checkpoint.ct_inputs import input_parts, input_values, unrunnable
from evalcard_engine.checkpoint.ct_parts import packing_of, scheme_words, weight_parts
from evalcard_engine.checkpoint.ct_weights import SMALL_PARTS, Reading, code_values, read_weight, weight_values
from evalcard_engine.checkpoint.expected import refuse
from evalcard_engine.checkpoint.plain import PLAIN_DTYPES, plain_weight
from evalcard_engine.checkpoint.reading import TensorReader
from evalcard_engine.checkpoint.source import Checkpoint
from evalcard_engine.checkpoint.tensor_files import TensorFile
from evalcard_engine.quant.weight import QuantizedWeight

_PACKED = frozenset({"pack-quantized", "nvfp4-pack-quantized", "mxfp4-pack-quantized"})
_UNDECIDED = frozenset({"", "mixed-precision"})
_EMBEDDINGS = ("embed", "wte")
"""What the last part of an embedding's name holds, in every family; all other matrices are linears."""


def open_format(checkpoint: Checkpoint, config: Mapping[str, Any]) -> "CompressedTensors":
    """Raises EngineError listing every setting that cannot be honoured."""
    fmt, faults = read_format(checkpoint, config)
    faults += ct_kv.unrunnable(fmt.settings.kv_cache)
    refuse(checkpoint.name, "compressed-tensors", faults)
    return fmt


def read_format(checkpoint: Checkpoint, config: Mapping[str, Any]) -> tuple["CompressedTensors", list[str]]:
    """(the format, what of its settings is not understood or not read), whatever of it this engine can run."""
    settings, faults = read_settings(config)
    faults += [fault for group in settings.groups for fault in unrunnable(group.inputs)]
    faults += ct_kv.unreadable(settings.kv_cache)
    names = frozenset(checkpoint.tensors) | (checkpoint.absent or frozenset())
    return CompressedTensors(settings, names, TensorReader(checkpoint)), faults


@dataclass(frozen=True, slots=True)
class CompressedTensors:
    """One checkpoint's settings, and its tensors by name."""

    settings: Settings
    tensors: frozenset[str]
    reader: TensorReader
    name: str = "compressed-tensors"

    def module(self, name: str, shape: tuple[int, int], parts: Parts) -> ModuleClaim:
        """By the tensors that are there: a plain ``weight`` alone is plain, whatever the config targets."""
        faults = ct_kv.missing_scales(name, self.settings.kv_cache, self.tensors)
        sparse = sparse24.is_sparse(parts)
        dense = parts
        if sparse:
            dense, found = sparse24.as_dense(name, shape, parts)
            faults += (
                found if self.settings.is_sparse else [f"{name} is 2:4 sparse, but sparsity_config says it is not"]
            )
        stored = dense.get("weight")
        if not any(leaf.startswith("weight_") for leaf in dense) and (stored is None or stored.dtype in PLAIN_DTYPES):
            claim = _sparse_plain(name, shape, stored) if sparse else plain_weight(name, parts)
            return ModuleClaim(claim.source, claim.leaves, (*faults, *claim.faults))
        return self._quantized(name, shape, dense, sparse, faults)

    def _quantized(
        self, name: str, shape: tuple[int, int], parts: Parts, sparse: bool, faults: list[str]
    ) -> ModuleClaim:
        """``parts`` as they are without sparse storage."""
        kind = "Embedding" if any(word in name.rpartition(".")[2] for word in _EMBEDDINGS) else "Linear"
        group = self.settings.group_of(name, kind)
        if group is None:
            found = f"{name} is quantized ({', '.join(sorted(parts))}), but no config group targets it"
            return ModuleClaim(None, frozenset(parts) | sparse24.SPARSE_PARTS, (*faults, found))
        if self.settings.ignores(name, kind):
            faults.append(f"{name} is quantized ({', '.join(sorted(parts))}), but the config ignores it")
        weights, weight_faults = weight_parts(name, shape, group.weights, parts)
        inputs, input_faults = input_parts(name, group.inputs, parts)
        faults += [*_other_format(name, group, parts), *weight_faults, *input_faults]
        packing = None if faults else packing_of(shape, group.weights, parts)
        reading = Reading(name, shape, group.weights, group.inputs, packing)
        if not faults:
            faults += self._values(reading, weights | inputs)
        return ModuleClaim(*_source(reading, weights | inputs, sparse), tuple(faults))

    def _values(self, reading: Reading, leaves: set[str]) -> list[str]:
        """Faults of the values that are few, so that they are named with all others before any weight is read."""
        small = {
            leaf: self.reader[f"{reading.name}.{leaf}"] for leaf in leaves if leaf in SMALL_PARTS or "input" in leaf
        }
        return [*weight_values(reading, small), *input_values(reading.name, small)]

    def extras(self, name: str, parts: Parts) -> ModuleClaim:
        """Scales of the KV cache beside an attention's projections."""
        return ct_kv.claim_scales(name, self.settings.kv_cache, parts, self.reader)


def _other_format(name: str, group: Group, parts: Parts) -> list[str]:
    """A fault where the config's format and the tensors disagree on whether codes are packed."""
    is_packed = "weight_packed" in parts
    if group.format in _UNDECIDED or is_packed == (group.format in _PACKED) and group.format != "dense":
        return []
    return [
        f"{name}: its weight is {'packed' if is_packed else 'not packed'}, but the config's format is {group.format}"
    ]


def _source(reading: Reading, leaves: set[str], sparse: bool) -> tuple[Quantized, frozenset[str]]:
    """A weight of these parts, and the parts as they are stored."""

    def read(tensors: Mapping[str, torch.Tensor]) -> QuantizedWeight:
        if not sparse:
            return read_weight(reading, tensors)
        dense = sparse24.expand(reading.name, reading.shape, tensors)
        return read_weight(reading, {**tensors, "weight": dense})

    stored = frozenset(leaves - {"weight"} | sparse24.SPARSE_PARTS if sparse else leaves)
    words = scheme_words(reading.weights, reading.inputs)
    words = f"{words[:-1]}, 2:4 sparse)" if sparse else words

    def check(tensors: Mapping[str, torch.Tensor]) -> list[str]:
        if not sparse:
            return code_values(reading, tensors)
        kept = code_values(reading, {"weight": tensors["compressed"]})
        return [*sparse24.value_faults(reading.name, reading.shape, tensors), *kept]

    return Quantized({leaf: f"{reading.name}.{leaf}" for leaf in sorted(stored)}, words, read, check=check), stored


def _sparse_plain(name: str, shape: tuple[int, int], stored: TensorFile | None) -> ModuleClaim:
    """An unquantized weight in 2:4 sparse storage; ``stored`` is None where its parts are faulty already."""
    leaves = sparse24.SPARSE_PARTS
    words = f"sparse24 ({'' if stored is None else stored.dtype.lower()}, two of every four weights)"
    tensors = {leaf: f"{name}.{leaf}" for leaf in sorted(leaves)}
    source = Quantized(
        tensors,
        words,
        lambda found: sparse24.expand(name, shape, found),
        check=lambda found: sparse24.value_faults(name, shape, found),
    )
    return ModuleClaim(source, leaves)
