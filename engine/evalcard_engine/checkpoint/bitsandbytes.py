"""bitsandbytes checkpoints: NF4 and FP4 with or without double quantization, and LLM.int8().

Layouts follow bitsandbytes' QuantState.as_dict (4 bits: bytes in one line, high nibble first, beside absmax, quant_map
and a JSON of the rest) and Linear8bitLt (int8 rows beside SCB, their greatest absolute values).
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from evalcard_engine.checkpoint.claims import ModuleClaim, Parts, Quantized
from evalcard_engine.checkpoint.expected import (
    SCALARS,
    Part,
    check_parts,
    is_plain,
    listed_fault,
    names_in,
    not_finite,
    refuse,
    refuse_values,
    unknown_settings,
)
from evalcard_engine.checkpoint.plain import PLAIN_DTYPES, plain_weight
from evalcard_engine.checkpoint.reading import TensorReader
from evalcard_engine.checkpoint.source import Checkpoint
from evalcard_engine.checkpoint.tensor_files import DTYPE_BITS
from evalcard_engine.quant.elements import CODEBOOK4, INT8, pack_nibbles
from evalcard_engine.quant.weight import Activations, QuantizedWeight

_KNOWN = {
    "quant_method", "load_in_4bit", "load_in_8bit", "_load_in_4bit", "_load_in_8bit", "llm_int8_threshold",
    "llm_int8_skip_modules", "llm_int8_enable_fp32_cpu_offload", "llm_int8_has_fp16_weight", "bnb_4bit_compute_dtype",
    "bnb_4bit_quant_type", "bnb_4bit_use_double_quant", "bnb_4bit_quant_storage",
}  # fmt: skip
_STATE = "weight.quant_state.bitsandbytes__"
_KINDS = ("nf4", "fp4")
_STORAGE = ("U8", "I8", "F16", "BF16", "F32", "F64")
"""What the packed bytes may be labelled as (bnb_4bit_quant_storage)."""
_ROW_FORMAT = 0
"""weight_format of int8 rows as they are; older versions stored GPU tile orders under other numbers."""
INT8_THRESHOLD = 6.0
"""Default of llm_int8_threshold."""


def open_format(checkpoint: Checkpoint, config: Mapping[str, Any]) -> "BitsAndBytes":
    """Raises EngineError listing every setting that cannot be honoured."""
    faults = unknown_settings(config, _KNOWN)
    if config.get("llm_int8_has_fp16_weight"):
        faults.append("llm_int8_has_fp16_weight: the int8 form is made from 16-bit weights at run time")
    threshold = config.get("llm_int8_threshold")
    if not isinstance(threshold, int | float | None) or (threshold or 0) < 0:
        faults.append(f"llm_int8_threshold is {threshold!r}; it must be a number from 0")
    skipped = names_in(config, ("llm_int8_skip_modules",), faults)
    refuse(checkpoint.name, "bitsandbytes", faults)
    return BitsAndBytes(
        TensorReader(checkpoint),
        INT8_THRESHOLD if threshold is None else float(threshold),
        skipped,
        str(config.get("bnb_4bit_quant_type") or "") if config.get("load_in_4bit") else "",
    )


@dataclass(frozen=True, slots=True)
class BitsAndBytes:
    """One checkpoint's settings."""

    reader: TensorReader
    """For the few bytes of JSON that say how a weight is cut into blocks."""
    threshold: float
    """An activation of this size is an outlier of LLM.int8(); 0 means there are none."""
    skipped: tuple[str, ...]
    quant_type: str
    """nf4 or fp4 as the config says; empty where it says neither."""
    name: str = "bitsandbytes"

    def module(self, name: str, shape: tuple[int, int], parts: Parts) -> ModuleClaim:
        """By the tensors that are there: 4 bits with a quant_state, int8 with an SCB, else plain."""
        states = [leaf for leaf in parts if leaf.startswith(_STATE)]
        if states:
            claim = self._four_bits(name, shape, parts, states)
        elif "SCB" in parts:
            claim = self._int8(name, shape, parts)
        elif is_plain(parts, ("weight.", "weight_format")):
            return plain_weight(name, parts)
        else:
            fault = f"{name} is quantized ({', '.join(sorted(parts))}), but has neither a quant_state nor an SCB"
            return ModuleClaim(None, frozenset(parts), (fault,))
        listed = listed_fault(name, self.skipped, "llm_int8_skip_modules")
        return ModuleClaim(claim.source, claim.leaves, (*claim.faults, *listed))

    def extras(self, name: str, parts: Parts) -> ModuleClaim:
        """There are none."""
        return ModuleClaim(None)

    def _four_bits(self, name: str, shape: tuple[int, int], parts: Parts, states: list[str]) -> ModuleClaim:
        kind = states[0].removeprefix(_STATE)
        state, faults = self._state(name, shape, states)
        if self.quant_type and kind != self.quant_type:
            faults.append(f"{name} is {kind}, but bnb_4bit_quant_type is {self.quant_type}")
        if state is None:
            return ModuleClaim(None, frozenset(parts), tuple(faults))
        leaves, misfits = check_parts(name, parts, dict(_four_bit_parts(state, parts)))
        leaves |= frozenset(states)
        nested = "" if state.nested_block is None else ", double quantization"
        words = f"w4a16 ({kind}, blocks of {state.block}{nested})"
        source = Quantized(
            {leaf: f"{name}.{leaf}" for leaf in leaves},
            words,
            lambda tensors: read_four_bits(state, words, tensors),
            check=lambda tensors: four_bit_faults(state, tensors),
        )
        return ModuleClaim(source, leaves, (*faults, *misfits))

    def _state(self, name: str, shape: tuple[int, int], states: list[str]) -> tuple["State | None", list[str]]:
        """(the stored state, faults); None where it cannot be read."""
        if len(states) > 1 or states[0].removeprefix(_STATE) not in _KINDS:
            return None, [f"{name}: {', '.join(sorted(states))}; one of {', '.join(_KINDS)} is read"]
        try:
            found = json.loads(bytes(self.reader[f"{name}.{states[0]}"].tolist()))
            stored = tuple(int(size) for size in found["shape"])
            state = State.of(name, shape, found)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return None, [f"{name}.{states[0]} cannot be read ({type(error).__name__}: {error})"]
        wrong = f"{name}: its quant_state says {list(stored)} in blocks of {state.block}, the model {list(shape)}"
        return state, [wrong] if stored != shape else []

    def _int8(self, name: str, shape: tuple[int, int], parts: Parts) -> ModuleClaim:
        expected = {
            "weight": Part(("I8",), (shape,)),
            "SCB": Part(("F32",), ((shape[0],),)),
            "weight_format": Part(("U8",), SCALARS, is_optional=True),
        }
        leaves, faults = check_parts(name, parts, expected)
        if "weight_format" in leaves and int(self.reader[f"{name}.weight_format"]) != _ROW_FORMAT:
            faults.append(f"{name}.weight_format is not {_ROW_FORMAT}: rows in a GPU's tile order are not read")
        rest = f", outliers from {self.threshold:g} unquantized by token" if self.threshold else ""
        words = f"w8a8 (LLM.int8, per channel{rest})"
        source = Quantized(
            {leaf: f"{name}.{leaf}" for leaf in leaves},
            words,
            lambda tensors: read_int8(name, self.threshold, words, tensors),
            check=lambda tensors: not_finite(name, ("SCB",), tensors),
        )
        return ModuleClaim(source, leaves, tuple(faults))


@dataclass(frozen=True, slots=True)
class State:
    """What a quant_state says of a 4-bit weight."""

    name: str
    shape: tuple[int, int]
    block: int
    """Values that share a scale, counted along the matrix read as one line."""
    nested_block: int | None
    """Scales that share a scale of their own; None without double quantization."""
    offset: float
    """Added to scales that were quantized themselves."""

    @classmethod
    def of(cls, name: str, shape: tuple[int, int], found: Mapping[str, Any]) -> "State":
        """From the stored JSON; raises ValueError, KeyError or TypeError where that cannot be right."""
        nested = found.get("nested_blocksize")
        state = cls(name, shape, int(found["blocksize"]), None if nested is None else int(nested),
                    float(found.get("nested_offset") or 0))  # fmt: skip
        if state.block < 1 or (state.nested_block is not None and state.nested_block < 1):
            raise ValueError(f"blocks of {state.block}, nested {state.nested_block}")
        return state

    @property
    def num_blocks(self) -> int:
        return -(-self.shape[0] * self.shape[1] // self.block)


def _four_bit_parts(state: State, parts: Parts) -> Iterator[tuple[str, Part]]:
    num_bytes = -(-state.shape[0] * state.shape[1] // 2)
    place = parts.get("weight")
    each = DTYPE_BITS[place.dtype] // 8 if place is not None and place.dtype in _STORAGE else 1
    yield "weight", Part(_STORAGE, ((num_bytes // each, 1), (1, num_bytes // each)))
    yield "weight.quant_map", Part(("F32",), ((16,),))
    if state.nested_block is None:
        yield "weight.absmax", Part(("F32",), ((state.num_blocks,),))
        return
    yield "weight.absmax", Part(("U8",), ((state.num_blocks,),))
    yield "weight.nested_absmax", Part(PLAIN_DTYPES, ((-(-state.num_blocks // state.nested_block),),))
    yield "weight.nested_quant_map", Part(("F32",), ((256,),))


def read_four_bits(state: State, scheme: str, tensors: Mapping[str, torch.Tensor]) -> QuantizedWeight:
    """A 4-bit weight; blocks that begin within a row keep the matrix one line (``is_flat``)."""
    refuse_values(four_bit_faults(state, tensors))
    out, width = state.shape
    packed = tensors["weight"].reshape(-1).view(torch.uint8)
    codes = torch.stack((packed >> 4, packed & 0xF), dim=-1).reshape(-1)[: out * width]
    scales = _absmax(state, tensors)
    is_flat = width % state.block != 0
    return QuantizedWeight(
        codes=pack_nibbles(codes.view(out, width)),
        element=CODEBOOK4,
        scales=scales.view(1, -1) if is_flat else scales.view(out, -1),
        group_size=state.block,
        in_features=width,
        codebook=tensors["weight.quant_map"],
        is_flat=is_flat,
        scheme=scheme,
    )


def four_bit_faults(state: State, tensors: Mapping[str, torch.Tensor]) -> Iterator[str]:
    """What is wrong with everything but the codes."""
    if not math.isfinite(state.offset):
        yield f"{state.name}: nested_offset in its quant_state is not finite"
    leaves = ("weight.quant_map", "weight.absmax", "weight.nested_absmax", "weight.nested_quant_map")
    yield from not_finite(state.name, leaves, tensors)


def _absmax(state: State, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """float32 [blocks]: scales, themselves looked up, scaled and shifted where they were quantized again."""
    stored = tensors["weight.absmax"]
    if state.nested_block is None:
        return stored
    values = tensors["weight.nested_quant_map"][stored.long()]
    outer = tensors["weight.nested_absmax"].float().repeat_interleave(state.nested_block)[: stored.numel()]
    return values * outer + state.offset


def read_int8(name: str, threshold: float, scheme: str, tensors: Mapping[str, torch.Tensor]) -> QuantizedWeight:
    """value = int8 * SCB / 127, with SCB the greatest absolute value of a row (LLM.int8, arXiv 2208.07339)."""
    refuse_values(not_finite(name, ("SCB",), tensors))
    weight = tensors["weight"]
    return QuantizedWeight(
        codes=weight,
        element=INT8,
        scales=tensors["SCB"].view(-1, 1) / 127,
        group_size=weight.shape[1],
        in_features=weight.shape[1],
        activations=Activations("int8", "token", outliers=threshold or None),
        scheme=scheme,
    )
