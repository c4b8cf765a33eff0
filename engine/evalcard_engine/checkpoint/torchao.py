"""torchao's safetensors: tensor subclasses taken apart, with their attributes as JSON in the files' metadata.

Layouts follow torchao 0.18 (prototype/safetensors and quantization/quantize_/workflows): ``q_proj.weight`` is stored as
``q_proj._weight_qdata``, ``q_proj._weight_scale`` ..., and the metadata's entry ``q_proj.weight`` names its class.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from evalcard_engine.checkpoint.ao_weights import (
    READERS,
    Stored,
    activations_of,
    expected_parts,
    read_weight,
    scheme_words,
    value_faults,
)
from evalcard_engine.checkpoint.claims import ModuleClaim, Parts, Quantized
from evalcard_engine.checkpoint.expected import check_parts, is_plain, listed_fault, names_in, refuse, unknown_settings
from evalcard_engine.checkpoint.plain import plain_weight
from evalcard_engine.checkpoint.source import Checkpoint

_KNOWN = {
    "quant_method", "quant_type", "quant_type_kwargs", "modules_to_not_convert", "include_input_output_embeddings",
    "untie_embedding_weights",
}  # fmt: skip
_PREFIX = "_weight_"


def open_format(checkpoint: Checkpoint, config: Mapping[str, Any]) -> "TorchAO":
    """Raises EngineError listing every setting that cannot be honoured, and metadata that cannot be read."""
    faults = unknown_settings(config, _KNOWN)
    stored = read_metadata(checkpoint, faults)
    if not stored and not faults:
        faults.append("no *.safetensors carries torchao's metadata, so there is no telling what is stored how")
    kind = config.get("quant_type")
    default = kind.get("default") if isinstance(kind, Mapping) else None
    kind_name = str(default.get("_type") or "") if isinstance(default, Mapping) else ""
    skipped = names_in(config, ("modules_to_not_convert",), faults)
    refuse(checkpoint.name, "torchao", faults)
    return TorchAO(stored, kind_name, skipped)


def read_metadata(checkpoint: Checkpoint, faults: list[str]) -> dict[str, Mapping[str, Any]]:
    """{tensor: its class, attributes and parts} of all files; what cannot be read is added to ``faults``."""
    from safetensors import safe_open

    found: dict[str, Mapping[str, Any]] = {}
    for file in sorted({place.file for place in checkpoint.tensors.values()}):
        with safe_open(file, framework="pt") as opened:
            metadata = opened.metadata() or {}
        for tensor in _names(metadata, file, faults):
            try:
                entry = json.loads(metadata[tensor])
                found[tensor] = {"_type": str(entry["_type"]), "_data": dict(entry.get("_data") or {}),
                                 "_tensor_data_names": list(entry.get("_tensor_data_names") or ())}  # fmt: skip
            except (KeyError, ValueError, TypeError) as error:
                faults.append(f"{file.name}: metadata of {tensor} cannot be read ({type(error).__name__}: {error})")
    return found


def _names(metadata: Mapping[str, str], file: Path, faults: list[str]) -> list[str]:
    try:
        return [str(name) for name in json.loads(metadata.get("tensor_names") or "[]")]
    except (ValueError, TypeError) as error:
        faults.append(f"{file.name}: tensor_names in its metadata cannot be read ({error})")
        return []


def _own(tensors: Mapping[str, torch.Tensor], leaves: frozenset[str]) -> dict[str, torch.Tensor]:
    """Parts under torchao's own names."""
    return {leaf.removeprefix(_PREFIX): tensors[leaf] for leaf in leaves}


@dataclass(frozen=True, slots=True)
class TorchAO:
    """One checkpoint's settings."""

    stored: Mapping[str, Mapping[str, Any]]
    """Tensor -> its class, attributes and parts."""
    kind: str
    """Class of the config that quantized it, such as Int8WeightOnlyConfig; empty where modules have their own."""
    skipped: tuple[str, ...]
    name: str = "torchao"

    def module(self, name: str, shape: tuple[int, int], parts: Parts) -> ModuleClaim:
        """By the tensors that are there, read as the metadata says."""
        if is_plain(parts, (_PREFIX,)):
            return plain_weight(name, parts)
        entry = self.stored.get(f"{name}.weight")
        kind = str(entry["_type"]) if entry else "no class"
        if entry is None or kind not in READERS:
            known = ", ".join(READERS)
            fault = f"{name}.weight is stored as {kind}; of torchao's classes {known} are read"
            return ModuleClaim(None, frozenset(parts), (fault,))
        stored = Stored(name, shape, kind, entry["_data"], frozenset(entry["_tensor_data_names"]))
        expected, faults = expected_parts(stored)
        if not expected:
            return ModuleClaim(None, frozenset(parts), tuple(faults))
        acts, refused = activations_of(stored)
        leaves, misfits = check_parts(name, parts, {f"{_PREFIX}{leaf}": part for leaf, part in expected.items()})
        faults += [*refused, *misfits, *listed_fault(name, self.skipped, "modules_to_not_convert")]
        if not refused:
            faults += self._contradiction(name, quantizes_inputs=acts is not None)
        words = scheme_words(stored, acts)
        source = Quantized(
            {leaf: f"{name}.{leaf}" for leaf in leaves},
            words,
            lambda tensors: read_weight(stored, acts, words, _own(tensors, leaves)),
            check=lambda tensors: value_faults(stored, _own(tensors, leaves)),
        )
        return ModuleClaim(source, leaves, tuple(faults))

    def extras(self, name: str, parts: Parts) -> ModuleClaim:
        """There are none."""
        return ModuleClaim(None)

    def _contradiction(self, name: str, quantizes_inputs: bool) -> list[str]:
        """A fault where the config's class and the tensor's attributes differ over activations."""
        if "WeightOnly" in self.kind and quantizes_inputs:
            return [f"{name}: its tensor quantizes activations, but quant_type is {self.kind}"]
        if "Activation" in self.kind and not quantizes_inputs:
            return [f"{name}: its tensor leaves activations alone, but quant_type is {self.kind}"]
        return []
