"""MXFP4 experts as gpt-oss stores them: blocks of 32 e2m1 values with an exponent each, all experts in one tensor."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from evalcard_engine.checkpoint.claims import ModuleClaim, Parts, Quantized
from evalcard_engine.checkpoint.expected import (
    Part,
    check_parts,
    is_plain,
    listed_fault,
    names_in,
    refuse,
    unknown_settings,
)
from evalcard_engine.checkpoint.plain import plain_weight
from evalcard_engine.checkpoint.source import Checkpoint
from evalcard_engine.errors import EngineError
from evalcard_engine.quant.elements import FP4_E2M1
from evalcard_engine.quant.weight import QuantizedWeight

BLOCK = 32
"""Values that share an exponent (OCP Microscaling Formats, 2023, 5.2)."""
EXPONENT_BIAS = 127
_NOT_A_NUMBER = 255
"""The one E8M0 code that is no exponent."""
SCHEME = "w4a16 (mxfp4, groups of 32)"


@dataclass(frozen=True, slots=True)
class Mxfp4Format:
    """Linears of experts as ``blocks`` and ``scales``, one expert's share of the files' tensors; all else plain."""

    name: str
    skipped: tuple[str, ...]
    """Modules that the config calls unquantized."""

    def module(self, name: str, shape: tuple[int, int], parts: Parts) -> ModuleClaim:
        """By the tensors that are there."""
        if is_plain(parts, ("blocks", "scales")):
            return plain_weight(name, parts)
        (out, width), half = shape, BLOCK // 2
        expected = {
            "blocks": Part(("U8",), ((out, width // BLOCK, half),)),
            "scales": Part(("U8",), ((out, width // BLOCK),)),
        }
        leaves, faults = check_parts(name, parts, expected)
        faults += listed_fault(name, self.skipped, "modules_to_not_convert")
        if width % BLOCK:
            faults.append(f"{name}: groups of {BLOCK} do not divide its width {width}")
        source = Quantized(
            {leaf: f"{name}.{leaf}" for leaf in leaves},
            SCHEME,
            lambda tensors: expert_weights(name, tensors["blocks"][None], tensors["scales"][None])[0],
            check=lambda tensors: _value_faults(name, tensors),
        )
        return ModuleClaim(source, leaves, tuple(faults))

    def extras(self, name: str, parts: Parts) -> ModuleClaim:
        """There are none."""
        return ModuleClaim(None)


def open_format(checkpoint: Checkpoint, config: Mapping[str, Any]) -> Mxfp4Format:
    """The format of a gpt-oss checkpoint; raises EngineError listing every setting that cannot be honoured."""
    faults = unknown_settings(config, ("quant_method", "modules_to_not_convert", "dequantize"))
    skipped = names_in(config, ("modules_to_not_convert",), faults)
    refuse(checkpoint.name, "mxfp4", faults)
    return Mxfp4Format("mxfp4", skipped)


def _value_faults(name: str, tensors: Mapping[str, torch.Tensor]) -> Iterator[str]:
    if bool((tensors["scales"] == _NOT_A_NUMBER).any()):
        yield f"{name}: scales hold {_NOT_A_NUMBER}, which is no exponent"


def expert_weights(name: str, blocks: torch.Tensor, scales: torch.Tensor) -> list[QuantizedWeight]:
    """One weight [rows, groups * 32] an expert; codes and scales are views or copies of an expert's share only.

    blocks: uint8 [experts, rows, groups, 16], two e2m1 values a byte, low nibble first (``*_blocks`` in the files).
    scales: uint8 [experts, rows, groups], exponents with bias 127 (``*_scales``). Raises EngineError naming ``name``
    for tensors of another kind and for scales that are NaN.
    """
    half = BLOCK // 2
    faults = [
        f"{part} is {str(found.dtype).removeprefix('torch.')} {list(found.shape)}, not uint8 {wanted}"
        for part, found, wanted, fits in (
            ("blocks", blocks, f"[experts, rows, groups, {half}]", blocks.dim() == 4 and blocks.shape[-1] == half),
            ("scales", scales, "[experts, rows, groups]", scales.shape == blocks.shape[:-1]),
        )
        if found.dtype != torch.uint8 or not fits
    ]
    if not faults and bool((scales == _NOT_A_NUMBER).any()):
        faults.append("scales hold 255, which is no exponent")
    if faults:
        raise EngineError(f"{name}: {'; '.join(faults)}. Fetch the model again, or try --backend vllm.")
    _, rows, groups, _ = blocks.shape
    return [
        QuantizedWeight(
            codes=expert.reshape(rows, groups * half),
            element=FP4_E2M1,
            scales=powers_of_two(exponents),
            group_size=BLOCK,
            in_features=groups * BLOCK,
            scheme=SCHEME,
        )
        for expert, exponents in zip(blocks, scales, strict=True)
    ]


def powers_of_two(exponents: torch.Tensor) -> torch.Tensor:
    """E8M0 codes, uint8 0 to 254 -> float32 2^(code - 127), exactly."""
    # Two factors, because the least of them are subnormal in float32 and a single power might be flushed to 0.
    shifted = exponents.int() - EXPONENT_BIAS
    first = shifted.clamp(min=-126)
    return _power(first) * _power(shifted - first)


def _power(exponents: torch.Tensor) -> torch.Tensor:
    """int32 -126 to 127 -> float32 2^exponent, by writing the exponent's bits."""
    return ((exponents + EXPONENT_BIAS) << 23).view(torch.float32)
