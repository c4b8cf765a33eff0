"""What a format's tensors and settings must look like: one check and one wording of the faults for several formats."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from re import match
from typing import Any

import torch

from evalcard_engine.checkpoint.claims import Parts
from evalcard_engine.checkpoint.plain import PLAIN_DTYPES
from evalcard_engine.checkpoint.source import ADVICE
from evalcard_engine.errors import EngineError

SCALARS: tuple[tuple[int, ...], ...] = ((), (1,))
"""Shapes of one number; exporters write either."""


@dataclass(frozen=True, slots=True)
class Part:
    """One tensor that a quantized weight is made of."""

    dtypes: tuple[str, ...]
    """Allowed, as safetensors spells them."""
    shapes: tuple[tuple[int, ...], ...]
    """Allowed."""
    is_optional: bool = False


def check_parts(name: str, parts: Parts, expected: Mapping[str, Part]) -> tuple[frozenset[str], list[str]]:
    """(the expected leaves that are there, faults that name the module): missing ones, other dtypes or shapes."""
    faults = []
    missing = [leaf for leaf, part in expected.items() if leaf not in parts and not part.is_optional]
    if missing:
        faults.append(f"{name}: {', '.join(sorted(missing))} missing")
    found = frozenset(leaf for leaf in expected if leaf in parts)
    for leaf in sorted(found):
        place, part = parts[leaf], expected[leaf]
        if place.dtype not in part.dtypes or place.shape not in part.shapes:
            allowed = f"{' or '.join(part.dtypes)} {' or '.join(str(list(shape)) for shape in part.shapes)}"
            faults.append(f"{name}.{leaf} is {place.dtype} {list(place.shape)}, not {allowed}")
    return found, faults


def is_plain(parts: Parts, marks: Iterable[str]) -> bool:
    """Whether the module holds an ordinary weight, or none, and nothing whose name begins with one of ``marks``."""
    weight = parts.get("weight")
    marked = any(leaf.startswith(tuple(marks)) for leaf in parts)
    return not marked and (weight is None or weight.dtype in PLAIN_DTYPES)


def not_finite(name: str, leaves: Iterable[str], tensors: Mapping[str, torch.Tensor]) -> Iterator[str]:
    """A fault naming the layer for each of the tensors, where it is there, that holds a NaN or an infinity."""
    for leaf in leaves:
        tensor = tensors.get(leaf)
        if tensor is not None and not bool(torch.isfinite(tensor.float()).all()):
            yield f"{name}: {leaf} is not finite"


def not_positive(name: str, leaf: str, tensor: torch.Tensor) -> list[str]:
    """A fault naming the layer where nothing can be divided by this one number."""
    value = float(tensor.float().reshape(()))
    if not math.isfinite(value):
        return [f"{name}: {leaf} is not finite"]
    return [f"{name}: {leaf} is {value:g}; it must be positive"] if value <= 0 else []


def refuse_values(faults: Iterable[str]) -> None:
    """Raise EngineError listing what is wrong with the values of one layer, if anything is."""
    found = tuple(faults)
    if found:
        raise EngineError(f"{'; '.join(found)}. {ADVICE}", found, ADVICE)


def nan_codes(name: str, codes: torch.Tensor) -> list[str]:
    """A fault naming the layer where e4m3 or e5m2 codes hold a NaN.

    Of e4m3 these are 0x7F and 0xFF, of e5m2 all above 0x7C and 0xFC, infinities with them: the greatest codes of either
    sign, which two passes over the bytes find.
    """
    if not codes.numel():
        return []
    least = 0x7F if codes.dtype == torch.float8_e4m3fn else 0x7C
    positive, negative = int(codes.view(torch.int8).max()), int(codes.view(torch.uint8).max())
    return [f"{name}: some of its weights are NaN"] if positive >= least or negative >= least + 0x80 else []


def beyond_bits(name: str, values: torch.Tensor, bits: int) -> list[str]:
    """A fault naming the layer where integers stored one in a byte do not fit their bits."""
    low, high = (int(values.min()), int(values.max())) if values.numel() else (0, 0)
    if low >= -(2 ** (bits - 1)) and high < 2 ** (bits - 1):
        return []
    return [f"{name}: its weights are no integers of {bits} bits ({low} to {high})"]


def names_in(config: Mapping[str, Any], keys: Iterable[str], faults: list[str]) -> tuple[str, ...]:
    """The names listed under any of the keys; a setting that is no list of names is a fault."""
    found: list[str] = []
    for key in keys:
        entries = config.get(key) or []
        if isinstance(entries, list) and all(isinstance(entry, str) for entry in entries):
            found += entries
        else:
            faults.append(f"{key} is {entries!r}; it must be a list of module names")
    return tuple(found)


def is_listed(name: str, entries: Iterable[str]) -> bool:
    """Whether a list of modules left unquantized names the module: itself, a module it is in, or its last parts.

    Entries end where a part of a name ends (``mlp.gate`` is not ``mlp.gate_proj``); ``*`` stands for anything and
    ``re:`` begins a pattern.
    """
    return any(_means(entry, name) for entry in entries)


def _means(entry: str, name: str) -> bool:
    if entry.startswith("re:"):
        return match(entry[3:], name) is not None
    if "*" in entry:
        return fnmatchcase(name, entry)
    return f".{name}.".startswith(f".{entry}.") or name.endswith(f".{entry}")


def listed_fault(name: str, entries: Iterable[str], setting: str) -> list[str]:
    """A fault where a quantized module is one that the config calls unquantized."""
    return [f"{name} is quantized, but {setting} names it"] if is_listed(name, entries) else []


def unknown_settings(config: Mapping[str, Any], known: Iterable[str], where: str = "quantization_config") -> list[str]:
    return [f"unknown setting {key!r} of {where}" for key in sorted(set(config) - set(known))]


def refuse(model: str, fmt: str, faults: list[str]) -> None:
    """Raise EngineError listing all faults of a format's settings, if there are any."""
    if faults:
        found, advice = tuple(dict.fromkeys(faults)), "To evaluate it as it is, try --backend vllm."
        raise EngineError(
            f"{model}: its {fmt} settings cannot be honoured: {'; '.join(found)}. {advice}", found, advice
        )
