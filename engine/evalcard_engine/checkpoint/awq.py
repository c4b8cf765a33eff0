"""AWQ: what AutoAWQ, GPTQModel and AutoRound write as version gemm.

A linear [out, in] with g groups (AutoAWQ 0.2.9): ``qweight`` int32 [in, out / 8] and ``qzeros`` int32 [g, out / 8] hold
8 codes of 4 bits a word in the order of packing.AWQ_NIBBLES; ``scales`` float [g, out].
value = (code - zero point) * scale, both from 0 to 15.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch

from evalcard_engine.checkpoint.expected import (
    Part,
    is_listed,
    not_finite,
    refuse,
    refuse_values,
    unknown_settings,
)
from evalcard_engine.checkpoint.gptq_config import (
    REFUSED,
    RUNTIME,
    TUNING,
    activation_faults,
    dynamic_rules,
    pack_dtype_faults,
)
from evalcard_engine.checkpoint.packing import signed, unpack_awq
from evalcard_engine.checkpoint.plain import PLAIN_DTYPES
from evalcard_engine.checkpoint.source import Checkpoint
from evalcard_engine.checkpoint.words import (
    Layer,
    LayerReader,
    Layout,
    Rule,
    Settings,
    WordFormat,
    flag_faults,
    symmetric_faults,
    turned,
    unfit_keys,
    without_tensors,
)
from evalcard_engine.quant.elements import INT4, pack_integers
from evalcard_engine.quant.weight import QuantizedWeight

BITS = (4,)
_SPELLINGS = {"w_bit": "bits", "q_group_size": "group_size", "version": "format", "checkpoint_format": "format"}
"""AutoAWQ's own file and older versions of the tools say the same in other words."""
_KNOWN = (
    frozenset({
        "bits", "group_size", "zero_point", "sym", "desc_act", "format", "quant_method", "method", "dynamic",
        "pack_dtype", "lm_head", "modules_to_not_convert", "modules_in_block_to_quantize", "do_fuse", "modules_to_fuse",
        "fuse_max_seq_len", "data_type", "act_bits", *REFUSED,
    }) | TUNING | RUNTIME
)  # fmt: skip
_ZERO_POINT = 8
"""Of a symmetric weight: the middle of the range."""


def open_format(checkpoint: Checkpoint, config: Mapping[str, Any]) -> WordFormat:
    """Raises EngineError listing every setting that cannot be honoured."""
    settings, faults = read_settings(config)
    refuse(checkpoint.name, "AWQ", faults + without_tensors(checkpoint))
    assert settings is not None, config
    return WordFormat("awq", settings, LAYOUT)


def read_settings(config: Mapping[str, Any]) -> tuple[Settings | None, list[str]]:
    """(settings, faults) of config.json's quantization_config; settings are None only where there are faults."""
    faults: list[str] = []
    found = _spelled(config, faults)
    faults += unknown_settings(found, _KNOWN) + unfit_keys(found, REFUSED) + pack_dtype_faults(found)
    layout = str(found.get("format") or "gemm").lower()
    if layout != "gemm" or found.get("backend") == "llm-awq":
        name = layout if layout != "gemm" else "llm-awq"
        faults.append(f"version is {name!r}; gemm is read, so save the model as that")
    if found.get("desc_act"):
        faults.append("desc_act is true, which AWQ has no tensors for")
    faults += activation_faults(found)
    found["sym"] = _symmetry(found, faults)
    reader = LayerReader("gptq_v2", BITS, faults)
    base = reader.read(found)
    rules = (*excluded(found, faults), *dynamic_rules(found, reader))
    return (None if base is None else Settings(base, rules)), faults


def _spelled(config: Mapping[str, Any], faults: list[str]) -> dict[str, Any]:
    """The settings under one name each; two that differ are a fault."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        name = _SPELLINGS.get(key, key)
        value = value.lower() if name == "format" and isinstance(value, str) else value
        if found.get(name) is not None and value is not None and found[name] != value:
            faults.append(f"{name} is {found[name]!r}, and as {key} it is {value!r}")
        if value is not None or name not in found:
            found[name] = value
    return found


def _symmetry(found: Mapping[str, Any], faults: list[str]) -> bool:
    """Asymmetric unless zero_point is false: AutoAWQ's default, and transformers'."""
    zero_point, sym = found.get("zero_point"), found.get("sym")
    faults += flag_faults(found, ("zero_point", "sym"))
    if zero_point is not None and sym is not None and zero_point == sym:
        faults.append(f"zero_point is {zero_point!r} and sym is {sym!r}; one is the opposite of the other")
    return zero_point is False or (zero_point is None and sym is True)


def excluded(found: Mapping[str, Any], faults: list[str]) -> tuple[Rule, ...]:
    """A rule for what modules_to_not_convert names."""
    names = found.get("modules_to_not_convert") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        faults.append(f"modules_to_not_convert is {names!r}; it must be a list of names")
        return ()
    return (Rule(partial(is_listed, entries=names), None),)


def _expected(shape: tuple[int, int], layer: Layer) -> Mapping[str, Part]:
    out, width = shape
    groups, words = width // layer.size(width), -(-out // 8)
    return {
        "qweight": Part(("I32",), ((width, words),)),
        "qzeros": Part(("I32",), ((groups, words),)),
        "scales": Part(PLAIN_DTYPES, ((groups, out),)),
    }


def read_weight(
    name: str, shape: tuple[int, int], layer: Layer, tensors: Mapping[str, torch.Tensor]
) -> QuantizedWeight:
    """The weight; raises EngineError naming the layer for scales or zero points that cannot be right."""
    refuse_values(value_faults(name, shape, layer, tensors))
    out, width = shape
    stored = unpack_awq(tensors["qzeros"])[:, :out]
    codes = unpack_awq(tensors["qweight"])[:, :out].t()
    return QuantizedWeight(
        codes=pack_integers(signed(codes, 4)),
        element=INT4,
        scales=turned(tensors["scales"]),
        group_size=layer.size(width),
        in_features=width,
        zero_points=None if layer.sym else turned(signed(stored, 4)),
        scheme=scheme_words(layer),
    )


def value_faults(name: str, shape: tuple[int, int], layer: Layer, tensors: Mapping[str, torch.Tensor]) -> Iterator[str]:
    """What is wrong with everything but the codes."""
    yield from not_finite(name, ("scales",), tensors)
    if layer.sym:
        stored = unpack_awq(tensors["qzeros"])[:, : shape[0]]
        why = "the config says symmetric (zero_point false, or sym true)"
        yield from symmetric_faults(name, stored, (_ZERO_POINT,), why)


def scheme_words(layer: Layer) -> str:
    """Such as ``w4a16 (int4, groups of 128, asymmetric, AWQ)``."""
    parts = ["int4", layer.shared, *(() if layer.sym else ("asymmetric",)), "AWQ"]
    return f"w4a16 ({', '.join(parts)})"


LAYOUT = Layout(frozenset({"qweight", "qzeros", "scales"}), _expected, read_weight, value_faults, scheme_words)
