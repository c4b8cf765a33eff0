"""One step's forward pass: the scheduler's plan becomes one packed batch, and logits come back by sequence.

A step is prepared, which is numbers on the host and takes no device, then launched, which waits for none. So the next
step is prepared while the device runs this one, on the guess that all its answers go on; a guess that fails is dropped.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch

from evalcard_engine import transfer
from evalcard_engine.attention.reach import Reach
from evalcard_engine.batch import Batch, Span
from evalcard_engine.sequence import Sequence as EngineSequence
from evalcard_engine.step import Chunk, Step

if TYPE_CHECKING:  # Triton is not everywhere
    from evalcard_engine.attention.paged_plan import HostPlan, PagedPlan


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


@runtime_checkable
class PlanningModel(Protocol):
    """A model that says on the host what its attention will do; models.PreparedModel is one."""

    info: Any

    @property
    def is_replayable(self) -> bool:
        """Whether its kernels are the same for all steps with plans of one size, so that they can be captured."""

    def plan_attention(self, spans: Sequence[Span], pool: Any) -> "Mapping[Reach, HostPlan] | None":
        """None where there is nothing to plan; else all plans name the same pages."""

    def forward(self, batch: Batch, pool: Any, plans: "Mapping[Reach, PagedPlan] | None" = None) -> torch.Tensor: ...


class Graphs(Protocol):
    """What replays steps; graphs.DecodeGraphs is one."""

    def run(self, prepared: "Prepared", token_ids: Sequence[int]) -> torch.Tensor | None: ...


class Row(NamedTuple):
    """One row of a step's logits: what comes after position ``position`` of ``sequence``."""

    sequence: EngineSequence
    position: int
    draft: int | None = None
    """The token that was put there, where it is not known yet."""


class Wanted(NamedTuple):
    """A span, and of how many of its last tokens logits are asked for."""

    span: Span
    num_logits: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """All of a step but its tokens, on the host: int64 [num_tokens], logits_rows int64 [num_logits]."""

    wanted: tuple[Wanted, ...]
    positions: np.ndarray
    slots: np.ndarray
    logits_rows: np.ndarray
    plans: "Mapping[Reach, HostPlan] | None" = None

    @property
    def spans(self) -> tuple[Span, ...]:
        return tuple(span for span, _ in self.wanted)

    @property
    def is_decode(self) -> bool:
        """Whether every sequence has one token, whose logits are asked for."""
        return len(self.wanted) == len(self.positions) == len(self.logits_rows)


class Runner:
    """Runs steps of one model against one pool."""

    def __init__(self, model: Model, pool: Pool, page_size: int, device: str, graphs: Graphs | None = None) -> None:
        self._model = model
        self._pool = pool
        self._page_size = page_size
        self._device = device
        self._graphs = graphs
        self._planner = model if isinstance(model, PlanningModel) else None
        self._ahead: Prepared | None = None
        self._has_plans = False
        """Whether the last step had plans, without which there is nothing worth preparing ahead."""

    def run(self, step: Step) -> tuple[list[Row], torch.Tensor]:
        """Launch a step: its rows in order, and their logits, float32 [len(rows), vocab], good until the next one."""
        for copy in step.copies:
            self._pool.copy_tokens(copy.source, copy.target, copy.count)
        rows = [row for chunk in step.chunks for row in _rows(chunk)]
        wanted = _wanted(step.chunks, self._page_size)
        ahead, self._ahead = self._ahead, None
        is_guessed = ahead is not None and ahead.wanted == wanted
        prepared = ahead if ahead is not None and is_guessed else self._prepare(wanted)
        self._has_plans = prepared.plans is not None
        logits = self._launch(prepared, _tokens(step.chunks))
        assert logits.dtype == torch.float32 and logits.dim() == 2, (logits.dtype, tuple(logits.shape))
        assert logits.shape[0] == len(rows), (tuple(logits.shape), len(rows))
        return rows, logits

    def prepare_ahead(self, step: Step) -> None:
        """Prepare what follows ``step``, which is running, if all its answers go on in the pages that they have."""
        if not self._has_plans or any(chunk.stop - chunk.logits_start != 1 for chunk in step.chunks):
            return
        following = [chunk for chunk in step.chunks if chunk.stop < chunk.sequence.max_len]
        if following and all(chunk.stop < len(chunk.sequence.pages) * self._page_size for chunk in following):
            chunks = [Chunk(chunk.sequence, chunk.stop, chunk.stop + 1, chunk.stop) for chunk in following]
            self._ahead = self._prepare(_wanted(chunks, self._page_size))

    def _prepare(self, wanted: tuple[Wanted, ...]) -> Prepared:
        prepared = prepare(wanted, self._page_size)
        if self._planner is None:
            return prepared
        plans = self._planner.plan_attention(prepared.spans, self._pool)
        return Prepared(wanted, prepared.positions, prepared.slots, prepared.logits_rows, plans)

    def _launch(self, prepared: Prepared, token_ids: list[int]) -> torch.Tensor:
        if self._graphs is not None and (logits := self._graphs.run(prepared, token_ids)) is not None:
            return logits
        plans = prepared.plans or {}
        arrays = [array for plan in plans.values() for array in plan.arrays]
        batch, sent = _send(prepared, token_ids, self._page_size, self._device, arrays)
        if self._planner is None or prepared.plans is None:
            return self._model.forward(batch, self._pool)
        each = len(arrays) // len(plans)
        received = {
            reach: plan.received(sent[each * number : each * (number + 1)])
            for number, (reach, plan) in enumerate(plans.items())
        }
        return self._planner.forward(batch, self._pool, received)


def prepare(wanted: tuple[Wanted, ...], page_size: int) -> Prepared:
    """The spans one after the other in a packed row, without padding."""
    positions, slots, logits_rows = [], [], []
    for span, num_logits in wanted:
        place = np.arange(span.context_len, span.end_len)
        positions.append(place)
        slots.append(np.asarray(span.pages, dtype=np.int64)[place // page_size] * page_size + place % page_size)
        stop = span.query_start + span.query_len
        logits_rows.append(np.arange(stop - num_logits, stop))
    packed = [np.concatenate(parts).astype(np.int64) for parts in (positions, slots, logits_rows)]
    return Prepared(wanted, packed[0], packed[1], packed[2])


def build_batch(chunks: list[Chunk], page_size: int, device: str) -> Batch:
    """The chunks of a step on the device."""
    batch, _ = _send(prepare(_wanted(chunks, page_size), page_size), _tokens(chunks), page_size, device)
    return batch


def _send(
    prepared: Prepared, token_ids: list[int], page_size: int, device: str, others: Sequence[np.ndarray] = ()
) -> tuple[Batch, list[torch.Tensor]]:
    """A batch and ``others``, by one transfer."""
    own = [np.asarray(token_ids, np.int64), prepared.positions, prepared.slots, prepared.logits_rows]
    ids, positions, slots, rows, *rest = transfer.send([*own, *others], device)
    return Batch(ids, positions, slots, rows, prepared.spans, page_size), rest


def _wanted(chunks: Sequence[Chunk], page_size: int) -> tuple[Wanted, ...]:
    found, start = [], 0
    for chunk in chunks:
        length = chunk.end - chunk.start
        pages = tuple(chunk.sequence.pages[: -(-chunk.end // page_size)])
        span = Span(start, length, chunk.start, pages, chunk.sequence.is_long)
        found.append(Wanted(span, max(0, chunk.end - chunk.logits_start)))
        start += length
    return tuple(found)


def _rows(chunk: Chunk) -> list[Row]:
    """In the order of positions, as are a chunk's tokens."""
    known = [Row(chunk.sequence, position) for position in range(chunk.logits_start, chunk.stop)]
    return known + [Row(chunk.sequence, chunk.stop + place, token) for place, token in enumerate(chunk.draft)]


def _tokens(chunks: Sequence[Chunk]) -> list[int]:
    return [token for chunk in chunks for token in chunk.tokens]
