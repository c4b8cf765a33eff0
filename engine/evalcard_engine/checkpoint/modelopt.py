"""NVIDIA ModelOpt's unified Hugging Face checkpoints: FP8, NVFP4, and layers of both in one model.

Layouts follow ModelOpt's export and vLLM's loader of it: an fp8 weight with one scale, or nibbles of e2m1 (low first)
with an e4m3 scale for 16 columns and a float32 one for the tensor. Both scales multiply: weight_scale_2 is the
reciprocal of compressed-tensors' weight_global_scale, and input_scale of its input_global_scale.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from evalcard_engine.checkpoint import kv_scales
from evalcard_engine.checkpoint.claims import ModuleClaim, Parts, Quantized
from evalcard_engine.checkpoint.expected import (
    SCALARS,
    Part,
    check_parts,
    is_plain,
    listed_fault,
    names_in,
    nan_codes,
    not_finite,
    not_positive,
    refuse,
    refuse_values,
    unknown_settings,
)
from evalcard_engine.checkpoint.fp8 import fp8_weight
from evalcard_engine.checkpoint.plain import PLAIN_DTYPES, plain_weight
from evalcard_engine.checkpoint.reading import TensorReader
from evalcard_engine.checkpoint.source import EXPORTER_CONFIG, Checkpoint
from evalcard_engine.quant.elements import FP4_E2M1
from evalcard_engine.quant.weight import Activations, QuantizedWeight

_KNOWN = {
    "quant_method", "quant_algo", "kv_cache_quant_algo", "kv_cache_scheme", "group_size", "exclude_modules", "ignore",
    "config_groups", "producer", "quantized_layers", "has_zero_point", "pre_quant_scale", "activation_scheme",
}  # fmt: skip
_FP4_GROUP = 16
"""Columns that share a scale in NVFP4; the format has no other."""
_ALGORITHMS = {
    "FP8": "w8a8 (fp8, per tensor, static)",
    "FP8_PER_CHANNEL_PER_TOKEN": "w8a8 (fp8, per channel, dynamic)",
    "NVFP4": "w4a4 (nvfp4, groups of 16)",
    "W4A16_NVFP4": "w4a16 (nvfp4, groups of 16)",
}
"""quant_algo -> scheme in the field's words."""
_FP8_CACHE = {"num_bits": 8, "type": "float", "dynamic": False}
"""What kv_cache_scheme says where kv_cache_quant_algo says FP8."""


def open_format(checkpoint: Checkpoint, config: Mapping[str, Any]) -> "ModelOpt":
    """Raises EngineError listing every setting that cannot be honoured, and where the two configs contradict."""
    settings = {**config, **(config.get("quantization") or {})}
    settings.pop("quantization", None)
    algorithm = str(settings.get("quant_algo") or "").upper()
    layers = {
        name: str(one.get("quant_algo") or "").upper() for name, one in (settings.get("quantized_layers") or {}).items()
    }
    faults = unknown_settings(settings, _KNOWN) + _refused(settings)
    used = set(layers.values()) if algorithm == "MIXED_PRECISION" else {algorithm}
    known = ", ".join(_ALGORITHMS)
    faults += [f"quant_algo {name or 'missing'}; {known} are read" for name in sorted(used - set(_ALGORITHMS))]
    if algorithm == "MIXED_PRECISION" and not layers:
        faults.append("quant_algo MIXED_PRECISION without quantized_layers")
    other = (checkpoint.config.get(EXPORTER_CONFIG) or {}).get("quantization") or {}
    if other.get("quant_algo") and str(other["quant_algo"]).upper() != algorithm:
        faults.append(f"config.json says {algorithm}, hf_quant_config.json {other['quant_algo']}")
    is_fp8_cache = _has_fp8_cache((settings, other), faults)
    excluded = names_in(settings, ("exclude_modules", "ignore"), faults)
    refuse(checkpoint.name, "modelopt", faults)
    return ModelOpt(algorithm, layers, excluded, TensorReader(checkpoint) if is_fp8_cache else None)


def _has_fp8_cache(configs: Iterable[Mapping[str, Any]], faults: list[str]) -> bool:
    """Whether either config asks for a KV cache in fp8 with stored scales; another kind of it is a fault."""
    found = False
    for config in configs:
        algorithm, scheme = config.get("kv_cache_quant_algo"), config.get("kv_cache_scheme")
        if algorithm and str(algorithm).upper() != "FP8":
            faults.append(f"kv_cache_quant_algo {algorithm}: a KV cache in FP8 with stored scales is run")
        if scheme and scheme != _FP8_CACHE:
            faults.append(f"kv_cache_scheme {scheme}: a KV cache in fp8 with stored scales is run ({_FP8_CACHE})")
        found = found or bool(algorithm or scheme)
    return found


def _refused(settings: Mapping[str, Any]) -> list[str]:
    faults = [f"{key} is set, which this engine does not read" for key in ("has_zero_point", "pre_quant_scale")
               if settings.get(key)]  # fmt: skip
    if settings.get("activation_scheme") not in (None, "static"):
        faults.append(f"activation_scheme {settings['activation_scheme']}; static is run")
    sizes = [settings.get("group_size"), *_group_sizes(settings.get("config_groups") or {})]
    return faults + [f"group_size {size}; NVFP4 has {_FP4_GROUP}" for size in sizes if size not in (None, _FP4_GROUP)]


def _group_sizes(groups: Mapping[str, Any]) -> list[Any]:
    return [(group.get(kind) or {}).get("group_size") for group in groups.values()
            for kind in ("weights", "input_activations")]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ModelOpt:
    """One checkpoint's settings."""

    algorithm: str
    layers: Mapping[str, str]
    """Module -> algorithm where they differ (MIXED_PRECISION)."""
    excluded: tuple[str, ...]
    kv_cache: TensorReader | None = None
    """The checkpoint's tensors, where the KV cache is fp8 with scales among them."""
    name: str = "modelopt"

    def module(self, name: str, shape: tuple[int, int], parts: Parts) -> ModuleClaim:
        """By the tensors that are there: a plain ``weight`` without scales is plain, listed or not."""
        kv_faults = [] if self.kv_cache is None else kv_scales.missing_scales(name, self.kv_cache)
        if is_plain(parts, ("weight_scale",)):
            plain = plain_weight(name, parts)
            return ModuleClaim(plain.source, plain.leaves, (*plain.faults, *kv_faults))
        algorithm = self.layers.get(name, "") if self.algorithm == "MIXED_PRECISION" else self.algorithm
        if algorithm not in _ALGORITHMS:
            fault = f"{name} is quantized ({', '.join(sorted(parts))}), but quantized_layers does not name it"
            return ModuleClaim(None, frozenset(parts), (fault, *kv_faults))
        leaves, faults = check_parts(name, parts, _expected(algorithm, shape))
        faults += kv_faults
        faults += listed_fault(name, self.excluded, "exclude_modules")
        if "NVFP4" in algorithm and shape[1] % _FP4_GROUP:
            faults.append(f"{name}: {shape[1]} columns do not divide into groups of {_FP4_GROUP}")
        source = Quantized(
            {leaf: f"{name}.{leaf}" for leaf in leaves},
            _ALGORITHMS[algorithm],
            lambda tensors: read_weight(name, algorithm, tensors),
            check=lambda tensors: value_faults(name, algorithm, tensors),
        )
        return ModuleClaim(source, leaves, tuple(faults))

    def extras(self, name: str, parts: Parts) -> ModuleClaim:
        """Scales of the KV cache, where a config says that there are some."""
        if self.kv_cache is None:
            return ModuleClaim(None)
        return kv_scales.claim_scales(name, "fp8_e4m3", parts, self.kv_cache)


def _expected(algorithm: str, shape: tuple[int, int]) -> dict[str, Part]:
    out, width = shape
    scalar = Part(("F32",), SCALARS)
    if algorithm == "FP8":
        return {"weight": Part(("F8_E4M3",), (shape,)), "weight_scale": Part(PLAIN_DTYPES, SCALARS),
                "input_scale": scalar}  # fmt: skip
    if algorithm == "FP8_PER_CHANNEL_PER_TOKEN":
        return {"weight": Part(("F8_E4M3",), (shape,)), "weight_scale": Part(PLAIN_DTYPES, ((out,), (out, 1)))}
    return {
        "weight": Part(("U8",), ((out, width // 2),)),
        "weight_scale": Part(("F8_E4M3",), ((out, width // _FP4_GROUP),)),
        "weight_scale_2": scalar,
        # A weight-only checkpoint may keep the scales of the one with 4-bit activations that it was made from.
        "input_scale": Part(("F32",), SCALARS, is_optional=algorithm == "W4A16_NVFP4"),
    }


def read_weight(name: str, algorithm: str, tensors: Mapping[str, torch.Tensor]) -> QuantizedWeight:
    """One module's weight, a dense layer's or an expert's; raises EngineError naming it for scales not finite."""
    refuse_values(value_faults(name, algorithm, tensors))
    scales = tensors["weight_scale"]
    words, acts = _ALGORITHMS[algorithm], _activations(algorithm, tensors)
    if "NVFP4" not in algorithm:
        return fp8_weight(tensors["weight"], scales.reshape(-1, 1), acts, words)
    whole = tensors["weight_scale_2"].reshape(())
    return QuantizedWeight(
        codes=tensors["weight"],
        element=FP4_E2M1,
        scales=scales.float() * whole,
        group_size=_FP4_GROUP,
        in_features=tensors["weight"].shape[1] * 2,
        activations=acts,
        scheme=words,
    )


def value_faults(name: str, algorithm: str, tensors: Mapping[str, torch.Tensor]) -> Iterator[str]:
    """What is wrong with the values; four-bit codes have no wrong ones."""
    yield from not_finite(name, ("weight_scale", "weight_scale_2"), tensors)
    if "NVFP4" not in algorithm:
        yield from nan_codes(name, tensors["weight"])
    if algorithm in ("FP8", "NVFP4"):
        yield from not_positive(name, "input_scale", tensors["input_scale"])


def _activations(algorithm: str, tensors: Mapping[str, torch.Tensor]) -> Activations | None:
    if algorithm == "W4A16_NVFP4":
        return None
    if algorithm == "FP8_PER_CHANNEL_PER_TOKEN":
        return Activations("fp8_e4m3", "token")
    scale = tensors["input_scale"].float().reshape(())
    if algorithm == "FP8":
        return Activations("fp8_e4m3", "tensor", None, scale)
    return Activations("fp4_e2m1", "group", _FP4_GROUP, 1 / scale)
