"""Memory that the steps of a model write into and read again at once, so that it stays near the processor."""

import torch


class Workspace:
    """The buffers that the linears of a model share, one linear after the other; they grow as needed."""

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, torch.dtype], torch.Tensor] = {}

    def take(self, purpose: str, rows: int, width: int, dtype: torch.dtype) -> torch.Tensor:
        """An uninitialized [rows, width]; the next one of this purpose and dtype lies in the same place."""
        held = self._buffers.get((purpose, dtype))
        if held is None or held.numel() < rows * width:
            held = self._buffers[purpose, dtype] = torch.empty(rows * width, dtype=dtype)
        return held[: rows * width].view(rows, width)

    @property
    def num_bytes(self) -> int:
        return sum(buffer.nbytes for buffer in self._buffers.values())
