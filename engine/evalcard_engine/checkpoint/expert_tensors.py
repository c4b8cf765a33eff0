"""Tensors that hold all experts of a layer, seen as one tensor an expert: what every other file already has."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from evalcard_engine.checkpoint.source import Checkpoint
from evalcard_engine.checkpoint.tensor_files import Cut, TensorFile


@dataclass(frozen=True, slots=True)
class Fused:
    """One kind of tensor [experts, ...], and the linears of an expert that it holds."""

    stored: str
    """Pattern of its whole name in the checkpoint; its group ``layer`` is what goes before an expert's number."""
    parts: tuple[str, ...]
    """What goes behind the number, such as ``gate_proj.weight``: parts of equal size along the outputs, in order."""
    is_turned: bool = False
    """Outputs are the last dimension, [experts, in, out], where a linear has [out, in]."""


def separate(checkpoint: Checkpoint, fused: tuple[Fused, ...], num_experts: int | None) -> Checkpoint:
    """The checkpoint with each such tensor replaced by the experts' shares of it, named as linears are.

    num_experts: as the config says, for tensors in files that cannot be read. A tensor of a shape that cannot be cut is
    left as it is, which nobody will claim.
    """
    if not fused:
        return checkpoint
    tensors: dict[str, TensorFile] = {}
    for name, place in checkpoint.tensors.items():
        tensors |= dict(_shares(name, place, fused)) or {name: place}
    absent = checkpoint.absent
    if absent is not None:
        absent = frozenset(one for name in absent for one in _names(name, fused, num_experts or 0) or (name,))
    return replace(checkpoint, tensors=tensors, absent=absent)


def _names(name: str, fused: tuple[Fused, ...], num_experts: int) -> list[str]:
    """What the shares of a tensor of this name are called; empty where it is none of ``fused``."""
    for kind in fused:
        if (found := re.fullmatch(kind.stored, name)) is not None:
            return [f"{found['layer']}.{expert}.{part}" for expert in range(num_experts) for part in kind.parts]
    return []


def _shares(name: str, place: TensorFile, fused: tuple[Fused, ...]) -> Iterator[tuple[str, TensorFile]]:
    for kind in fused:
        found = re.fullmatch(kind.stored, name)
        if found is None or place.mapped is not None or len(place.shape) < 2:
            continue
        num_experts, *shape = place.shape
        shape = shape[::-1] if kind.is_turned else shape
        size = shape[0] // len(kind.parts)
        if shape[0] % len(kind.parts) or not num_experts:
            return
        num_bytes = place.num_bytes // num_experts // len(kind.parts)
        for expert in range(num_experts):
            for number, part in enumerate(kind.parts):
                cut = Cut(name, expert, number * size, (number + 1) * size, kind.is_turned)
                share = TensorFile(place.file, place.dtype, (size, *shape[1:]), num_bytes, cut=cut)
                yield f"{found['layer']}.{expert}.{part}", share


def num_experts_of(text: Mapping[str, object]) -> int | None:
    """As the config of a text model says it, by whichever name."""
    found = (text.get(name) for name in ("num_local_experts", "num_experts", "n_routed_experts"))
    return next((count for count in found if isinstance(count, int)), None)
