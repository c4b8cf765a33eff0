"""What the tensors of one compressed-tensors module stand for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from evalcard_engine.checkpoint.ct_args import Args
from evalcard_engine.checkpoint.ct_inputs import activations_of
from evalcard_engine.checkpoint.ct_parts import scale_shape, scheme_words
from evalcard_engine.checkpoint.expected import beyond_bits, nan_codes, not_positive, refuse_values
from evalcard_engine.checkpoint.packing import signed, unpack_dense, unpack_padded
from evalcard_engine.quant.elements import (
    FP4_E2M1,
    FP8_E4M3,
    INT2,
    INT3,
    INT4,
    INT5,
    INT6,
    INT8,
    Element,
    pack_integers,
)
from evalcard_engine.quant.weight import QuantizedWeight

SMALL_PARTS = frozenset({"weight_scale", "weight_global_scale", "weight_zero_point", "weight_shape", "weight_g_idx"})
"""Everything but the codes: little enough to be looked at before any weight is read."""

_INTS = {2: INT2, 3: INT3, 4: INT4, 5: INT5, 6: INT6, 7: INT8, 8: INT8}


@dataclass(frozen=True, slots=True)
class Reading:
    """All that reading a module's tensors takes."""

    name: str
    shape: tuple[int, int]
    weights: Args
    inputs: Args | None
    packing: str | None
    """How codes lie in words: dense or padded, see `packing_of`."""


def weight_values(reading: Reading, tensors: Mapping[str, torch.Tensor]) -> Iterator[str]:
    """What is wrong with the values of the SMALL_PARTS."""
    name, args = reading.name, reading.weights
    stated = tensors.get("weight_shape")
    if stated is not None and stated.tolist() != list(reading.shape):
        yield f"{name}: weight_shape is {stated.tolist()}, but the model's weight is {list(reading.shape)}"
    if not bool(torch.isfinite(_scales(reading, tensors).float()).all()):
        yield f"{name}: its weight scales are not all finite"
    elif "weight_global_scale" in tensors:  # an infinite one makes every scale 0
        yield from not_positive(name, "weight_global_scale", tensors["weight_global_scale"])
    zeros = tensors.get("weight_zero_point")
    if zeros is not None and args.symmetric and bool((zeros.float() != 0).any()):
        yield f"{name}: the config says symmetric, but its zero points are not 0"
    if zeros is not None and zeros.dtype == torch.int8 and not _within(zeros, args.num_bits):
        yield f"{name}: its zero points are no integers of {args.num_bits} bits"
    index, groups = tensors.get("weight_g_idx"), scale_shape(reading.shape, args)[1]
    if index is None:
        return
    if args.actorder == "group" and (int(index.min()) < 0 or int(index.max()) >= groups):
        yield f"{name}: weight_g_idx names groups beyond the {groups} that have scales"
    columns = torch.arange(reading.shape[1]) // (args.group_size or reading.shape[1])
    if args.actorder != "group" and not (bool((index < 0).all()) or torch.equal(index.long(), columns)):
        yield f"{name}: weight_g_idx reorders its groups, but the config has no actorder group"


def code_values(reading: Reading, tensors: Mapping[str, torch.Tensor]) -> list[str]:
    """What is wrong with the codes, where there are codes that can be wrong."""
    args = reading.weights
    if "weight" not in tensors:
        return []
    if args.type == "float":
        return nan_codes(reading.name, tensors["weight"])
    return beyond_bits(reading.name, tensors["weight"], args.num_bits) if args.num_bits < 8 else []


def read_weight(reading: Reading, tensors: Mapping[str, torch.Tensor]) -> QuantizedWeight:
    """The weight; raises EngineError naming the layer for values that cannot be right."""
    (out, width), args = reading.shape, reading.weights
    refuse_values([*weight_values(reading, tensors), *code_values(reading, tensors)])
    scales = _scales(reading, tensors)
    codes, element = _codes(reading, tensors)
    return QuantizedWeight(
        codes=codes,
        element=element,
        scales=scales,
        group_size=_group_size(reading),
        in_features=width,
        zero_points=_zero_points(reading, tensors, scales.shape),
        group_index=tensors["weight_g_idx"].long() if args.actorder == "group" else None,
        row_block={"tensor": out, "block": args.block[0] if args.block else 1}.get(args.strategy, 1),
        activations=activations_of(reading.inputs, tensors),
        scheme=scheme_words(args, reading.inputs),
    )


def _group_size(reading: Reading) -> int:
    args = reading.weights
    if args.strategy == "block":
        assert args.block is not None, args
        return args.block[1]
    return args.group_size if args.strategy in ("group", "tensor_group") and args.group_size else reading.shape[1]


def _scales(reading: Reading, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """[row blocks, groups]; a scale of scales is folded in, in float32 as the library does it."""
    stored = tensors["weight_scale"].reshape(scale_shape(reading.shape, reading.weights))
    if stored.dtype == torch.uint8:  # an exponent with bias 127, and 255 is NaN (OCP Microscaling Formats, 2023)
        return torch.where(stored == 255, torch.nan, torch.exp2(stored.float() - 127))
    if "weight_global_scale" in tensors:
        return stored.float() / tensors["weight_global_scale"].float().reshape(())
    return stored.float() if stored.dtype.itemsize == 1 else stored


def _codes(reading: Reading, tensors: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, Element]:
    width, args = reading.shape[1], reading.weights
    if args.type == "float" and args.num_bits == 4:
        return tensors["weight_packed"], FP4_E2M1
    if args.type == "float":
        return tensors["weight"], FP8_E4M3
    values = tensors["weight"] if "weight" in tensors else _unpack(reading, tensors["weight_packed"], width)
    element = _INTS[args.num_bits]
    return (pack_integers(values) if element.storage == "nibbles" else values), element


def _within(values: torch.Tensor, bits: int) -> bool:
    return int(values.min()) >= -(2 ** (bits - 1)) and int(values.max()) < 2 ** (bits - 1)


def _unpack(reading: Reading, words: torch.Tensor, count: int) -> torch.Tensor:
    """int8 [rows, count]"""
    bits, unpack = reading.weights.num_bits, {"dense": unpack_dense, "padded": unpack_padded}.get(reading.packing or "")
    assert unpack is not None, reading
    return signed(unpack(words, bits, count), bits)


def _zero_points(reading: Reading, tensors: Mapping[str, torch.Tensor], shape: tuple[int, ...]) -> torch.Tensor | None:
    stored = tensors.get("weight_zero_point")
    if stored is None or reading.weights.symmetric:
        return None
    if stored.dtype == torch.int32:  # packed along the rows
        stored = _unpack(reading, stored.t().contiguous(), reading.shape[0]).t()
    return stored.reshape(shape).contiguous()
