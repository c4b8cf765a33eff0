"""What a GPTQ checkpoint says of itself, read strictly: a setting that is not understood is a fault."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalcard_engine.checkpoint.expected import unknown_settings
from evalcard_engine.checkpoint.words import (
    LAYER_KEYS,
    LayerReader,
    Rule,
    Settings,
    ZeroPoints,
    unfit_keys,
)

BITS = (2, 3, 4, 8)
BESIDE = "quantize_config.json"
"""The same settings once more, where AutoGPTQ and GPTQModel look for them."""

TUNING = frozenset({
    "act_data_type", "act_dynamic", "act_group_aware", "act_group_size", "act_sym", "amp", "autoround_version",
    "batch_size", "block_name_to_quantize", "cache_block_outputs", "damp_auto_increment", "damp_percent", "dataset",
    "enable_minmax_tuning", "enable_norm_bias_tuning", "enable_quanted_input", "fallback", "foem", "gptaq",
    "gradient_accumulate_steps", "hessian", "hyb_act", "iters", "low_gpu_mem_usage", "lr", "max_input_length", "meta",
    "minmax_lr", "model_seqlen", "module_name_preceding_first_block", "mse", "nblocks", "nsamples", "pad_token_id",
    "provider", "quant_block_list", "scale_dtype", "seed", "seqlen", "static_attention_granularity", "static_groups",
    "static_kv_granularity", "super_group_size", "supported_types", "to_quant_block_names", "tokenizer",
    "true_sequential", "v2", "v2_alpha",
})  # fmt: skip
"""How the numbers were found, and by what, or details of what is refused below; it does not change what they are."""

RUNTIME = frozenset({
    "backend", "device", "disable_exllama", "exllama_config", "max_input_length", "model_file_base_name",
    "model_name_or_path", "use_cuda_fp16", "use_exllama",
})  # fmt: skip
"""Which kernel another engine would choose, and where files were."""

BY_TENSORS = frozenset({"lm_head", "modules_in_block_to_quantize", "modules_to_not_convert"})
"""Which modules are quantized: told by the tensors that are there."""

REFUSED = {
    "activation": "quantized activations are not run for this format",
    "rotation": "weights are stored in rotated form, which this engine does not undo",
    "adapter": "an adapter belongs to these weights, and adapters are not applied",
    "rotation_config": "weights are stored in rotated form, which this engine does not undo",
    "rotation_configs": "weights are stored in rotated form, which this engine does not undo",
    "super_bits": "scales are quantized themselves, which is not read in this format",
    "static_kv_dtype": "a quantized KV cache is not run yet",
    "static_attention_dtype": "quantized attention is not run",
    "is_marlin_format": "Marlin's own layout is not read; save the model with checkpoint_format gptq",
}
_FORMATS = ("checkpoint_format", "format")
_OTHERS = {"quant_method", "method", "dynamic", "pack_dtype", "data_type", "act_bits"}
_KNOWN = {*LAYER_KEYS, *_FORMATS, *_OTHERS, *REFUSED, *TUNING, *RUNTIME, *BY_TENSORS}


def read_settings(config: Mapping[str, Any], folder: Path) -> tuple[Settings | None, list[str]]:
    """(settings, faults) of config.json's quantization_config; settings are None only where there are faults."""
    faults = unknown_settings(config, _KNOWN) + unfit_keys(config, REFUSED) + activation_faults(config)
    reader = LayerReader(_zero_points(config, faults), BITS, faults)
    faults += pack_dtype_faults(config)
    base = reader.read(config)
    rules = dynamic_rules(config, reader)
    faults += _disagreements(config, folder)
    return (None if base is None else Settings(base, rules)), faults


def activation_faults(config: Mapping[str, Any], where: str = "") -> list[str]:
    """AutoRound's exports may say that inputs are quantized, or weights other than integers."""
    bits, kind = config.get("act_bits"), config.get("data_type")
    known = ("int", "int_sym", "int_asym")
    faults = [] if bits in (None, 16, 32) else [f"{where}act_bits is {bits!r}: quantized activations are not run"]
    return faults + ([] if kind is None or kind in known else [f"{where}data_type is {kind!r}; int is read"])


def pack_dtype_faults(config: Mapping[str, Any]) -> list[str]:
    packed = str(config.get("pack_dtype") or "int32").removeprefix("torch.")
    return [] if packed == "int32" else [f"pack_dtype is {packed!r}; int32 is read"]


def _zero_points(config: Mapping[str, Any], faults: list[str]) -> ZeroPoints:
    """By checkpoint_format, which older tools did not write: then it is gptq."""
    found = {key: str(config[key]).lower() for key in _FORMATS if config.get(key)}
    if len(set(found.values())) > 1:
        faults.append(f"checkpoint_format is {found['checkpoint_format']!r}, but format is {found['format']!r}")
    name = next(iter(found.values()), "gptq")
    if name not in ("gptq", "gptq_v2"):
        faults.append(f"checkpoint_format is {name!r}; gptq and gptq_v2 are read, so save the model as one of them")
    return "gptq_v2" if name == "gptq_v2" else "gptq"


def dynamic_rules(config: Mapping[str, Any], reader: LayerReader) -> tuple[Rule, ...]:
    """GPTQModel's overrides: {pattern: changes}, the first that matches from a name's start; ``-:`` leaves out."""
    dynamic = config.get("dynamic") or {}
    if not isinstance(dynamic, Mapping):
        reader.faults.append(f"dynamic is {dynamic!r}; it must be an object of patterns")
        return ()
    rules = (_dynamic_rule(text, changes or {}, config, reader) for text, changes in dynamic.items())
    return tuple(rule for rule in rules if rule is not None)


def _dynamic_rule(text: str, changes: Any, config: Mapping[str, Any], reader: LayerReader) -> Rule | None:
    where = f"dynamic[{text!r}]"
    try:
        matches = re.compile(text.removeprefix("-:") if text.startswith("-:") else text.removeprefix("+:")).match
    except re.error as error:
        reader.faults.append(f"{where}: its pattern cannot be read ({error})")
        return None
    if text.startswith("-:"):
        return Rule(matches, None)
    if not isinstance(changes, Mapping):
        reader.faults.append(f"{where} is {changes!r}; it must be an object")
        return None
    reader.faults.extend(unknown_settings(changes, {*LAYER_KEYS, *REFUSED} | TUNING, where))
    reader.faults.extend(unfit_keys(changes, REFUSED, f"{where}."))
    return Rule(matches, reader.change(config, changes, where))


def _disagreements(config: Mapping[str, Any], folder: Path) -> list[str]:
    """quantize_config.json decides nothing, but where it says something else one of the two is wrong."""
    file = folder / BESIDE
    if not file.is_file():
        return []
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        return [f"{BESIDE} is not valid JSON ({error})"]
    if not isinstance(found, Mapping):
        return [f"{BESIDE} holds a {type(found).__name__}, not an object"]
    keys = [key for key in (*LAYER_KEYS, *_FORMATS, "dynamic") if found.get(key) is not None]
    return [
        f"{key} is {config[key]!r} in config.json, but {found[key]!r} in {BESIDE}"
        for key in keys
        if config.get(key) is not None and config[key] != found[key]
    ]
