"""What GPTQ, AWQ and AutoRound checkpoints share: integers packed into 32-bit words, and settings by layer."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

from evalcard_engine.checkpoint.claims import ModuleClaim, Parts, Quantized
from evalcard_engine.checkpoint.expected import Part, check_parts
from evalcard_engine.checkpoint.plain import PLAIN_DTYPES, plain_weight
from evalcard_engine.checkpoint.reading import read_raw
from evalcard_engine.checkpoint.source import Checkpoint
from evalcard_engine.quant.weight import QuantizedWeight

ZeroPoints = Literal["gptq", "gptq_v2"]
"""How zero points are stored: minus 1, or as they are."""

LAYER_KEYS = ("bits", "group_size", "sym", "desc_act")


@dataclass(frozen=True, slots=True)
class Layer:
    """How one layer's weight is stored."""

    bits: int
    group_size: int | None
    """Columns that share a scale; None is all of them."""
    sym: bool
    desc_act: bool | None
    """Whether columns are grouped in another order than they stand in (act-order); None where nothing says so."""
    zero_points: ZeroPoints

    def size(self, width: int) -> int:
        """Columns of a group."""
        return width if self.group_size is None else self.group_size

    @property
    def shared(self) -> str:
        """In words: what has a scale."""
        return "per channel" if self.group_size is None else f"groups of {self.group_size}"


@dataclass(frozen=True, slots=True)
class Rule:
    """What holds for layers whose names match."""

    matches: Callable[[str], object]
    layer: Layer | None
    """None leaves them in full precision."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One checkpoint's settings, by layer."""

    base: Layer
    rules: tuple[Rule, ...] = ()

    def layer(self, name: str) -> Layer | None:
        """Of the first rule that matches, else the common one; None where the config wants full precision."""
        return next((rule.layer for rule in self.rules if rule.matches(name)), self.base)


@dataclass(frozen=True, slots=True)
class LayerReader:
    """Reads Layers from settings, adding what cannot be read to ``faults``."""

    zero_points: ZeroPoints
    allowed: tuple[int, ...]
    """Bits."""
    faults: list[str]

    def read(self, found: Mapping[str, Any], where: str = "") -> Layer | None:
        """Of the keys bits, group_size, sym and desc_act; None where there is a fault. ``where`` is put before keys.

        A missing ``sym`` is True, as GPTQModel, transformers and AutoRound have it: the zero points that are stored
        have to agree. Neither bits nor group_size has a default that all tools share, so both must be there.
        """
        bits, size, sym, desc_act = (found.get(key) for key in LAYER_KEYS)
        is_whole = size == -1
        faults = flag_faults(found, ("sym", "desc_act"), where)
        if not _is_count(bits) or bits not in self.allowed:
            faults.append(f"{where}bits is {bits!r}; {', '.join(map(str, self.allowed))} are read")
        if not is_whole and not _is_count(size):
            faults.append(f"{where}group_size is {size!r}; it must be a positive integer, or -1 for whole rows")
        self.faults.extend(faults)
        if faults or bits is None:
            return None
        return Layer(bits, None if is_whole else size, sym is not False, desc_act, self.zero_points)

    def change(self, common: Mapping[str, Any], changes: Mapping[str, Any], where: str) -> Layer | None:
        """The common settings with some of them changed."""
        stated = {key: value for key, value in changes.items() if value is not None}
        return self.read({key: stated.get(key, common.get(key)) for key in LAYER_KEYS}, f"{where}.")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def flag_faults(config: Mapping[str, Any], keys: Iterable[str], where: str = "") -> list[str]:
    found = ((key, config.get(key)) for key in keys)
    return [
        f"{where}{key} is {value!r}; it must be true or false"
        for key, value in found
        if value is not None and not isinstance(value, bool)
    ]


def unfit_keys(config: Mapping[str, Any], refused: Mapping[str, str], where: str = "") -> list[str]:
    """A fault for each key of ``refused`` (key -> why) that is set to anything but null, false or nothing."""
    return [f"{where}{key} is {config[key]!r}: {why}" for key, why in refused.items() if config.get(key)]


def without_tensors(checkpoint: Checkpoint) -> list[str]:
    """A fault where the config promises packed weights and the files hold none."""
    absent = checkpoint.absent
    if absent is None or any(tensor.endswith(".qweight") for tensor in (*checkpoint.tensors, *absent)):
        return []
    return ["no tensor in its files is packed (none is called qweight)"]


@dataclass(frozen=True, slots=True)
class Layout:
    """How a layer's parts lie in memory."""

    leaves: frozenset[str]
    """All parts that there may be."""
    expected: Callable[[tuple[int, int], Layer], Mapping[str, Part]]
    """The parts of a weight [out, in] whose columns divide into groups."""
    read: Callable[[str, tuple[int, int], Layer, Mapping[str, torch.Tensor]], QuantizedWeight]
    check: Callable[[str, tuple[int, int], Layer, Mapping[str, torch.Tensor]], Iterable[str]]
    """What is wrong with the values of everything but the codes."""
    words: Callable[[Layer], str]
    """The scheme, as cards print it."""


@dataclass(frozen=True, slots=True)
class WordFormat:
    """A Format: one checkpoint's settings and the layout of its words."""

    name: str
    settings: Settings
    layout: Layout

    def module(self, name: str, shape: tuple[int, int], parts: Parts) -> ModuleClaim:
        """By the tensors that are there: without packed parts the weight is plain, whatever the config covers."""
        leaves = self.layout.leaves & parts.keys()
        if not leaves:
            return plain_weight(name, parts)
        listed, layer = ", ".join(sorted(leaves)), self.settings.layer(name)
        if layer is None:
            faults = [f"{name} is packed ({listed}), but the config leaves it in full precision"]
        else:
            faults = _misfits(name, shape, layer, self.layout, parts)
        if "weight" in parts:
            faults.append(f"{name} is stored twice, as weight and as {listed}")
        known = layer or self.settings.base
        source = Quantized(
            {leaf: f"{name}.{leaf}" for leaf in sorted(leaves)},
            self.layout.words(known),
            lambda tensors: self.layout.read(name, shape, known, tensors),
            check=lambda tensors: self.layout.check(name, shape, known, tensors),
        )
        return ModuleClaim(source, leaves | (parts.keys() & {"weight"}), tuple(faults))

    def extras(self, name: str, parts: Parts) -> ModuleClaim:
        """The bias of a linear that has none: AutoGPTQ wrote one of zeros for every linear, which changes nothing."""
        place = parts.get("bias")
        if place is None or place.dtype not in PLAIN_DTYPES:
            return ModuleClaim(None)
        tensor = f"{name}.bias"
        faults = (f"{tensor} is not zero, and the model has no such bias",)
        is_zero = not bool(read_raw(tensor, place).any())
        return ModuleClaim(None, frozenset({"bias"}), () if is_zero else faults)


def _misfits(name: str, shape: tuple[int, int], layer: Layer, layout: Layout, parts: Parts) -> list[str]:
    out, width = shape
    if width % layer.size(width):
        return [f"{name} [{out}, {width}]: {width} columns do not divide into groups of {layer.group_size}"]
    faults = check_parts(name, parts, layout.expected(shape, layer))[1]
    return [f"{fault} ({layer.bits} bits, {layer.shared})" for fault in faults]


def turned(stored: torch.Tensor) -> torch.Tensor:
    """[groups, out] as it is stored -> its own copy [out, groups]."""
    return stored.t().clone(memory_format=torch.contiguous_format)


def symmetric_faults(name: str, stored: torch.Tensor, allowed: tuple[int, ...], why: str) -> list[str]:
    """A fault naming the layer and what is there, where zero points that must all be one of ``allowed`` are not."""
    values = stored.unique().tolist()
    if len(values) == 1 and values[0] in allowed:
        return []
    few = f"{', '.join(map(str, values[:6]))}{' ...' if len(values) > 6 else ''}"
    known = " or ".join(map(str, allowed))
    return [
        f"{name}: {why}, so every stored zero point must be {known}, but the file holds {few}. Correct the config, or "
        "compress the model anew"
    ]
