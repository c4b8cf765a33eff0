"""Reading tensors of a checkpoint from mapped files; whatever is to be kept must be copied."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from evalcard_engine.checkpoint.source import Checkpoint
from evalcard_engine.checkpoint.tensor_files import Cut, Mapped, TensorFile


class TensorReader:
    """A checkpoint's tensors by name, as CPU views into files that are opened once."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._places = checkpoint.tensors
        self._absent = checkpoint.absent or frozenset()
        self._opened: dict[Path, object] = {}

    def __getitem__(self, tensor: str) -> torch.Tensor:
        from safetensors import safe_open

        place = self._places[tensor]
        file = place.file
        if place.mapped is not None:
            return _values(place, place.mapped, _map(place, place.mapped))
        if file not in self._opened:
            self._opened[file] = safe_open(file, framework="pt")
        return _stored(self._opened[file], tensor, place.cut)

    def __contains__(self, tensor: object) -> bool:
        return tensor in self._places or tensor in self._absent

    def parts(self, tensors: Mapping[str, str]) -> Mapping[str, torch.Tensor]:
        """{part: its name in the checkpoint} -> {part: its tensor}, each read when it is asked for."""
        return _Parts(self, tensors)

    def num_bytes(self, tensor: str) -> int:
        """As stored."""
        return self._places[tensor].num_bytes


class _Parts(Mapping[str, torch.Tensor]):
    def __init__(self, reader: TensorReader, tensors: Mapping[str, str]) -> None:
        self._reader, self._tensors = reader, tensors

    def __getitem__(self, part: str) -> torch.Tensor:
        return self._reader[self._tensors[part]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def read_raw(tensor: str, place: TensorFile) -> torch.Tensor:
    """The bytes of one tensor, uint8 [n]; opens its file anew, so that threads may read side by side."""
    from safetensors import safe_open

    if place.mapped is not None:
        return _map(place, place.mapped)
    with safe_open(place.file, framework="pt") as opened:
        return _stored(opened, tensor, place.cut).contiguous().reshape(-1).view(torch.uint8)


def _stored(opened: Any, tensor: str, cut: Cut | None) -> torch.Tensor:
    """A tensor of an open safetensors file, or the share of one."""
    if cut is None:
        found: torch.Tensor = opened.get_tensor(tensor)
        return found
    whole = opened.get_slice(cut.tensor)
    if cut.is_turned:
        share: torch.Tensor = whole[cut.expert : cut.expert + 1, ..., cut.start : cut.stop]
        return share[0].movedim(-1, 0)
    share = whole[cut.expert : cut.expert + 1, cut.start : cut.stop]
    return share[0]


_PLAIN = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""What is read as numbers; of everything else the bytes are handed on, row by row."""


def _map(place: TensorFile, mapped: Mapped) -> torch.Tensor:
    """uint8 [num_bytes], a view into the file."""
    end = mapped.offset + place.num_bytes
    return torch.from_file(str(place.file), shared=False, size=end, dtype=torch.uint8)[mapped.offset :]


def _values(place: TensorFile, mapped: Mapped, raw: torch.Tensor) -> torch.Tensor:
    """The parameter as transformers has it: numbers of the tensor's shape, or uint8 [rows, bytes of a row]."""
    dtype = _PLAIN.get(place.dtype)
    rows = raw.view(place.shape[0], -1) if dtype is None else raw.view(dtype).view(place.shape)
    if mapped.heads:
        rows = rows.view(mapped.heads, -1, 2, *rows.shape[1:]).transpose(1, 2).reshape(rows.shape)
    return rows.float() + mapped.shift if mapped.shift else rows
