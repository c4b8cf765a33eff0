"""Writing compressed-tensors: the inverse of reading it, for the schemes that are applied on the fly.

Layouts and settings are those of the library (0.20), which reads what is written here to the same values.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from evalcard_engine.errors import UnsupportedModel
from evalcard_engine.quant.elements import INT4, INT8
from evalcard_engine.quant.floats import FP4_MAX, FP8_MAX
from evalcard_engine.quant.scheme import SCHEMES, Scheme, group_size_for
from evalcard_engine.quant.weight import QuantizedWeight

WRITABLE = ("int4", "int8", "fp8_e4m3", "fp4_e2m1")
"""Elements that the format has a place for; NF4's codebook it has not."""
_VERSION = "0.20.1"
"""Of the library whose layout is written."""
_INPUTS: Mapping[str | None, Mapping[str, Any] | None] = {
    None: None,
    "int8": {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True},
    "fp8_e4m3": {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "token", "dynamic": True},
}


def check_writable(scheme: Scheme) -> None:
    """Raises UnsupportedModel for a scheme that compressed-tensors has no form for, or that needs calibration."""
    writable = [name for name, one in SCHEMES.items() if _is_writable(one)]
    if not _is_writable(scheme):
        raise UnsupportedModel(
            f"compressed-tensors has no form for {scheme.name or 'this scheme'} that round to nearest can fill; it has "
            f"for {', '.join(sorted(writable))}, with groups, sparse24+ and +head=w8. To evaluate it all the same, run "
            f"MODEL:{scheme.name}."
        )


def _is_writable(scheme: Scheme) -> bool:
    # A KV cache is no weight: kv= belongs to a run, and scales in files to a calibration.
    return scheme.element in WRITABLE and scheme.activations in _INPUTS and scheme.kv_cache is None


def settings(
    modules: Mapping[str, tuple[int, int]], scheme: Scheme, ignore: Iterable[str], head: str | None = None
) -> dict[str, Any]:
    """The quantization_config of a checkpoint whose ``modules`` ([out, in] by name) are quantized.

    ignore: names and ``re:`` patterns of linears that are not. head: the output head, where the scheme quantizes it.
    Where widths ask for groups of several sizes each has a config group that lists its modules.
    """
    by_args: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for name, (_, width) in modules.items():
        found = weight_args(scheme, width)
        by_args.setdefault(repr(found), (found, []))[1].append(name)
    inputs = _inputs(scheme)
    alone = len(by_args) == 1
    groups = [_group(["Linear"] if alone else names, args, inputs) for args, names in by_args.values()]
    if head is not None:
        groups.append(_group([head], weight_args(SCHEMES["w8a16"], 1), None))
    formats = {group["format"] for group in groups}
    return {
        "quant_method": "compressed-tensors",
        "format": formats.pop() if len(formats) == 1 else "mixed-precision",
        "config_groups": {f"group_{number}": group for number, group in enumerate(groups)},
        "ignore": list(dict.fromkeys(ignore)),
        "kv_cache_scheme": None,
        "quantization_status": "compressed",
        "version": _VERSION,
    }


def _group(targets: list[str], weights: dict[str, Any], inputs: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "targets": targets,
        "weights": weights,
        "input_activations": None if inputs is None else dict(inputs),
        "output_activations": None,
        "format": _format(weights, inputs),
    }


def _format(weights: Mapping[str, Any], inputs: Mapping[str, Any] | None) -> str:
    """The library's own choice (its infer_module_format)."""
    kind, bits = weights["type"], weights["num_bits"]
    if (kind, bits) == ("float", 4):
        return "nvfp4-pack-quantized" if weights["strategy"] == "tensor_group" else "mxfp4-pack-quantized"
    if kind == "int":
        return "pack-quantized" if inputs is None else "int-quantized"
    return "naive-quantized" if inputs is None else "float-quantized"


def weight_args(scheme: Scheme, width: int) -> dict[str, Any]:
    """compressed-tensors' settings of a weight with so many columns."""
    args: dict[str, Any] = {
        "num_bits": scheme.weight_bits,
        "type": "int" if scheme.element in ("int4", "int8") else "float",
        "symmetric": scheme.symmetric,
        "strategy": "channel",
        "dynamic": False,
    }
    if scheme.block:
        return args | {"strategy": "block", "block_structure": [scheme.block, scheme.block]}
    if scheme.element == "fp4_e2m1":
        is_nv = scheme.group_size == 16
        dtype = "torch.float8_e4m3fn" if is_nv else "torch.uint8"
        strategy = "tensor_group" if is_nv else "group"
        return args | {"strategy": strategy, "group_size": scheme.group_size, "scale_dtype": dtype, "zp_dtype": dtype}
    if scheme.group_size is None:
        return args
    return args | {"strategy": "group", "group_size": group_size_for(width, scheme.group_size)}


def _inputs(scheme: Scheme) -> Mapping[str, Any] | None:
    found = _INPUTS[scheme.activations]
    if found is None or not scheme.block:
        return found
    return {**found, "strategy": "group", "group_size": scheme.block}


def parts_of(weight: QuantizedWeight, original: torch.Tensor) -> dict[str, torch.Tensor]:
    """The tensors of one module, as compressed-tensors names and lays them out.

    original: the weight that was quantized, any float dtype; nvfp4's scale of scales follows from it.
    """
    if weight.element in (INT4, INT8):
        return _integer_parts(weight)
    if weight.element.bits == 8:
        return {"weight": weight.codes, "weight_scale": weight.scales}
    if weight.group_size == 16:
        top = original.float().abs().amax().clamp_min(torch.finfo(torch.float32).tiny)
        whole = FP8_MAX * FP4_MAX / top
        whole = torch.where(torch.isfinite(whole), whole, torch.ones_like(whole))
        local = (weight.scales * whole).to(torch.float8_e4m3fn)  # the nearest is the one it was made of
        return {"weight_packed": weight.codes, "weight_scale": local, "weight_global_scale": whole.reshape(1)}
    exponents = torch.frexp(weight.scales)[1] - 1  # powers of two: the mantissa is 0.5
    return {"weight_packed": weight.codes, "weight_scale": (exponents + 127).to(torch.uint8)}


def _integer_parts(weight: QuantizedWeight) -> dict[str, torch.Tensor]:
    bits, integers = weight.element.bits, weight.integers()
    if weight.activations is not None:
        return {"weight": integers, "weight_scale": weight.scales}
    parts = {
        "weight_packed": _pack(integers, bits),
        "weight_scale": weight.scales,
        "weight_shape": torch.tensor([weight.out_features, weight.in_features]),
    }
    if weight.zero_points is not None:  # packed along the rows
        parts["weight_zero_point"] = _pack(weight.zero_points.t(), bits).t().contiguous()
    return parts


def _pack(values: torch.Tensor, bits: int) -> torch.Tensor:
    """int8 [rows, n] -> int32 [rows, words]: 32 / bits values a word from its low end, each plus half its range."""
    per_word = 32 // bits
    codes = values.to(torch.int64) + 2 ** (bits - 1)
    codes = torch.nn.functional.pad(codes, (0, -values.shape[1] % per_word))
    shifts = torch.arange(per_word) * bits
    words = (codes.view(values.shape[0], -1, per_word) << shifts).sum(dim=2)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)
