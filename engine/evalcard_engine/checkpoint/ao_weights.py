"""Tensors of one torchao weight: which there must be, of which shape, and what they stand for."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from evalcard_engine.checkpoint.expected import Part, beyond_bits, nan_codes, not_finite, refuse_values
from evalcard_engine.checkpoint.plain import PLAIN_DTYPES
from evalcard_engine.quant.elements import (
    FP8_E4M3,
    FP8_E5M2,
    INT2,
    INT3,
    INT4,
    INT5,
    INT6,
    INT8,
    Element,
    pack_integers,
)
from evalcard_engine.quant.weight import Activations, QuantizedWeight

_INTS = {1: INT2, 2: INT2, 3: INT3, 4: INT4, 5: INT5, 6: INT6, 7: INT8, 8: INT8}
_SIGN_BITS = 0x88
"""Two nibbles of two's complement become value + 8 each by flipping their sign bits."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One weight as the metadata describes it."""

    name: str
    shape: tuple[int, int]
    kind: str
    """torchao's class."""
    attributes: Mapping[str, Any]
    parts: frozenset[str]
    """Names of its tensors."""

    @property
    def block(self) -> tuple[int, int]:
        """Rows and columns that share a scale; torchao writes the whole tensor as an empty list, a whole side as -1."""
        sizes = self.attributes.get("block_size") or self.shape
        rows, columns = (int(size) for size in sizes)
        return (self.shape[0] if rows == -1 else rows), (self.shape[1] if columns == -1 else columns)

    @property
    def bits(self) -> int:
        """Of the values, which IntxUnpackedToInt8Tensor keeps one in a byte."""
        if self.kind == "Int4Tensor":
            return 4
        target = self.attributes.get("target_dtype") or {}
        return int(str(target.get("_data", "int8")).removeprefix("int"))


def expected_parts(stored: Stored) -> tuple[dict[str, Part], list[str]]:
    """({part: what it must be}, faults): of the parts that the metadata names and this engine understands."""
    (out, width), name = stored.shape, stored.name
    try:
        rows, columns = stored.block
        bits = stored.bits
    except (TypeError, ValueError) as error:
        return {}, [f"{name}: its torchao attributes cannot be read ({type(error).__name__}: {error})"]
    if rows < 1 or columns < 1 or out % rows or width % columns or bits not in _INTS:
        return {}, [f"{name}: {bits} bits in blocks of {rows}x{columns} for a weight of {out}x{width}"]
    groups = (out // rows, width // columns)
    if stored.kind == "Int4Tensor":
        scales = Part(PLAIN_DTYPES, (groups[::-1],))
        expected = {"qdata": Part(("I8", "U8"), ((out, width // 2),)), "scale": scales, "zero_point": scales}
    elif stored.kind == "Float8Tensor":
        shapes = (groups, ()) if groups == (1, 1) else (groups,)
        expected = {"qdata": Part(("F8_E4M3", "F8_E5M2"), (stored.shape,)), "scale": Part(PLAIN_DTYPES, shapes)}
    else:
        zero_points = Part(("I8", *PLAIN_DTYPES), (groups,), is_optional="zero_point" not in stored.parts)
        expected = {"qdata": Part(("I8",), (stored.shape,)), "scale": Part(PLAIN_DTYPES, (groups,)),
                    "zero_point": zero_points}  # fmt: skip
    unread = sorted(stored.parts - set(expected))
    return expected, [f"{name}: {stored.kind} with {', '.join(unread)} is not run"] if unread else []


def activations_of(stored: Stored) -> tuple[Activations | None, list[str]]:
    """(how the input is rounded, faults); scales of a whole batch are refused, as a row's answer would follow others.

    torchao makes a row's int8 scale of max|x| / 127.5, this engine of max|x| / 127, as it does for every format.
    """
    name, attributes = stored.name, stored.attributes
    if attributes.get("activation_quantization"):
        return None, [f"{name}: activations as {attributes['activation_quantization']} are not run"]
    if stored.kind == "Int4Tensor" and (attributes.get("activation_dtype") or {}).get("_data") not in (
        None, "bfloat16", "float16", "float32"):  # fmt: skip
        return None, [f"{name}: int4 weights with {attributes['activation_dtype']['_data']} activations are not run"]
    how = (attributes.get("act_quant_kwargs") or {}).get("_data")
    if not how:
        return None, []
    per = str((how.get("granularity") or {}).get("_type"))
    faults = [f"{name}: activations by {per} are not run, only PerRow"] if per != "PerRow" else []
    if stored.kind == "Int8Tensor":
        mapping = str((how.get("mapping_type") or {}).get("_data", "SYMMETRIC"))
        faults += [f"{name}: {mapping} int8 activations are not run"] if mapping != "SYMMETRIC" else []
        faults += [f"{name}: activations of 7 bits (reduce_range) are not run"] if how.get("reduce_range") else []
        return Activations("int8", "token"), faults
    element = str((how.get("float8_dtype") or {}).get("_data", "float8_e4m3fn"))
    faults += [f"{name}: {element} activations are not run"] if element != "float8_e4m3fn" else []
    faults += [f"{name}: hp_value_lb is not honoured"] if how.get("hp_value_lb") is not None else []
    return Activations("fp8_e4m3", "token", limit=how.get("hp_value_ub")), faults


def scheme_words(stored: Stored, acts: Activations | None) -> str:
    """Such as ``w4a16 (int4, groups of 32)``."""
    is_float = stored.kind == "Float8Tensor"
    rows, columns = stored.attributes.get("block_size") or stored.shape
    if rows in (-1, stored.shape[0]) and columns in (-1, stored.shape[1]):
        shared = "per tensor"
    elif rows == 1:
        shared = "per channel" if columns in (-1, stored.shape[1]) else f"groups of {columns}"
    else:
        shared = f"blocks of {rows}x{columns}"
    bits = 8 if is_float else stored.bits
    return f"w{bits}a{16 if acts is None else 8} ({'fp8' if is_float else f'int{bits}'}, {shared})"


Tensors = Mapping[str, torch.Tensor]


def value_faults(stored: Stored, tensors: Tensors) -> Iterator[str]:
    """What is wrong with the values."""
    yield from not_finite(stored.name, ("scale", "zero_point"), tensors)
    if stored.kind == "Float8Tensor":
        yield from nan_codes(stored.name, tensors["qdata"])
    elif stored.kind != "Int4Tensor" and stored.bits < 8:
        yield from beyond_bits(stored.name, tensors["qdata"], stored.bits)


def read_weight(stored: Stored, acts: Activations | None, scheme: str, tensors: Tensors) -> QuantizedWeight:
    """The weight; raises EngineError naming the layer for values that cannot be right."""
    refuse_values(value_faults(stored, tensors))
    return READERS[stored.kind](stored, acts, scheme, tensors)


def _float8(stored: Stored, acts: Activations | None, scheme: str, tensors: Tensors) -> QuantizedWeight:
    codes = tensors["qdata"]
    element = FP8_E5M2 if codes.dtype == torch.float8_e5m2 else FP8_E4M3
    return _weight(stored, acts, scheme, codes, element, _scales(stored, tensors["scale"]))


def _integers(stored: Stored, acts: Activations | None, scheme: str, tensors: Tensors) -> QuantizedWeight:
    """Int8Tensor and IntxUnpackedToInt8Tensor: value = (int8 - zero point) * scale."""
    values, bits = tensors["qdata"], stored.bits
    zeros = tensors.get("zero_point")
    if zeros is not None and not bool(zeros.any()):
        zeros = None
    element = _INTS[bits]
    codes = pack_integers(values) if element.storage == "nibbles" else values
    return _weight(stored, acts, scheme, codes, element, _scales(stored, tensors["scale"]), zeros)


def _int4(stored: Stored, acts: Activations | None, scheme: str, tensors: Tensors) -> QuantizedWeight:
    """Two's complement nibbles, low first; value = int4 * scale + zero_point, both stored [groups, out]."""
    codes = tensors["qdata"].view(torch.uint8) ^ _SIGN_BITS
    offsets = tensors["zero_point"].t().contiguous()
    scales = _scales(stored, tensors["scale"].t().contiguous())
    return _weight(stored, acts, scheme, codes, INT4, scales, None, offsets if bool(offsets.any()) else None)


def _scales(stored: Stored, found: torch.Tensor) -> torch.Tensor:
    rows, columns = stored.block
    return found.reshape(stored.shape[0] // rows, stored.shape[1] // columns)


def _weight(
    stored: Stored,
    acts: Activations | None,
    scheme: str,
    codes: torch.Tensor,
    element: Element,
    scales: torch.Tensor,
    zero_points: torch.Tensor | None = None,
    offsets: torch.Tensor | None = None,
) -> QuantizedWeight:
    rows, columns = stored.block
    return QuantizedWeight(
        codes=codes,
        element=element,
        scales=scales,
        group_size=columns,
        in_features=stored.shape[1],
        zero_points=zero_points,
        offsets=offsets,
        row_block=rows,
        activations=acts,
        scheme=scheme,
    )


READERS: Mapping[str, Callable[[Stored, Activations | None, str, Tensors], QuantizedWeight]] = {
    "Int8Tensor": _integers,
    "IntxUnpackedToInt8Tensor": _integers,
    "Int4Tensor": _int4,
    "Float8Tensor": _float8,
}
"""torchao's class -> what makes a QuantizedWeight of its tensors."""
