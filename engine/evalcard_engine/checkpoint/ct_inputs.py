"""Quantized activations of a compressed-tensors linear: which of them are run, and the scales they need."""

from collections.abc import Mapping

import torch

from evalcard_engine.checkpoint.claims import Parts
from evalcard_engine.checkpoint.ct_args import Args
from evalcard_engine.checkpoint.faultlists import named
from evalcard_engine.quant.weight import Activations

FLOAT_SCALES = ("F32", "BF16", "F16")
MX_SCALE = "torch.uint8"
"""How the config spells scales that are powers of two (E8M0)."""

_GIVEN = {("int", 8, "tensor"): "input_scale", ("float", 8, "tensor"): "input_scale"}
_DYNAMIC: dict[tuple[str, int, str], tuple[str | None, ...]] = {
    ("int", 8, "token"): (None,),
    ("float", 8, "token"): (None,),
    ("float", 8, "group"): (None, MX_SCALE),
    ("float", 4, "group"): (MX_SCALE,),
    ("float", 4, "tensor_group"): (None, "torch.float8_e4m3fn"),
}
"""Kinds of inputs whose scales follow the values, with the dtypes their scales may be rounded to."""


def needed_scale(args: Args | None) -> str | None:
    """The tensor that a linear with such inputs must bring; None where scales follow the values."""
    if args is None:
        return None
    kind = (args.type, args.num_bits, args.strategy)
    if kind == ("float", 4, "tensor_group"):
        return "input_global_scale"
    return None if args.dynamic else _GIVEN.get(kind)


def unrunnable(args: Args | None) -> list[str]:
    """What of these settings this engine does not do."""
    if args is None:
        return []
    if not args.symmetric:
        return ["input_activations with zero points are not run"]
    kind = (args.type, args.num_bits, args.strategy)
    scales = _DYNAMIC.get(kind, ()) if args.dynamic else (None,) if kind in _GIVEN else ()
    is_grouped = args.strategy in ("group", "tensor_group")
    if args.scale_dtype not in scales or is_grouped and not args.group_size:
        how = "dynamic" if args.dynamic else "static"
        dtype = f", scales as {args.scale_dtype}" if args.scale_dtype else ""
        size = f", groups of {args.group_size}" if is_grouped else ""
        return [f"input_activations of {args.type}{args.num_bits} by {args.strategy}, {how}{size}{dtype}, are not run"]
    return []


def input_parts(name: str, args: Args | None, parts: Parts) -> tuple[set[str], list[str]]:
    """(parts of the module that belong to its inputs, faults)."""
    needed = needed_scale(args)
    found = {leaf for leaf in (needed, "input_zero_point") if leaf is not None and leaf in parts and args is not None}
    faults = named(f"{name}: activation scales missing", [needed] if needed and needed not in parts else [])
    for leaf in sorted(found - {"input_zero_point"}):
        place = parts[leaf]
        if place.dtype not in FLOAT_SCALES or place.shape not in ((), (1,)):
            faults.append(f"{name}.{leaf} is {place.dtype} {list(place.shape)}, not one float")
    return found, faults


def input_values(name: str, tensors: Mapping[str, torch.Tensor]) -> list[str]:
    """What is wrong with the values of a module's input scales and zero points."""
    faults = []
    for leaf in ("input_scale", "input_global_scale"):
        scale = tensors.get(leaf)
        if scale is not None and not (bool(torch.isfinite(scale.float()).all()) and bool((scale > 0).all())):
            faults.append(f"{name}: {leaf} is {scale.tolist()}; it must be a positive number")
    zeros = tensors.get("input_zero_point")
    if zeros is not None and bool((zeros.float() != 0).any()):
        faults.append(f"{name}: the config says symmetric inputs, but input_zero_point is not 0")
    return faults


def activations_of(args: Args | None, tensors: Mapping[str, torch.Tensor]) -> Activations | None:
    """How a linear's inputs are rounded."""
    if args is None:
        return None
    needed = needed_scale(args)
    scale = None if needed is None else tensors[needed].float().reshape(())
    per = {"tensor_group": "group"}.get(args.strategy, args.strategy)
    element = "int8" if args.type == "int" else {4: "fp4_e2m1", 8: "fp8_e4m3"}[args.num_bits]
    return Activations(element, per, args.group_size, scale, args.scale_dtype == MX_SCALE)  # type: ignore[arg-type]
