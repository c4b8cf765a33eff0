"""Which tensors of a checkpoint fill which parameters of a model, and what is wrong with it, all at once.

A format knows how a module's weight is stored; this module sees to it that every tensor is claimed once and every
parameter is filled. Nothing is guessed or skipped: a tensor that nobody claims is a fault.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import torch

from evalcard_engine.checkpoint.source import Checkpoint, TensorFile
from evalcard_engine.errors import EngineError
from evalcard_engine.families import Family
from evalcard_engine.quant.weight import QuantizedWeight

Parts = Mapping[str, TensorFile]
"""A module's tensors by the last part of their names: ``weight``, ``weight_scale``, ``qweight`` ..."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A parameter that is stored as it is."""

    tensor: str
    """Name in the checkpoint."""


@dataclass(frozen=True, slots=True)
class Quantized:
    """A weight that several tensors make up."""

    tensors: Mapping[str, str]
    """Part -> name in the checkpoint; every one of them is claimed."""
    scheme: str
    """In the field's words, such as ``w4a16 (int4, groups of 128, asymmetric)``."""
    read: Callable[[Mapping[str, torch.Tensor]], QuantizedWeight | torch.Tensor]
    """From the parts, on the CPU; a tensor where they make up an unquantized one (2:4 sparse storage, KV-cache scales).
    Raises EngineError, which names the layer, for values that cannot be right."""


Source = Plain | Quantized


@dataclass(frozen=True, slots=True)
class ModuleClaim:
    """What a format makes of one module's weight."""

    source: Source | None
    """None where nothing here stores it; ``faults`` or the general check for missing tensors says so."""
    leaves: frozenset[str] = frozenset()
    """The parts that are accounted for."""
    faults: tuple[str, ...] = ()
    """Each names the layer and says what was found and what is allowed."""


class Format(Protocol):
    """One way of storing weights, made from the checkpoint's own config by its module's ``open_format``."""

    name: str
    """As the field calls it, such as compressed-tensors."""

    def module(self, name: str, shape: tuple[int, int], parts: Parts) -> ModuleClaim:
        """How the weight [out, in] of the linear or embedding ``name`` (the checkpoint's spelling) is stored.

        Decided by the parts that are there; where the config says something else, that is a fault.
        """

    def extras(self, name: str, parts: Parts) -> ModuleClaim:
        """Likewise for what is not a weight but belongs to the format, such as an attention's k_scale."""


@dataclass(slots=True)
class Claims:
    """The outcome: every parameter's source, and scales of the KV cache by attention module."""

    sources: dict[str, Source] = field(default_factory=dict)
    """Parameter name -> where it comes from; tied parameters have one source."""
    extras: dict[str, Source] = field(default_factory=dict)
    """Module name -> what a format claimed beyond weights."""

    @property
    def schemes(self) -> dict[str, str]:
        """Module name -> scheme of each quantized weight."""
        found = ((name.removesuffix(".weight"), source) for name, source in self.sources.items())
        return {name: source.scheme for name, source in found if isinstance(source, Quantized)}


def claim_all(
    checkpoint: Checkpoint,
    family: Family,
    fmt: Format,
    wanted: Mapping[str, tuple[int, ...]],
    matrices: Mapping[str, tuple[int, int]],
    tied: Mapping[str, str],
) -> Claims:
    """`examine`, where nothing may be wrong.

    Raises EngineError listing all faults: what is missing, left over, of another shape, or refused by the format.
    """
    claims, faults = examine(checkpoint, family, fmt, wanted, matrices, tied)
    if faults:
        raise EngineError(f"{checkpoint.name} cannot be loaded as it is: {'; '.join(faults)}.")
    return claims


def examine(
    checkpoint: Checkpoint,
    family: Family,
    fmt: Format,
    wanted: Mapping[str, tuple[int, ...]],
    matrices: Mapping[str, tuple[int, int]],
    tied: Mapping[str, str],
) -> tuple[Claims, list[str]]:
    """Claim every tensor for a parameter: (what could be claimed, everything that is wrong).

    wanted: each parameter's shape. matrices: [out, in] of each module (linear or embedding) whose ``weight`` a format
    may store in its own way. tied: {parameter: the one it shares its values with}; where the checkpoint holds only one
    of the two it fills both, where it holds both each has its own, as transformers has it.
    """
    modules, unknown = _by_module(checkpoint, family, wanted)
    claims = Claims()
    found: list[tuple[str, str]] = []
    for module, (stored, parts) in modules.items():
        taken = frozenset[str]()
        if module in matrices:
            claim = fmt.module(stored, matrices[module], parts)
            found += [(stored, fault) for fault in claim.faults]
            taken = claim.leaves
            if claim.source is not None:
                claims.sources[f"{module}.weight"] = claim.source
        plain = {leaf for leaf in parts if leaf not in taken and f"{module}.{leaf}" in wanted}
        claims.sources |= {f"{module}.{leaf}": Plain(_join(stored, leaf)) for leaf in plain}
        rest = {leaf: part for leaf, part in parts.items() if leaf not in taken | plain}
        unknown += _claim_extras(claims, fmt, module, stored, rest, found)
    _share_tied(claims, tied)
    return claims, grouped(found) + _misfits(checkpoint, claims, unknown, wanted)


def _claim_extras(
    claims: Claims, fmt: Format, module: str, stored: str, rest: Parts, faults: list[tuple[str, str]]
) -> list[str]:
    """Offer what no parameter takes to the format; returns the tensors that it does not know either."""
    if not rest:
        return []
    extra = fmt.extras(stored, rest)
    faults += [(stored, fault) for fault in extra.faults]
    if extra.source is not None:
        claims.extras[module] = extra.source
    return [_join(stored, leaf) for leaf in rest if leaf not in extra.leaves]


def _by_module(
    checkpoint: Checkpoint, family: Family, wanted: Mapping[str, tuple[int, ...]]
) -> tuple[dict[str, tuple[str, dict[str, TensorFile]]], list[str]]:
    """{module: (its name in the checkpoint, its parts)} over the modules of ``wanted``, and tensors of no module.

    A part may have dots in its name (``weight.absmax``), so the longest module name that fits is the module's.
    """
    known = {_module_of(parameter) for parameter in wanted}
    known |= {ancestor for name in known for ancestor in _ancestors(name)}
    found: dict[str, tuple[str, dict[str, TensorFile]]] = {}
    unknown = []
    for tensor, place in checkpoint.tensors.items():
        name = family.module_name(tensor)
        if name is None:
            continue
        module = next((one for one in _ancestors(name) if one in known), None)
        if module is None:
            unknown.append(tensor)
            continue
        leaf = name.removeprefix(module).removeprefix(".")
        stored = tensor.removesuffix(leaf).removesuffix(".")
        found.setdefault(module, (stored, {}))[1][leaf] = place
    return found, unknown


def _ancestors(name: str) -> Iterator[str]:
    """``a.b.c`` -> ``a.b``, ``a``, ```` (the root)."""
    while name:
        name = name.rpartition(".")[0]
        yield name


def _module_of(parameter: str) -> str:
    return parameter.rpartition(".")[0]


def _join(module: str, leaf: str) -> str:
    return f"{module}.{leaf}" if module else leaf


def _share_tied(claims: Claims, tied: Mapping[str, str]) -> None:
    for one, other in (*tied.items(), *((source, target) for target, source in tied.items())):
        if one not in claims.sources and other in claims.sources:
            claims.sources[one] = claims.sources[other]


def _misfits(
    checkpoint: Checkpoint, claims: Claims, unknown: list[str], wanted: Mapping[str, tuple[int, ...]]
) -> list[str]:
    plain = {name: one.tensor for name, one in claims.sources.items() if isinstance(one, Plain)}
    shapes = [
        f"{tensor} {list(checkpoint.tensors[tensor].shape)} for {list(wanted[parameter])}"
        for parameter, tensor in plain.items()
        if checkpoint.tensors[tensor].shape != tuple(wanted[parameter])
    ]
    faults = named("tensors missing", sorted(set(wanted) - set(claims.sources)))
    faults += named("tensors not part of the model", sorted(unknown))
    return faults + named("tensors of another shape than the config says", shapes)


def named(title: str, names: list[str], limit: int = 8) -> list[str]:
    """``title (3): a, b, c`` as a list of one, or an empty list; the rest beyond ``limit`` is counted."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return [f"{title} ({len(names)}): {', '.join(names[:limit])}{more}"] if names else []


def grouped(faults: Iterable[tuple[str, str]]) -> list[str]:
    """(module, what is wrong with it) -> one entry a fault, with the modules that share it named and counted."""
    by_text: dict[str, list[tuple[str, str]]] = {}
    for module, fault in faults:
        text = fault.removeprefix(module).lstrip(".: ") if module else fault
        by_text.setdefault(text, []).append((module, fault))
    entries = []
    for text, members in by_text.items():
        alone = len(members) == 1
        entries += [members[0][1]] if alone else named(text, [module for module, _ in members])
    return entries
