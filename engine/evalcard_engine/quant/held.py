"""What a module holds in memory, counted storage by storage."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import nn

from evalcard_engine.quant.workspace import Workspace


def held_bytes(module: nn.Module) -> int:
    """Bytes of all storages that a module and its children reach, each counted once and whole, however small the part
    of it that is used. The buffers of tiles are shared by all linears of a model and not among them."""
    storages: dict[int, int] = {}
    for tensor in _tensors(module, set()):
        if tensor.is_mkldnn:  # laid out by oneDNN: torch knows no storage of it
            storages[-id(tensor)] = tensor.numel() * tensor.element_size()
        else:
            storage = tensor.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def _tensors(found: Any, seen: set[int]) -> Iterator[torch.Tensor]:
    """Every tensor reached through attributes, dataclasses, mappings and sequences."""
    if id(found) in seen or isinstance(found, Workspace | torch.dtype | str):
        return
    seen.add(id(found))
    if isinstance(found, torch.Tensor):
        yield found
    elif isinstance(found, Mapping):
        for part in found.values():
            yield from _tensors(part, seen)
    elif isinstance(found, list | tuple):
        for part in found:
            yield from _tensors(part, seen)
    elif is_dataclass(found) and not isinstance(found, type):
        for field in fields(found):
            yield from _tensors(getattr(found, field.name), seen)
    elif isinstance(found, nn.Module) or type(found).__module__.startswith("evalcard_engine."):
        yield from _tensors(vars(found), seen)
