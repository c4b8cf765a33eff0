"""One step's forward pass: the scheduler's plan becomes one packed batch, and logits come back by sequence."""

from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from evalcard_engine.batch import Batch, Span
from evalcard_engine.sequence import Sequence
from evalcard_engine.step import Chunk, Step


class Pool(Protocol):
    """The tensors behind the pages."""

    def copy_tokens(self, source_page: int, target_page: int, count: int) -> None:
        """Copy the first ``count`` slots of every layer."""


class Fault(Protocol):
    """What watching a model came to; faults.FirstFault is one."""

    found: str | None


class Model(Protocol):
    """What the engine asks of a model; models.PreparedModel is one."""

    info: Any
    numerics: str

    def page_bytes(self, page_size: int) -> int: ...

    def make_pool(self, num_pages: int, page_size: int) -> Any: ...

    def forward(self, batch: Batch, pool: Any) -> torch.Tensor: ...

    def watched(self) -> AbstractContextManager["Fault"]:
        """Find the first module with a value that is not finite in the forwards that run meanwhile."""


class Row(NamedTuple):
    """One row of a step's logits: what comes after position ``position`` of ``sequence``."""

    sequence: Sequence
    position: int


class Runner:
    """Runs steps of one model against one pool."""

    def __init__(self, model: Model, pool: Pool, page_size: int, device: str) -> None:
        self._model = model
        self._pool = pool
        self._page_size = page_size
        self._device = device

    def run(self, step: Step) -> tuple[list[Row], torch.Tensor]:
        """Compute a step: its rows in order, and their logits, float32 [len(rows), vocab]."""
        for copy in step.copies:
            self._pool.copy_tokens(copy.source, copy.target, copy.count)
        rows = [
            Row(chunk.sequence, position) for chunk in step.chunks for position in range(chunk.logits_start, chunk.stop)
        ]
        logits = self._model.forward(build_batch(step.chunks, self._page_size, self._device), self._pool)
        assert logits.dtype == torch.float32 and logits.dim() == 2, (logits.dtype, tuple(logits.shape))
        assert logits.shape[0] == len(rows), (tuple(logits.shape), len(rows))
        return rows, logits


def build_batch(chunks: list[Chunk], page_size: int, device: str) -> Batch:
    """The chunks one after the other in a packed row, without padding."""
    tokens: list[int] = []
    positions, slots, logits_rows, spans = [], [], [], []
    for chunk in chunks:
        query_start = len(tokens)
        tokens.extend(chunk.sequence.tokens(chunk.start, chunk.stop))
        pages = chunk.sequence.pages[: -(-chunk.stop // page_size)]
        is_long = chunk.sequence.is_long
        spans.append(Span(query_start, chunk.stop - chunk.start, chunk.start, tuple(pages), is_long))
        place = np.arange(chunk.start, chunk.stop)
        positions.append(place)
        slots.append(np.asarray(pages, dtype=np.int64)[place // page_size] * page_size + place % page_size)
        logits_rows.append(np.arange(chunk.logits_start, chunk.stop) - chunk.start + query_start)

    def packed(parts: list[np.ndarray]) -> torch.Tensor:
        return torch.from_numpy(np.concatenate(parts).astype(np.int64)).to(device)

    return Batch(
        token_ids=torch.tensor(tokens, dtype=torch.int64, device=device),
        positions=packed(positions),
        slots=packed(slots),
        logits_rows=packed(logits_rows),
        spans=tuple(spans),
        page_size=page_size,
    )
