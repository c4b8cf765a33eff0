"""What compressed-tensors' part of config.json says, read strictly: a setting that is not understood is a fault.

Names and meanings are those of the library's QuantizationConfig and of its former SparsityCompressionConfig
(0.9 to 0.20).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evalcard_engine.checkpoint.ct_args import Args, read_args, unknown_settings

FORMATS_READ = frozenset({
    "", "dense", "int-quantized", "float-quantized", "naive-quantized", "pack-quantized", "nvfp4-pack-quantized",
    "mxfp4-pack-quantized", "mxfp8-quantized", "mixed-precision",
})  # fmt: skip
SPARSE_24 = "sparse-24-bitmask"

_TOP = {
    "config_groups", "format", "ignore", "kv_cache_scheme", "quant_method", "quantization_status", "sparsity_config",
    "transform_config", "version", "global_compression_ratio", "moe_sparsity_config",
}  # fmt: skip
_GROUP = {"targets", "weights", "input_activations", "output_activations", "format"}


@dataclass(frozen=True, slots=True)
class Group:
    """Modules that are quantized alike."""

    targets: tuple[str, ...]
    weights: Args
    inputs: Args | None
    format: str
    """How weights are stored; "" where the config leaves it open."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A whole quantization_config."""

    groups: tuple[Group, ...] = ()
    ignore: tuple[str, ...] = ()
    kv_cache: Args | None = None
    is_sparse: bool = False
    """Whether weights may be stored as sparse-24-bitmask."""

    def group_of(self, name: str, kind: str) -> Group | None:
        """The group of a module: by its whole name, else by pattern, else by class; alphabetical within each.

        That is the library's order (its match_targets), in which ``re:`` patterns are sorted as text.
        """
        pairs = ((target, group) for group in self.groups for target in group.targets)
        fits = [(_rank(target, name), target, group) for target, group in pairs if matches(target, name, kind)]
        return min(fits, key=lambda fit: fit[:2])[2] if fits else None

    def ignores(self, name: str, kind: str) -> bool:
        return any(matches(entry, name, kind) for entry in self.ignore)


def matches(target: str, name: str, kind: str) -> bool:
    """Whether a target or ignore entry means the module ``name`` of the class ``kind`` (Linear, Embedding).

    A literal is the whole name: ``mlp.gate`` must not swallow ``mlp.gate_proj``. ``re:`` patterns begin at the start.
    """
    if target.startswith("re:"):
        return re.match(target[3:], name) is not None
    return target in (name, kind)


def _rank(target: str, name: str) -> int:
    if target.startswith("re:"):
        return 1
    return 0 if target == name else 2


def read_settings(config: Mapping[str, Any]) -> tuple[Settings, list[str]]:
    """(settings, faults): everything in the config that this engine would have to guess at is a fault."""
    faults = unknown_settings(config, _TOP, "quantization_config")
    faults += _refused(config)
    groups = _groups(config.get("config_groups") or {}, _format(config, "format", faults), faults)
    kv_cache = (
        read_args("kv_cache_scheme", config["kv_cache_scheme"], faults) if config.get("kv_cache_scheme") else None
    )
    is_sparse = _is_sparse(config.get("sparsity_config") or {}, faults)
    says_something = groups or kv_cache or config.get("sparsity_config")
    if not says_something and not faults:
        faults.append("quantization_config has no config_groups that quantize weights")
    ignore = _texts(config.get("ignore") or (), "ignore", faults)
    return Settings(groups, ignore, kv_cache, is_sparse), faults


def _refused(config: Mapping[str, Any]) -> Iterator[str]:
    transform = config.get("transform_config") or {}
    if transform.get("config_groups") if isinstance(transform, Mapping) else transform:
        yield "transform_config: weights are stored in rotated form, which this engine does not undo"
    if config.get("moe_sparsity_config"):
        yield "moe_sparsity_config: experts were removed, which this engine does not run"


def _format(holder: Mapping[str, Any], where: str, faults: list[str]) -> str:
    fmt = str(holder.get("format") or "")
    if fmt not in FORMATS_READ:
        known = ", ".join(sorted(FORMATS_READ - {""}))
        faults.append(f"{where} {fmt!r} is not read ({known} are); compress the model anew in one of these")
    return fmt


def _is_sparse(found: Any, faults: list[str]) -> bool:
    """Whether weights are stored as sparse-24-bitmask; a config left over with format dense says nothing."""
    if not isinstance(found, Mapping):
        faults.append(f"sparsity_config is {found!r}; it must be an object")
        return False
    fmt = found.get("format")
    if fmt not in (None, "dense", SPARSE_24):
        faults.append(f"sparsity_config.format is {fmt!r}; dense and {SPARSE_24} are read")
    if fmt == SPARSE_24 and found.get("sparsity_structure") not in (None, "2:4"):
        faults.append(f"sparsity_config: {SPARSE_24} with structure {found['sparsity_structure']!r}; 2:4 is read")
    return bool(fmt == SPARSE_24)


def _groups(found: Any, default: str, faults: list[str]) -> tuple[Group, ...]:
    if not isinstance(found, Mapping):
        faults.append(f"config_groups is {found!r}; it must be an object")
        return ()
    groups = tuple(group for name, one in found.items() if (group := _group(name, one, default, faults)) is not None)
    targets = [target for group in groups for target in group.targets]
    twice = sorted({target for target in targets if targets.count(target) > 1})
    if twice:
        faults.append(f"several config_groups target {', '.join(twice)}")
    return groups


def _group(name: str, found: Any, default: str, faults: list[str]) -> Group | None:
    where = f"config_groups.{name}"
    if not isinstance(found, Mapping):
        faults.append(f"{where} is {found!r}; it must be an object")
        return None
    faults += unknown_settings(found, _GROUP, where)
    if found.get("output_activations"):
        faults.append(f"{where}: output_activations are quantized, which this engine does not do")
    if not found.get("weights"):
        if found.get("input_activations"):
            faults.append(f"{where}: only activations are quantized (weights is empty)")
        return None
    weights = read_args(f"{where}.weights", found["weights"], faults)
    inputs = found.get("input_activations")
    activations = read_args(f"{where}.input_activations", inputs, faults) if inputs else None
    fmt = _format(found, f"{where}.format", faults) if found.get("format") else default
    targets = _texts(found.get("targets") or (), f"{where}.targets", faults)
    return None if weights is None else Group(targets, weights, activations, fmt)


def _texts(found: Any, where: str, faults: list[str]) -> tuple[str, ...]:
    """Names and patterns; each pattern must be a valid one."""
    if not isinstance(found, list | tuple) or not all(isinstance(one, str) for one in found):
        faults.append(f"{where} is {found!r}; it must be a list of names")
        return ()
    for one in found:
        try:
            re.compile(one.removeprefix("re:") if one.startswith("re:") else "")
        except re.error as error:
            faults.append(f"{where}: {one!r} is no regular expression ({error})")
            return ()
    return tuple(found)
