"""fp8 checkpoints in DeepSeek's and Qwen's style, AutoFP8's, and fbgemm's: an e4m3 weight beside its scales.

Layouts: transformers' FineGrainedFP8Config (weight_scale_inv by block or tensor, activation_scale), AutoFP8
(weight_scale, input_scale) and FbgemmFp8Config (weight_scale by row, activation_scale_ub). All scales multiply, those
called ``inv`` too. Rows of a weight stay where they are, so its scales do too.
"""

from collections.abc import Iterator, Mapping
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
from evalcard_engine.checkpoint.plain import PLAIN_DTYPES, plain_weight
from evalcard_engine.checkpoint.reading import TensorReader
from evalcard_engine.checkpoint.source import Checkpoint
from evalcard_engine.quant.elements import FP8_E4M3
from evalcard_engine.quant.weight import Activations, QuantizedWeight

_KNOWN = {
    "quant_method", "activation_scheme", "weight_block_size", "modules_to_not_convert", "ignored_layers", "fmt",
    "dequantize", "scale_fmt", "expert_dtype", "modules_to_convert", "kv_cache_scheme",
}  # fmt: skip
_KNOWN_FBGEMM = {"quant_method", "activation_scale_ub", "modules_to_not_convert"}
_NOT_READ = {
    "fmt": ("e4m3", "another float than e4m3"),
    "scale_fmt": ("float", "scales rounded to powers of two, those of activations too"),
    "expert_dtype": ("fp8", "experts of another width"),
    "dequantize": (False, "weights to be run without rounding activations"),
    "kv_cache_scheme": ("static", "another KV cache than fp8 with one stored scale each for a layer's K and V"),
}
"""Setting -> (the one value that is read, what another one asks for)."""
FBGEMM_SCALE_BOUND = 1200.0
"""transformers' default of activation_scale_ub."""


def open_format(checkpoint: Checkpoint, config: Mapping[str, Any]) -> "Fp8":
    """Raises EngineError listing every setting that cannot be honoured."""
    if config.get("quant_method") == "fbgemm_fp8":
        return _open_fbgemm(checkpoint, config)
    faults = unknown_settings(config, _KNOWN)
    faults += [
        f"{key} is {config[key]!r}: {meaning}"
        for key, (read, meaning) in _NOT_READ.items()
        if config.get(key) not in (read, None)
    ]
    scheme, block = str(config.get("activation_scheme", "dynamic")).lower(), config.get("weight_block_size")
    if scheme not in ("dynamic", "static"):
        faults.append(f"activation_scheme is {scheme!r}; dynamic and static are run")
    if block is not None and not _is_block(block):
        faults.append(f"weight_block_size is {block!r}; it must be two whole numbers from 1, or null")
    if block is not None and scheme == "static":
        faults.append("activation_scheme static with weight_block_size: blocks need scales of the activations' groups")
    skipped = names_in(config, ("modules_to_not_convert", "ignored_layers"), faults)
    refuse(checkpoint.name, "fp8", faults)
    kv_cache = TensorReader(checkpoint) if config.get("kv_cache_scheme") else None
    return Fp8("fp8", (block[0], block[1]) if block else None, scheme == "static", skipped, kv_cache=kv_cache)


def _open_fbgemm(checkpoint: Checkpoint, config: Mapping[str, Any]) -> "Fp8":
    faults = unknown_settings(config, _KNOWN_FBGEMM)
    bound = config.get("activation_scale_ub", FBGEMM_SCALE_BOUND)
    if not isinstance(bound, int | float) or bound <= 0:
        faults.append(f"activation_scale_ub is {bound!r}; it must be a positive number")
    skipped = names_in(config, ("modules_to_not_convert",), faults)
    refuse(checkpoint.name, "fbgemm_fp8", faults)
    return Fp8("fbgemm_fp8", None, False, skipped, float(bound))


def _is_block(found: Any) -> bool:
    return isinstance(found, list) and len(found) == 2 and all(isinstance(size, int) and size > 0 for size in found)


@dataclass(frozen=True, slots=True)
class Fp8:
    """One checkpoint's settings."""

    name: str
    block: tuple[int, int] | None
    """Rows and columns that share a scale, as the config says: a shape cannot tell where the last one is partial."""
    is_static: bool
    """Whether a scale of the activations is stored."""
    skipped: tuple[str, ...]
    """Modules that the config calls unquantized."""
    scale_bound: float | None = None
    """The greatest activation that a scale is made for."""
    kv_cache: TensorReader | None = None
    """The checkpoint's tensors, where the KV cache is fp8 with scales among them."""

    def module(self, name: str, shape: tuple[int, int], parts: Parts) -> ModuleClaim:
        """By the tensors that are there: a plain ``weight`` without scales is plain, listed or not."""
        kv_faults = [] if self.kv_cache is None else kv_scales.missing_scales(name, self.kv_cache)
        if is_plain(parts, ("weight_scale",)):
            plain = plain_weight(name, parts)
            return ModuleClaim(plain.source, plain.leaves, (*plain.faults, *kv_faults))
        leaves, faults = check_parts(name, parts, self._expected(shape, parts))
        faults += kv_faults
        faults += listed_fault(name, self.skipped, "modules_to_not_convert")
        if not self.is_static:
            stray = [leaf for leaf in _INPUT_SCALES if leaf in parts]
            faults += [f"{name}.{leaf} is there, but activation_scheme is dynamic" for leaf in stray]
            leaves |= frozenset(stray)
        words = f"w8a8 (fp8, {_shared(self.block, shape, parts)}, {'static' if self.is_static else 'dynamic'})"
        source = Quantized(
            {leaf: f"{name}.{leaf}" for leaf in leaves},
            words,
            lambda tensors: self._read(name, words, tensors),
            check=lambda tensors: self._value_faults(name, tensors),
        )
        return ModuleClaim(source, leaves, tuple(faults))

    def extras(self, name: str, parts: Parts) -> ModuleClaim:
        """Scales of the KV cache, where kv_cache_scheme says that there are some."""
        if self.kv_cache is None:
            return ModuleClaim(None)
        return kv_scales.claim_scales(name, "fp8_e4m3", parts, self.kv_cache)

    def _expected(self, shape: tuple[int, int], parts: Parts) -> dict[str, Part]:
        out, width = shape
        scales: tuple[tuple[int, ...], ...] = (*SCALARS, (1, 1), (out,), (out, 1))
        if self.block is not None:
            scales = ((-(-out // self.block[0]), -(-width // self.block[1])),)
        expected = {"weight": Part(("F8_E4M3",), (shape,)), _scale_leaf(parts): Part(PLAIN_DTYPES, scales)}
        if self.is_static:
            leaf = next((leaf for leaf in _INPUT_SCALES if leaf in parts), _INPUT_SCALES[0])
            expected[leaf] = Part(PLAIN_DTYPES, SCALARS)
        return expected

    def _read(self, name: str, words: str, tensors: Mapping[str, torch.Tensor]) -> QuantizedWeight:
        refuse_values(self._value_faults(name, tensors))
        weight, scales = tensors["weight"], tensors[_scale_leaf(tensors)]
        if self.block is None:
            return fp8_weight(weight, scales.reshape(-1, 1), self._activations(tensors), words)
        return QuantizedWeight(
            codes=weight,
            element=FP8_E4M3,
            scales=scales,
            group_size=self.block[1],
            in_features=weight.shape[1],
            row_block=self.block[0],
            activations=self._activations(tensors),
            scheme=words,
        )

    def _value_faults(self, name: str, tensors: Mapping[str, torch.Tensor]) -> Iterator[str]:
        yield from not_finite(name, (_scale_leaf(tensors),), tensors)
        yield from nan_codes(name, tensors["weight"])
        for leaf in _INPUT_SCALES if self.is_static else ():
            if leaf in tensors:
                yield from not_positive(name, leaf, tensors[leaf])

    def _activations(self, tensors: Mapping[str, torch.Tensor]) -> Activations:
        if self.is_static:
            leaf = next(leaf for leaf in _INPUT_SCALES if leaf in tensors)
            return Activations("fp8_e4m3", "tensor", None, tensors[leaf].float().reshape(()))
        if self.block is not None:
            return Activations("fp8_e4m3", "group", self.block[1])
        return Activations("fp8_e4m3", "token", limit=self.scale_bound)


_INPUT_SCALES = ("input_scale", "activation_scale")


def fp8_weight(weight: torch.Tensor, scales: torch.Tensor, acts: Activations | None, scheme: str) -> QuantizedWeight:
    """An e4m3 weight [out, in] with one scale, float [1, 1], or one for each row, float [out, 1]."""
    out, width = weight.shape
    return QuantizedWeight(
        codes=weight,
        element=FP8_E4M3,
        scales=scales,
        group_size=width,
        in_features=width,
        row_block=out if scales.shape[0] == 1 else 1,
        activations=acts,
        scheme=scheme,
    )


def _scale_leaf(parts: Mapping[str, object]) -> str:
    return "weight_scale_inv" if "weight_scale_inv" in parts else "weight_scale"


def _shared(block: tuple[int, int] | None, shape: tuple[int, int], parts: Parts) -> str:
    """What shares a scale, in words."""
    if block is not None:
        return f"blocks of {block[0]}x{block[1]}"
    place = parts.get(_scale_leaf(parts))
    return "per channel" if place is not None and place.shape[:1] == (shape[0],) and shape[0] > 1 else "per tensor"
