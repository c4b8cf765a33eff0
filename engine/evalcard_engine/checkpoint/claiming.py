"""Which tensors of a checkpoint fill which parameters of a model, and what is wrong with it, all at once.

A format knows how a module's weight is stored; this module sees to it that every tensor is claimed once and every
parameter is filled. Nothing is guessed or skipped: a tensor that nobody claims is a fault.
"""

from collections.abc import Iterator, Mapping
from typing import TypeVar

from evalcard_engine.checkpoint.claims import Claims, Format, Parts, Plain, Quantized
from evalcard_engine.checkpoint.faultlists import by_number, grouped, named
from evalcard_engine.checkpoint.reading import TensorReader
from evalcard_engine.checkpoint.source import Checkpoint, refused
from evalcard_engine.family import Family

_T = TypeVar("_T")


def claim_all(
    checkpoint: Checkpoint,
    family: Family,
    fmt: Format,
    wanted: Mapping[str, tuple[int, ...]],
    matrices: Mapping[str, tuple[int, int]],
    tied: Mapping[str, str],
) -> Claims:
    """`examine`, where nothing may be wrong.

    Raises EngineError listing all faults: what is missing, left over, of another shape, refused by the format, or a
    scale that is no number.
    """
    claims, faults = examine(checkpoint, family, fmt, wanted, matrices, tied)
    if faults:
        raise refused(checkpoint.name, faults)
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
    of the two it fills both, where it holds both each has its own, as transformers has it. What lies in files that
    cannot be read is told by the checkpoint's own faults, so that a module with a part there has no others.
    """
    if checkpoint.absent is None:
        return Claims(), list(checkpoint.faults)
    modules, unknown = _by_module(checkpoint.tensors, family, wanted)
    lost = _by_module(dict.fromkeys(checkpoint.absent), family, wanted)[0]
    claims = Claims()
    found: list[tuple[str, str]] = []
    for module, (stored, parts) in modules.items():
        if module in lost:
            continue
        taken = frozenset[str]()
        if module in matrices:
            claim = fmt.module(stored, matrices[module], parts)
            found += [(stored, fault) for fault in claim.faults]
            taken = claim.leaves
            if claim.source is not None:
                claims.sources[f"{module}.weight"] = claim.source
                if "weight" in parts and "weight" not in taken:
                    found.append((stored, f"{stored}: its weight is stored twice, compressed and as weight"))
                    taken |= {"weight"}
        plain = {leaf for leaf in parts if leaf not in taken and f"{module}.{leaf}" in wanted}
        claims.sources |= {f"{module}.{leaf}": Plain(_join(stored, leaf)) for leaf in plain}
        rest = {leaf: part for leaf, part in parts.items() if leaf not in taken | plain}
        unknown += _claim_extras(claims, fmt, module, stored, rest, found)
    _share_tied(claims, tied)
    partners = {**tied, **{source: target for target, source in tied.items()}}
    sought = {
        name: shape
        for name, shape in wanted.items()
        if _module_of(name) not in lost and _module_of(partners.get(name, name)) not in lost
    }
    faults = [*checkpoint.faults, *grouped([*found, *_wrong_values(checkpoint, claims, {one for one, _ in found})])]
    return claims, faults + _misfits(checkpoint, claims, unknown, sought)


def _wrong_values(checkpoint: Checkpoint, claims: Claims, faulty: set[str]) -> Iterator[tuple[str, str]]:
    """(module, what is wrong with its scales and whatever else is read before any weight) over all modules that are
    otherwise in order."""
    reader = TensorReader(checkpoint)
    sources = {id(source): (name, source) for name, source in claims.sources.items() if isinstance(source, Quantized)}
    for name, source in sources.values():
        module = _stored_module(name, source)
        if source.check is not None and module not in faulty:
            yield from ((module, fault) for fault in source.check(reader.parts(source.tensors)))


def _stored_module(parameter: str, source: Quantized) -> str:
    """The module of a parameter as the checkpoint spells it."""
    leaf, tensor = next(iter(source.tensors.items()), ("", parameter))
    return tensor.removesuffix(leaf).removesuffix(".")


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
    tensors: Mapping[str, _T], family: Family, wanted: Mapping[str, tuple[int, ...]]
) -> tuple[dict[str, tuple[str, dict[str, _T]]], list[str]]:
    """{module: (its name in the checkpoint, its parts)} over the modules of ``wanted``, and tensors of no module.

    A part may have dots in its name (``weight.absmax``), so the longest module name that fits is the module's.
    """
    known = {_module_of(parameter) for parameter in wanted}
    known |= {ancestor for name in known for ancestor in _ancestors(name)}
    found: dict[str, tuple[str, dict[str, _T]]] = {}
    unknown = []
    for tensor, place in tensors.items():
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
    # A tensor that two parameters share is told once.
    shapes = dict.fromkeys(
        f"{tensor} {list(checkpoint.tensors[tensor].shape)} for {list(wanted[parameter])}"
        for parameter, tensor in plain.items()
        if parameter in wanted and checkpoint.tensors[tensor].shape != tuple(wanted[parameter])
    )
    faults = named("tensors missing", sorted(set(wanted) - set(claims.sources), key=by_number))
    faults += named("tensors not part of the model", sorted(unknown, key=by_number))
    return faults + named("tensors of another shape than the config says", list(shapes))
