"""How one tensor is quantized, by compressed-tensors' QuantizationArgs in config.json, read strictly."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

STRATEGIES = ("tensor", "channel", "group", "tensor_group", "block", "token", "attn_head")
_ARGS = {
    "num_bits", "type", "symmetric", "group_size", "strategy", "block_structure", "dynamic", "actorder", "observer",
    "observer_kwargs", "scale_dtype", "zp_dtype",
}  # fmt: skip
# observer and observer_kwargs say how scales were found, zp_dtype how zero points lie in the file: neither is needed.


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
    """group (columns of a group are anywhere, weight_g_idx says where) or weight (changes nothing stored)."""
    scale_dtype: str | None


def read_args(where: str, found: Any, faults: list[str]) -> Args | None:
    if not isinstance(found, Mapping):
        faults.append(f"{where} is {found!r}; it must be an object")
        return None
    faults += unknown_settings(found, _ARGS, where)
    try:
        args = _args_of(found)
    except (TypeError, ValueError, LookupError, ArithmeticError) as error:
        faults.append(f"{where} cannot be read ({type(error).__name__}: {error})")
        return None
    if args.strategy not in STRATEGIES:
        faults.append(f"{where}: strategy {args.strategy!r}; {', '.join(STRATEGIES)} are known")
        return None
    return args


def _args_of(found: Mapping[str, Any]) -> Args:
    size, block = found.get("group_size"), found.get("block_structure")
    if isinstance(block, str):
        block = [int(part) for part in block.split("x")]
    size = None if size in (None, -1) else int(size)
    if size is not None and size < 1:
        raise ValueError(f"group_size {size}")
    for name, allowed in (("symmetric", (True, False)), ("dynamic", (True, False, "local"))):
        if found.get(name, True) not in allowed:
            raise ValueError(f"{name} {found[name]!r}")
    actorder = str(found.get("actorder") or "").lower()
    if actorder not in ("", "group", "dynamic", "weight", "static"):
        raise ValueError(f"actorder {actorder!r}")
    return Args(
        num_bits=int(found.get("num_bits", 8)),
        type=str(found.get("type", "int")).lower(),
        symmetric=bool(found.get("symmetric", True)),
        strategy=str(found.get("strategy") or _default_strategy(found.get("group_size"))).lower(),
        group_size=size,
        block=(int(block[0]), int(block[1])) if block else None,
        dynamic=bool(found.get("dynamic", False)),
        actorder={"dynamic": "group", "static": "weight", "": None}.get(actorder, actorder),
        scale_dtype=found.get("scale_dtype"),
    )


def _default_strategy(group_size: Any) -> str:
    """compressed-tensors' own: tensor without a group size, channel for -1, else group."""
    if group_size is None:
        return "tensor"
    return "channel" if group_size == -1 else "group"


def unknown_settings(found: Mapping[str, Any], known: set[str], where: str) -> list[str]:
    """An unknown setting that is null says nothing, so it may stay."""
    unknown = sorted(key for key in set(found) - known if found[key] is not None)
    return [f"unknown setting {key!r} of {where}" for key in unknown]
