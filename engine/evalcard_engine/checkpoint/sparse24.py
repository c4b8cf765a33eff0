"""2:4 sparse storage (sparse-24-bitmask): of every four weights in a row two are kept, and a bit tells which.

Layout, from compressed-tensors' Sparse24BitMaskCompressor (version 0.11): beside the module's other tensors
``compressed`` [out, in / 2] holds the kept values in row order and in the weight's own dtype, ``bitmask`` uint8
[out, ceil(in / 8)] one bit a column from each byte's low end, ``shape`` int64 [2, 1] the dense shape.
"""

from collections.abc import Mapping

import torch

from evalcard_engine.checkpoint.claims import Parts
from evalcard_engine.checkpoint.expected import refuse_values
from evalcard_engine.checkpoint.tensor_files import TensorFile

SPARSE_PARTS = frozenset({"compressed", "bitmask", "shape"})
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
"""Views through which a value of any dtype is moved without being changed."""
_TWO_OF_FOUR = torch.tensor([(byte & 15).bit_count() == 2 == (byte >> 4).bit_count() for byte in range(256)])
"""Of a mask's byte, whether either half has two bits."""


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


def value_faults(name: str, shape: tuple[int, int], tensors: Mapping[str, torch.Tensor]) -> list[str]:
    """What is wrong with the stated shape and with the mask."""
    stated = tensors["shape"].flatten().tolist()
    faults = [f"{name}: shape is {stated}, but the model's weight is {list(shape)}"] if stated != list(shape) else []
    mask = tensors["bitmask"]
    whole, rest = shape[1] // 8, shape[1] % 8
    is_right = bool(_TWO_OF_FOUR[mask[:, :whole].long()].all())
    is_right &= not rest or bool(_TWO_OF_FOUR[(mask[:, whole] & 0xF | 0x30).long()].all())
    return faults if is_right else [*faults, f"{name}: its bitmask does not keep two of every four weights"]


def expand(name: str, shape: tuple[int, int], tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The dense weight [out, in] in the stored dtype, zeros where nothing was kept.

    Raises EngineError naming the layer where the mask is not two of every four or the shape is another.
    """
    refuse_values(value_faults(name, shape, tensors))
    kept, mask = tensors["compressed"], tensors["bitmask"]
    bits = (mask[:, :, None] >> torch.arange(8, dtype=torch.uint8)) & 1
    chosen = bits.reshape(shape[0], -1)[:, : shape[1]].bool()
    raw = _INTEGERS[kept.dtype.itemsize]
    dense = torch.zeros(shape, dtype=raw)
    dense[chosen] = kept.contiguous().view(raw).flatten()
    return dense.view(kept.dtype)
