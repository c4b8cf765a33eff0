"""Tensors of one compressed-tensors module: which there must be and of which shape, and the scheme in words."""

import math
from collections.abc import Iterator

from evalcard_engine.checkpoint.claims import Parts
from evalcard_engine.checkpoint.ct_args import Args
from evalcard_engine.checkpoint.ct_inputs import FLOAT_SCALES, MX_SCALE
from evalcard_engine.checkpoint.packing import dense_words, padded_words

_STRATEGIES = ("tensor", "channel", "group", "tensor_group", "block")
_EXPONENTS = ("U8", "F8_E8M0")
_Allowed = tuple[tuple[str, ...], list[tuple[int, ...]]]
"""Dtypes and shapes that a part may have."""


def weight_parts(name: str, shape: tuple[int, int], args: Args, parts: Parts) -> tuple[set[str], list[str]]:
    """(leaves that make up the weight, faults): missing parts, other shapes or dtypes, settings that are not read."""
    faults = list(_unreadable(name, shape, args))
    if faults:
        return {leaf for leaf in parts if leaf.startswith("weight")}, faults
    expected = dict(_expected(shape, args, parts))
    found = {leaf for leaf in expected if leaf in parts}
    missing = sorted(set(expected) - found)
    if missing:
        faults.append(f"{name}: {', '.join(missing)} missing")
    for leaf in sorted(found):
        dtypes, shapes = expected[leaf]
        place = parts[leaf]
        if place.dtype not in dtypes or place.shape not in shapes:
            allowed = f"{' or '.join(dtypes)} {' or '.join(str(list(one)) for one in shapes)}"
            faults.append(f"{name}.{leaf} is {place.dtype} {list(place.shape)}, not {allowed}")
    if not faults and args.type == "int" and packing_of(shape, args, parts) is None:
        faults.append(
            f"{name}: whether its codes of {args.num_bits} bits straddle words cannot be told from its shapes"
        )
    return found, faults


def _unreadable(name: str, shape: tuple[int, int], args: Args) -> Iterator[str]:
    allowed = {"int": range(2, 9), "float": (4, 8)}.get(args.type, ())
    if args.num_bits not in allowed:
        yield f"{name}: {args.type} weights of {args.num_bits} bits; int of 2 to 8 and float of 4 and 8 are read"
    if args.strategy not in _STRATEGIES:
        yield f"{name}: weights by {args.strategy}; {', '.join(_STRATEGIES)} are read"
    if (args.type, args.num_bits) == ("float", 4) and args.strategy not in ("group", "tensor_group"):
        yield f"{name}: float weights of 4 bits by {args.strategy}; group (mxfp4) and tensor_group (nvfp4) are read"
    if args.strategy == "tensor_group" and (args.type, args.num_bits) != ("float", 4):
        yield f"{name}: {args.type} weights of {args.num_bits} bits by tensor_group, which only nvfp4 has"
    if args.type == "float" and not args.symmetric:
        yield f"{name}: float weights with zero points"
    grouped = args.strategy in ("group", "tensor_group")
    if grouped and not args.group_size:
        yield f"{name}: weights by {args.strategy} without a group_size"
    elif grouped and args.group_size and shape[1] % args.group_size:
        yield f"{name}: {shape[1]} columns of {list(shape)} do not divide into groups of {args.group_size}"
    if args.strategy == "block" and (not args.block or min(args.block) < 1):
        yield f"{name}: weights by block without a block_structure"
    if args.dynamic:
        yield f"{name}: weights with dynamic scales, which no file can hold"


def _expected(shape: tuple[int, int], args: Args, parts: Parts) -> Iterator[tuple[str, _Allowed]]:
    """(leaf, (dtypes, shapes)) of all parts that this kind of weight has."""
    scales = _scale_shapes(shape, args)
    yield from _expected_floats(shape, args, scales) if args.type == "float" else _expected_integers(shape, args, parts)
    if args.symmetric and "weight_zero_point" in parts:  # zeros that a symmetric scheme left behind
        yield "weight_zero_point", (("I8", "F8_E4M3", *FLOAT_SCALES), scales)


def _scale_shapes(shape: tuple[int, int], args: Args) -> list[tuple[int, ...]]:
    rows, groups = scale_shape(shape, args)
    scales: list[tuple[int, ...]] = [(rows, groups)]
    scales += [(rows,)] if groups == 1 else []
    return scales + ([()] if args.strategy == "tensor" else [])


def _expected_floats(
    shape: tuple[int, int], args: Args, scales: list[tuple[int, ...]]
) -> Iterator[tuple[str, _Allowed]]:
    if args.num_bits == 8:
        is_mx = args.strategy == "group" and args.scale_dtype == MX_SCALE
        yield "weight", (("F8_E4M3",), [shape])
        yield "weight_scale", (_EXPONENTS if is_mx else FLOAT_SCALES, scales)
        return
    yield "weight_packed", (("U8",), [(shape[0], shape[1] // 2)])
    yield "weight_scale", (_EXPONENTS if args.strategy == "group" else ("F8_E4M3",), scales)
    if args.strategy == "tensor_group":
        yield "weight_global_scale", (("F32",), [(1,), ()])


def _expected_integers(shape: tuple[int, int], args: Args, parts: Parts) -> Iterator[tuple[str, _Allowed]]:
    (out, width), scales = shape, _scale_shapes(shape, args)
    is_packed = "weight_packed" in parts
    yield "weight_scale", (FLOAT_SCALES, scales)
    if is_packed:
        words = {dense_words(args.num_bits, width), padded_words(args.num_bits, width)}
        yield "weight_packed", (("I32",), [(out, count) for count in sorted(words)])
        yield "weight_shape", (("I64", "I32"), [(2,)])
    else:
        yield "weight", (("I8",), [shape])
    if not args.symmetric:
        counts = {dense_words(args.num_bits, out), padded_words(args.num_bits, out)}
        packed: list[tuple[int, ...]] = [(count, scale_shape(shape, args)[1]) for count in sorted(counts)]
        is_packed &= args.strategy in ("group", "channel")
        yield "weight_zero_point", (("I32",), packed) if is_packed else (("I8",), scales)
    if args.actorder == "group" or "weight_g_idx" in parts:
        yield "weight_g_idx", (("I32", "I64"), [(width,)])


def packing_of(shape: tuple[int, int], args: Args, parts: Parts) -> str | None:
    """dense (codes straddle words, from version 0.18 on) or padded (they do not); None where both or neither fit.

    The number of words tells, of the weights or else of the zero points, which one version has packed alike.
    """
    counts = [(parts["weight_packed"].shape[1], shape[1])] if "weight_packed" in parts else []
    zeros = parts.get("weight_zero_point")
    counts += [(zeros.shape[0], shape[0])] if zeros is not None and zeros.dtype == "I32" else []
    is_same = all(count <= 32 // args.num_bits for _, count in counts) or 32 % args.num_bits == 0
    layouts = {"dense": dense_words, "padded": padded_words}
    fits = [name for name, words in layouts.items() if all(words(args.num_bits, count) == n for n, count in counts)]
    return fits[0] if len(fits) == 1 or fits and is_same else None


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


def scheme_words(weights: Args, inputs: Args | None) -> str:
    """Such as ``w4a16 (int4, groups of 128, asymmetric)``."""
    acts = 16 if inputs is None else inputs.num_bits
    shared = {
        "group": f"groups of {weights.group_size}", "tensor_group": f"groups of {weights.group_size}",
        "channel": "per channel", "tensor": "per tensor",
        "block": f"blocks of {weights.block[0]}x{weights.block[1]}" if weights.block else "blocks",
    }.get(weights.strategy, weights.strategy)  # fmt: skip
    is_mx = weights.strategy == "group" and weights.scale_dtype == MX_SCALE
    kind = {8: "mxfp8" if is_mx else "fp8", 4: "nvfp4" if weights.strategy == "tensor_group" else "mxfp4"}
    parts = [kind.get(weights.num_bits, "float") if weights.type == "float" else f"int{weights.num_bits}", shared]
    parts += [] if weights.symmetric else ["asymmetric"]
    parts += [f"act-order {weights.actorder}"] if weights.actorder else []
    return f"w{weights.num_bits}a{acts} ({', '.join(parts)})"
