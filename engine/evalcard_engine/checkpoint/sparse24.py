"""2:4 sparse storage (sparse-24-bitmask): of every four weights in a row two are kept, and a bit tells which.

Layout, from compressed-tensors' Sparse24BitMaskCompressor (version 0.11): beside the module's other tensors
``compressed`` [out, in / 2] holds the kept values in row order and in the weight's own dtype, ``bitmask`` uint8
[out, ceil(in / 8)] one bit a column from each byte's low end, ``shape`` int64 [2, 1] the dense shape.
"""

from collections.abc import Mapping

import torch

from evalcard_engine.checkpoint.claims import Parts
from evalcard_engine.checkpoint.source import TensorFile
from evalcard_engine.errors import EngineError

SPARSE_PARTS = frozenset({"compressed", "bitmask", "shape"})
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
"""Views through which a value of any dtype is moved without being changed."""


def is_sparse(parts: Parts) -> bool:
    return "compressed" in parts or "bitmask" in parts


def as_dense(name: str, shape: tuple[int, int], parts: Parts) -> tuple[dict[str, TensorFile], list[str]]:
    """(the module's parts as they were before sparse storage, faults): ``weight`` stands for the three tensors."""
    out, width = shape
    faults = [f"{name}: {leaf} missing" for leaf in sorted(SPARSE_PARTS - set(parts))]
    if "weight" in parts:
        faults.append(f"{name}: its weight is stored twice, dense and 2:4 sparse")
    if width % 4:
        faults.append(f"{name}: {width} columns of {list(shape)} do not divide into fours, as 2:4 sparsity needs")
    allowed: dict[str, tuple[str, list[tuple[int, ...]]]] = {
        "compressed": (parts["compressed"].dtype if "compressed" in parts else "", [(out, width // 2)]),
        "bitmask": ("U8", [(out, -(-width // 8))]),
        "shape": ("I64", [(2, 1), (2,)]),
    }
    for leaf, (dtype, shapes) in allowed.items():
        place = parts.get(leaf)
        if place is not None and (place.dtype != dtype or place.shape not in shapes):
            faults.append(f"{name}.{leaf} is {place.dtype} {list(place.shape)}, not {dtype} {list(shapes[0])}")
    rest = {leaf: place for leaf, place in parts.items() if leaf not in SPARSE_PARTS}
    kept = parts.get("compressed")
    if kept is not None and not faults:
        rest["weight"] = TensorFile(kept.file, kept.dtype, shape, kept.num_bytes)
    return rest, faults


def expand(name: str, shape: tuple[int, int], tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The dense weight [out, in] in the stored dtype, zeros where nothing was kept.

    Raises EngineError naming the layer where the mask is not two of every four or the shape is another.
    """
    kept, mask = tensors["compressed"], tensors["bitmask"]
    stated = tensors["shape"].flatten().tolist()
    if stated != list(shape):
        raise EngineError(f"{name}: shape is {stated}, but the model's weight is {list(shape)}.")
    bits = (mask[:, :, None] >> torch.arange(8, dtype=torch.uint8)) & 1
    chosen = bits.reshape(shape[0], -1)[:, : shape[1]].bool()
    if not bool((chosen.view(-1, 4).sum(dim=1) == 2).all()):
        raise EngineError(f"{name}: its bitmask does not keep two of every four weights. Fetch the model again.")
    raw = _INTEGERS[kept.dtype.itemsize]
    dense = torch.zeros(shape, dtype=raw)
    dense[chosen] = kept.contiguous().view(raw).flatten()
    return dense.view(kept.dtype)
