"""Reading tensors of a checkpoint from mapped files; whatever is to be kept must be copied."""

from pathlib import Path

import torch

from evalcard_engine.checkpoint.source import Checkpoint, TensorFile


class TensorReader:
    """A checkpoint's tensors by name, as CPU views into files that are opened once."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._places = checkpoint.tensors
        self._opened: dict[Path, object] = {}

    def __getitem__(self, tensor: str) -> torch.Tensor:
        from safetensors import safe_open

        file = self._places[tensor].file
        if file not in self._opened:
            self._opened[file] = safe_open(file, framework="pt")
        found: torch.Tensor = self._opened[file].get_tensor(tensor)  # type: ignore[attr-defined]
        return found

    def num_bytes(self, tensor: str) -> int:
        """As stored."""
        return self._places[tensor].num_bytes


def read_raw(tensor: str, place: TensorFile) -> torch.Tensor:
    """The bytes of one tensor, uint8 [n]; opens its file anew, so that threads may read side by side."""
    from safetensors import safe_open

    with safe_open(place.file, framework="pt") as opened:
        return opened.get_tensor(tensor).reshape(-1).view(torch.uint8)
