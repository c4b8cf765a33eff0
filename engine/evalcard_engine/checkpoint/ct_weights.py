"""Tensors of one compressed-tensors module: which there must be, of which shape, and what they stand for."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from evalcard_engine.checkpoint.claims import Parts
from evalcard_engine.checkpoint.ct_config import Args
from evalcard_engine.checkpoint.packing import dense_words, padded_words, signed, unpack_dense, unpack_padded
from evalcard_engine.errors import EngineError
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
from evalcard_engine.quant.weight import Activations, QuantizedWeight

_INTS = {2: INT2, 3: INT3, 4: INT4, 5: INT5, 6: INT6, 7: INT8, 8: INT8}
_FLOAT_SCALES = ("F32", "BF16", "F16")


@dataclass(frozen=True, slots=True)
class Reading:
    """All that reading a module's tensors takes."""

    name: str
    shape: tuple[int, int]
    weights: Args
    inputs: Args | None


def weight_parts(name: str, shape: tuple[int, int], args: Args, parts: Parts) -> tuple[set[str], list[str]]:
    """(leaves that make up the weight, faults): missing parts, other shapes or dtypes, settings that are not read."""
    faults = list(_unreadable(name, shape, args))
    if faults:
        return {leaf for leaf in parts if leaf.startswith("weight")}, faults
    expected = dict(_expected(shape, args, parts))
    found = {leaf for leaf in expected if leaf in parts}
    missing = sorted(leaf for leaf in set(expected) - found if leaf not in ("weight_g_idx", "weight_shape"))
    if missing:
        faults.append(f"{name}: {', '.join(missing)} missing")
    for leaf in sorted(found):
        dtypes, shapes = expected[leaf]
        place = parts[leaf]
        if place.dtype not in dtypes or place.shape not in shapes:
            allowed = f"{' or '.join(dtypes)} {' or '.join(str(list(one)) for one in shapes)}"
            faults.append(f"{name}.{leaf} is {place.dtype} {list(place.shape)}, not {allowed}")
    return found, faults


def _unreadable(name: str, shape: tuple[int, int], args: Args) -> Iterator[str]:
    allowed = {"int": range(2, 9), "float": (4, 8)}.get(args.type, ())
    if args.num_bits not in allowed:
        yield f"{name}: {args.type} weights of {args.num_bits} bits; int of 2 to 8 and float of 4 and 8 are read"
    strategies = ("tensor", "channel", "group", "tensor_group", "block")
    if args.strategy not in strategies:
        yield f"{name}: weights by {args.strategy}; {', '.join(strategies)} are read"
    if args.type == "float" and not args.symmetric:
        yield f"{name}: float weights with zero points"
    grouped = args.strategy in ("group", "tensor_group")
    if grouped and (not args.group_size or shape[1] % args.group_size):
        yield f"{name}: {shape[1]} columns do not divide into groups of {args.group_size}"
    if args.strategy == "block" and not args.block:
        yield f"{name}: weights by block without a block_structure"


_Allowed = tuple[tuple[str, ...], list[tuple[int, ...]]]
"""Dtypes and shapes that a part may have."""


def _is_packed(parts: Parts) -> bool:
    return "weight_packed" in parts


def _expected(shape: tuple[int, int], args: Args, parts: Parts) -> Iterator[tuple[str, _Allowed]]:
    """(leaf, (dtypes, shapes)) of all parts that this kind of weight has."""
    out, width = shape
    rows, groups = scale_shape(shape, args)
    scales: list[tuple[int, ...]] = [(rows, groups)]
    scales += [(rows,)] if groups == 1 else []
    if args.type == "float" and args.num_bits == 4:
        yield "weight_packed", (("U8",), [(out, width // 2)])
        yield "weight_scale", (("U8", "F8_E8M0") if args.strategy == "group" else ("F8_E4M3",), scales)
        if args.strategy == "tensor_group":
            yield "weight_global_scale", (("F32",), [(1,), ()])
        return
    if args.type == "float":
        is_mx = args.strategy == "group" and args.scale_dtype == "torch.uint8"
        yield "weight", (("F8_E4M3",), [shape])
        yield "weight_scale", (("U8", "F8_E8M0") if is_mx else _FLOAT_SCALES, scales)
        return
    yield "weight_scale", (_FLOAT_SCALES, scales)
    if _is_packed(parts):
        words = {dense_words(args.num_bits, width), padded_words(args.num_bits, width)}
        yield "weight_packed", (("I32",), [(out, count) for count in sorted(words)])
        yield "weight_shape", (("I64", "I32"), [(2,)])
    else:
        yield "weight", (("I8",), [shape])
    if not args.symmetric:
        packs = _is_packed(parts) and args.strategy in ("group", "channel")
        counts = {dense_words(args.num_bits, out), padded_words(args.num_bits, out)}
        packed: list[tuple[int, ...]] = [(count, groups) for count in sorted(counts)]
        yield "weight_zero_point", (("I32",), packed) if packs else (("I8",), scales)
    elif "weight_zero_point" in parts:
        yield "weight_zero_point", (("I8", *_FLOAT_SCALES), scales)
    if "weight_g_idx" in parts:
        yield "weight_g_idx", (("I32", "I64"), [(width,)])


def scale_shape(shape: tuple[int, int], args: Args) -> tuple[int, int]:
    """[row blocks, groups] of the scales."""
    out, width = shape
    if args.strategy == "tensor":
        return 1, 1
    if args.strategy == "channel":
        return out, 1
    if args.strategy == "block":
        assert args.block is not None, args
        return math.ceil(out / args.block[0]), math.ceil(width / args.block[1])
    assert args.group_size is not None, args
    return out, width // args.group_size


def read_weight(reading: Reading, tensors: Mapping[str, torch.Tensor]) -> QuantizedWeight:
    """The weight; raises EngineError naming the layer for scales that are not finite or a shape that contradicts."""
    name, (out, width), args = reading.name, reading.shape, reading.weights
    stated = tensors.get("weight_shape")
    if stated is not None and stated.tolist() != [out, width]:
        raise EngineError(f"{name}: weight_shape is {stated.tolist()}, but the model's weight is {[out, width]}.")
    scales = _scales(reading, tensors)
    if not bool(torch.isfinite(scales.float()).all()):
        raise EngineError(f"{name}: its scales are not finite. Fetch the model again, or compress it anew.")
    codes, element = _codes(reading, tensors)
    return QuantizedWeight(
        codes=codes,
        element=element,
        scales=scales,
        group_size=_group_size(reading),
        in_features=width,
        zero_points=_zero_points(reading, tensors, scales.shape),
        group_index=_group_index(reading, tensors),
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
    if stored.dtype == torch.uint8:  # an exponent with bias 127 (OCP Microscaling Formats, 2023)
        return torch.exp2(stored.float() - 127)
    if "weight_global_scale" in tensors:
        return stored.float() / tensors["weight_global_scale"].float().reshape(())
    return stored.float() if stored.dtype.itemsize == 1 else stored


def _codes(reading: Reading, tensors: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, Element]:
    width, args = reading.shape[1], reading.weights
    if args.type == "float":
        return (tensors["weight_packed"], FP4_E2M1) if args.num_bits == 4 else (tensors["weight"], FP8_E4M3)
    values = tensors["weight"] if "weight" in tensors else _unpack(tensors["weight_packed"], args.num_bits, width)
    element = _INTS[args.num_bits]
    return (pack_integers(values) if element.storage == "nibbles" else values), element


def _unpack(words: torch.Tensor, bits: int, count: int) -> torch.Tensor:
    """int8; newer versions let codes straddle words, older ones do not, and the number of words tells which."""
    is_dense = words.shape[1] == dense_words(bits, count)
    if is_dense and 32 % bits and words.shape[1] == padded_words(bits, count):
        raise EngineError(f"{count} codes of {bits} bits in {words.shape[1]} words may be packed in two ways.")
    return signed((unpack_dense if is_dense else unpack_padded)(words, bits, count), bits)


def _zero_points(reading: Reading, tensors: Mapping[str, torch.Tensor], shape: tuple[int, ...]) -> torch.Tensor | None:
    stored = tensors.get("weight_zero_point")
    if stored is None:
        return None
    if stored.dtype == torch.int32:  # packed along the rows
        stored = _unpack(stored.t().contiguous(), reading.weights.num_bits, reading.shape[0]).t()
    zeros = stored.reshape(shape)
    if reading.weights.symmetric:
        if bool((zeros != 0).any()):
            raise EngineError(f"{reading.name}: the config says symmetric, but its zero points are not 0.")
        return None
    return zeros.contiguous()


def _group_index(reading: Reading, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor | None:
    stored = tensors.get("weight_g_idx")
    if stored is None or bool((stored < 0).all()):  # -1 stands for "never set"
        return None
    groups = scale_shape(reading.shape, reading.weights)[1]
    if int(stored.min()) < 0 or int(stored.max()) >= groups:
        raise EngineError(f"{reading.name}: weight_g_idx names groups beyond the {groups} that have scales.")
    return stored.long()


def read_inputs(args: Args | None) -> tuple[set[str], list[str]]:
    """(parts that quantized activations need, faults) of a group's input_activations."""
    if args is None:
        return set(), []
    kind = (args.type, args.num_bits, args.strategy)
    if not args.symmetric:
        return set(), ["input_activations with zero points"]
    if kind in (("int", 8, "token"), ("float", 8, "token"), ("float", 8, "group")) and args.dynamic:
        return set(), []
    if kind in (("int", 8, "tensor"), ("float", 8, "tensor")) and not args.dynamic:
        return {"input_scale"}, []
    if kind == ("float", 4, "tensor_group"):
        return {"input_global_scale"}, []
    how = "dynamic" if args.dynamic else "static"
    return set(), [f"input_activations of {args.type}{args.num_bits} by {args.strategy}, {how}, are not run"]


def activations_of(args: Args | None, tensors: Mapping[str, torch.Tensor]) -> Activations | None:
    if args is None:
        return None
    if (args.type, args.num_bits) == ("float", 4):
        return Activations("fp4_e2m1", "group", args.group_size, tensors["input_global_scale"].float().reshape(()))
    element = "int8" if args.type == "int" else "fp8_e4m3"
    if args.strategy == "tensor":
        return Activations(element, "tensor", None, tensors["input_scale"].float().reshape(()))  # type: ignore[arg-type]
    per = "token" if args.strategy == "token" else "group"
    return Activations(element, per, args.group_size)  # type: ignore[arg-type]


def scheme_words(weights: Args, inputs: Args | None) -> str:
    """Such as ``w4a16 (int4, groups of 128, asymmetric)``."""
    acts = 16 if inputs is None else inputs.num_bits
    shared = {
        "group": f"groups of {weights.group_size}", "tensor_group": f"groups of {weights.group_size}",
        "channel": "per channel", "tensor": "per tensor",
        "block": f"blocks of {weights.block[0]}x{weights.block[1]}" if weights.block else "blocks",
    }[weights.strategy]  # fmt: skip
    kind = {"float": {8: "fp8", 4: "nvfp4" if weights.strategy == "tensor_group" else "mxfp4"}}.get(weights.type, {})
    parts = [kind.get(weights.num_bits, f"int{weights.num_bits}"), shared]
    parts += [] if weights.symmetric else ["asymmetric"]
    parts += [f"act-order {weights.actorder}"] if weights.actorder else []
    return f"w{weights.num_bits}a{acts} ({', '.join(parts)})"
