"""What compressed-tensors' part of config.json says, read strictly: a setting that is not understood is a fault."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_TOP = {
    "config_groups", "format", "ignore", "kv_cache_scheme", "quant_method", "quantization_status", "sparsity_config",
    "transform_config", "version", "global_compression_ratio",
}  # fmt: skip
_GROUP = {"targets", "weights", "input_activations", "output_activations", "format"}
_ARGS = {
    "num_bits", "type", "symmetric", "group_size", "strategy", "block_structure", "dynamic", "actorder", "observer",
    "observer_kwargs", "scale_dtype", "zp_dtype",
}  # fmt: skip
_NO_MATTER = {"observer", "observer_kwargs"}
"""How scales were found does not change what they are."""


@dataclass(frozen=True, slots=True)
class Args:
    """How one tensor is quantized; the field names are compressed-tensors' own."""

    num_bits: int
    type: str
    """int or float."""
    symmetric: bool
    strategy: str
    """tensor, channel, group, tensor_group, block or token."""
    group_size: int | None
    block: tuple[int, int] | None
    """Rows and columns of a block."""
    dynamic: bool
    """Whether scales follow the values at hand (compressed-tensors' True and "local")."""
    actorder: str | None
    scale_dtype: str | None


@dataclass(frozen=True, slots=True)
class Group:
    """Modules that are quantized alike."""

    targets: tuple[str, ...]
    weights: Args
    inputs: Args | None
    format: str | None


def read_groups(config: Mapping[str, Any]) -> tuple[list[Group], list[str]]:
    """(groups, faults): everything in the config that this engine would have to guess at is a fault."""
    faults = [f"unknown setting {key!r} of quantization_config" for key in sorted(set(config) - _TOP)]
    faults += _refused(config)
    groups = []
    for name, found in (config.get("config_groups") or {}).items():
        group = _group(name, found, faults)
        if group is not None:
            groups.append(group)
    if not groups and not faults:
        faults.append("quantization_config has no config_groups that quantize weights")
    return groups, faults


def _refused(config: Mapping[str, Any]) -> Iterator[str]:
    if (config.get("transform_config") or {}).get("config_groups"):
        yield "transform_config: weights are stored in rotated form, which this engine does not undo"
    sparsity = (config.get("sparsity_config") or {}).get("format", "dense")
    if sparsity not in ("dense", "sparse-24-bitmask"):
        yield f"sparsity_config.format is {sparsity!r}; dense and sparse-24-bitmask are read"


def _group(name: str, found: Mapping[str, Any], faults: list[str]) -> Group | None:
    unknown = sorted(set(found) - _GROUP)
    faults += [f"unknown setting {key!r} of config_groups.{name}" for key in unknown]
    if found.get("output_activations"):
        faults.append(f"config_groups.{name}: output_activations are quantized, which this engine does not do")
    if not found.get("weights"):
        faults.append(f"config_groups.{name}: only activations are quantized (weights is empty)")
        return None
    weights = _args(f"{name}.weights", found["weights"], faults)
    inputs = _args(f"{name}.input_activations", found["input_activations"], faults) if found.get(
        "input_activations") else None  # fmt: skip
    if weights is None:
        return None
    return Group(tuple(found.get("targets") or ()), weights, inputs, found.get("format"))


def _args(where: str, found: Mapping[str, Any], faults: list[str]) -> Args | None:
    unknown = sorted(set(found) - _ARGS - _NO_MATTER)
    faults += [f"unknown setting {key!r} of config_groups.{where}" for key in unknown]
    try:
        size, block = found.get("group_size"), found.get("block_structure")
        if isinstance(block, str):
            block = [int(part) for part in re.findall(r"\d+", block)]
        strategy = found.get("strategy") or _default_strategy(size)
        return Args(
            num_bits=int(found.get("num_bits", 8)),
            type=str(found.get("type", "int")),
            symmetric=bool(found.get("symmetric", True)),
            strategy=str(strategy),
            group_size=None if size in (None, -1) else int(size),
            block=(int(block[0]), int(block[1])) if block else None,
            dynamic=bool(found.get("dynamic", False)),
            actorder=found.get("actorder"),
            scale_dtype=found.get("scale_dtype"),
        )
    except (TypeError, ValueError, IndexError) as error:
        faults.append(f"config_groups.{where} cannot be read ({type(error).__name__}: {error})")
        return None


def _default_strategy(group_size: Any) -> str:
    """compressed-tensors' own: tensor without a group size, channel for -1, else group."""
    if group_size is None:
        return "tensor"
    return "channel" if group_size == -1 else "group"


def matches(target: str, name: str, kind: str) -> bool:
    """Whether a target or ignore entry means the module ``name`` of the class ``kind`` (Linear, Embedding).

    A literal is the whole name: ``mlp.gate`` must not swallow ``mlp.gate_proj``. ``re:`` patterns begin at the start.
    """
    if target.startswith("re:"):
        return re.match(target[3:], name) is not None
    return target in (name, kind)
