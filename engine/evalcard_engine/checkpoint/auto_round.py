"""AutoRound's own format: GPTQ's or AWQ's layout, named by ``packing_format``, with settings by layer.

AutoRound 0.16: auto_round:auto_gptq (or :gptq) is GPTQ with zero points minus 1; auto_round alone, or :gptqmodel, is
GPTQ with zero points as they are; auto_round:auto_awq (or :awq) is AWQ's gemm. Columns are never reordered.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from evalcard_engine.checkpoint import awq, gptq
from evalcard_engine.checkpoint.awq import excluded
from evalcard_engine.checkpoint.expected import refuse, unknown_settings
from evalcard_engine.checkpoint.gptq_config import BITS, BY_TENSORS, REFUSED, RUNTIME, TUNING, activation_faults
from evalcard_engine.checkpoint.source import Checkpoint
from evalcard_engine.checkpoint.words import (
    LAYER_KEYS,
    Layer,
    LayerReader,
    Layout,
    Rule,
    Settings,
    WordFormat,
    unfit_keys,
    without_tensors,
)


@dataclass(frozen=True, slots=True)
class _Packing:
    layout: Layout
    zero_points: Literal["gptq", "gptq_v2"]
    bits: tuple[int, ...] = BITS
    was_ambiguous: bool = False
    """Whether older versions stored zero points sometimes as they are and sometimes minus 1 under this name."""


_MINUS_1 = _Packing(gptq.LAYOUT, "gptq")
_AS_THEY_ARE = _Packing(gptq.LAYOUT, "gptq_v2", was_ambiguous=True)
_AWQ = _Packing(awq.LAYOUT, "gptq_v2", awq.BITS)
_PACKINGS = {
    "": _AS_THEY_ARE, "exllamav2": _AS_THEY_ARE, "tritonv2": _AS_THEY_ARE, "auto_gptq": _MINUS_1, "gptq": _MINUS_1,
    "gptqmodel": _Packing(gptq.LAYOUT, "gptq_v2"), "auto_awq": _AWQ, "awq": _AWQ,
}  # fmt: skip
"""By what follows ``auto_round:``."""
_DEFAULT = "auto_round:auto_gptq"
"""AutoRound's and transformers' own where a config names none."""

_SCHEME = frozenset({
    *LAYER_KEYS, *REFUSED, "data_type", "act_bits", "act_data_type", "act_dynamic", "act_group_size", "act_sym",
    "super_group_size", "scale_dtype",
})  # fmt: skip
_KNOWN = _SCHEME | TUNING | RUNTIME | BY_TENSORS | {"quant_method", "packing_format", "extra_config"}


def open_format(checkpoint: Checkpoint, config: Mapping[str, Any]) -> WordFormat:
    """Raises EngineError listing every setting that cannot be honoured."""
    faults = unknown_settings(config, _KNOWN) + unfit_keys(config, REFUSED) + activation_faults(config)
    packing = _packing(config, faults)
    if config.get("desc_act"):
        faults.append("desc_act is true, which AutoRound does not write")
    reader = LayerReader(packing.zero_points, packing.bits, faults)
    base = reader.read(config)
    rules = (*_extra_rules(checkpoint, config, reader), *excluded(config, faults))
    faults += _ambiguities(config, packing, [base, *(rule.layer for rule in rules)])
    refuse(checkpoint.name, "AutoRound", faults + without_tensors(checkpoint))
    assert base is not None, config
    return WordFormat("auto-round", Settings(base, rules), packing.layout)


def _packing(config: Mapping[str, Any], faults: list[str]) -> _Packing:
    """Older versions put the name under ``backend``, such as auto_round:gptq:exllamav2; the kernel after it is moot."""
    text = str(config.get("packing_format") or config.get("backend") or _DEFAULT).lower()
    head, _, rest = (_DEFAULT if text == "auto" else text).partition(":")
    name = rest.partition(":")[0]
    if head != "auto_round" or name not in _PACKINGS:
        known = ", ".join(f"auto_round:{name}" if name else "auto_round" for name in _PACKINGS)
        faults.append(f"packing_format is {text!r}; {known} are read")
        return _MINUS_1
    return _PACKINGS[name]


def _ambiguities(config: Mapping[str, Any], packing: _Packing, layers: list[Layer | None]) -> list[str]:
    is_old = not config.get("packing_format")
    if not (is_old and packing.was_ambiguous and any(layer is not None and not layer.sym for layer in layers)):
        return []
    return [
        f"backend is {config.get('backend')!r} and there is no packing_format: versions of AutoRound differ in how "
        "they stored asymmetric zero points under this name, so export the model anew"
    ]


def _extra_rules(checkpoint: Checkpoint, config: Mapping[str, Any], reader: LayerReader) -> list[Rule]:
    """extra_config: {a module's name, or else a pattern found anywhere in names: changes}; names go first."""
    extra = config.get("extra_config") or {}
    if not isinstance(extra, Mapping):
        reader.faults.append(f"extra_config is {extra!r}; it must be an object of layers")
        return []
    modules = {tensor.rpartition(".")[0] for tensor in checkpoint.tensors}
    exact, patterns = [], []
    for text, changes in extra.items():
        if not changes:
            continue
        where = f"extra_config[{text!r}]"
        layer = _extra_layer(where, changes, config, reader)
        if text in modules:
            exact.append(Rule(text.__eq__, layer))
            continue
        try:
            patterns.append(Rule(re.compile(text).search, layer))
        except re.error as error:
            reader.faults.append(f"{where} is no module of the files, and no pattern ({error})")
    return exact + patterns


def _extra_layer(where: str, changes: Any, config: Mapping[str, Any], reader: LayerReader) -> Layer | None:
    """None for a layer of 16 bits or more, which is left in full precision."""
    if not isinstance(changes, Mapping):
        reader.faults.append(f"{where} is {changes!r}; it must be an object")
        return None
    reader.faults.extend(unknown_settings(changes, _SCHEME, where))
    bits = changes.get("bits", config.get("bits"))
    if isinstance(bits, int) and bits >= 16:
        return None
    reader.faults.extend(unfit_keys(changes, REFUSED, f"{where}.") + activation_faults(changes, f"{where}."))
    return reader.change(config, changes, where)
