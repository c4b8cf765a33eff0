"""How one tensor is quantized, by compressed-tensors' QuantizationArgs in config.json, read strictly."""

import json
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
        said = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        faults.append(f"{where} cannot be read: {said}")
        return None
    if args.strategy not in STRATEGIES:
        faults.append(f"{where}: strategy {args.strategy!r}; {', '.join(STRATEGIES)} are known")
        return None
    return args


def _args_of(found: Mapping[str, Any]) -> Args:
    for name, allowed in (("symmetric", (True, False)), ("dynamic", (True, False, "local"))):
        value = found.get(name)
        if value is not None and not (isinstance(value, bool | str) and value in allowed):
            raise ValueError(f"{name} is {found[name]!r}; it must be {' or '.join(map(json.dumps, allowed))}")
    actorder = str(found.get("actorder") or "").lower()
    if actorder not in ("", "group", "dynamic", "weight", "static"):
        raise ValueError(f"actorder is {actorder!r}; it must be group, weight, dynamic, static or null")
    return Args(
        num_bits=_num_bits(found.get("num_bits", 8)),
        type=str(found.get("type", "int")).lower(),
        symmetric=found.get("symmetric") is not False,
        strategy=str(found.get("strategy") or _default_strategy(found.get("group_size"))).lower(),
        group_size=_group_size(found.get("group_size")),
        block=_block(found.get("block_structure")),
        dynamic=bool(found.get("dynamic", False)),
        actorder={"dynamic": "group", "static": "weight", "": None}.get(actorder, actorder),
        scale_dtype=found.get("scale_dtype"),
    )


def _num_bits(found: Any) -> int:
    bits = int(found) if isinstance(found, str) and found.isdecimal() else found
    if isinstance(bits, bool) or not isinstance(bits, int):
        raise ValueError(f"num_bits is {found!r}; it must be a whole number")
    return bits


def _group_size(found: Any) -> int | None:
    """None for whole rows, which compressed-tensors writes as null or -1."""
    size = int(found) if isinstance(found, str) and found.isdecimal() else found
    if size is None or (size == -1 and not isinstance(size, bool)):
        return None
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ValueError(f"group_size is {found!r}; it must be a whole number from 1, or -1 for whole rows")
    return size


def _block(found: Any) -> tuple[int, int] | None:
    """Rows and columns, written as [128, 128] or "128x128"."""
    if found is None:
        return None
    parts = found.split("x") if isinstance(found, str) else found
    sides = [int(part) for part in parts] if isinstance(parts, list | tuple) else []
    if len(sides) != 2 or min(sides) < 1:
        raise ValueError(f"block_structure is {found!r}; it must be two whole numbers from 1, such as [128, 128]")
    return sides[0], sides[1]


def _default_strategy(group_size: Any) -> str:
    """compressed-tensors' own: tensor without a group size, channel for -1, else group."""
    if group_size is None:
        return "tensor"
    return "channel" if group_size == -1 else "group"


def unknown_settings(found: Mapping[str, Any], known: set[str], where: str) -> list[str]:
    """An unknown setting that is null says nothing, so it may stay."""
    unknown = sorted(key for key in set(found) - known if found[key] is not None)
    return [f"unknown setting {key!r} of {where}" for key in unknown]
