"""Decoding by CUDA graphs: a step of answers is padded to one of a few sizes, copied to fixed places and replayed.

A replay repeats kernels with the arguments they were captured with, so what changes from step to step lies in buffers:
ids, positions, slots and the tables of the attention's plan. Every table has *room*, a capacity that is part of what a
graph is captured for. Rows of padding are sequences of one token, which lies on a page that is nobody's; items of
padding have no tokens. Neither is seen by any row that was asked for.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import torch

from evalcard_engine import transfer
from evalcard_engine.attention.reach import Reach
from evalcard_engine.batch import Batch, Span
from evalcard_engine.graph_rooms import Room, pad_plan, room_for
from evalcard_engine.runner import PlanningModel, Pool, Prepared

if TYPE_CHECKING:  # Triton is not everywhere
    from evalcard_engine.attention.paged_plan import HostPlan

SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Sequences of a graph: a step takes the least that holds it."""

MOST_GRAPHS = 64
MOST_BYTES = 1 << 30
"""Of all graphs together; once they take more, no further one is captured."""
STATIC_BYTES = 16 << 20
"""Of a step's inputs; larger ones are launched kernel by kernel."""
USES_BEFORE = 1
"""Times that a step of one shape is launched kernel by kernel before its graph is captured: many come once only."""


class Capture(Protocol):
    """What records kernels; `cuda_capture.CudaCapture` is one."""

    num_bytes: int
    """Device memory that its graphs take."""

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        """Record what ``work`` launches, after a run to warm up; what comes back launches it all again. Raises
        RuntimeError where the device will not have it."""


class Key(NamedTuple):
    """What a graph is captured for."""

    size: int
    rooms: tuple[Room, ...]
    """By reach, in the order of the plans."""


class DecodeGraphs:
    """The graphs of one model and one pool."""

    def __init__(
        self, model: PlanningModel, pool: Pool, page_size: int, nobody: int, max_rows: int, device: str,
        backend: Capture,
    ) -> None:  # fmt: skip
        """nobody: a page of the pool that no sequence ever has; max_rows: sequences of the largest step."""
        self._model = model
        self._pool = pool
        self._page_size = page_size
        self._nobody = nobody
        self._device = device
        self._backend = backend
        self._most_rows = min(max_rows, SIZES[-1])
        self._static = torch.zeros(STATIC_BYTES, dtype=torch.uint8, device=device)
        size = next(size for size in SIZES if size >= self._most_rows)
        self._logits = torch.zeros(size, model.info.vocab_size, dtype=torch.float32, device=device)
        self._graphs: OrderedDict[Key, Callable[[], None]] = OrderedDict()
        self._uses: Counter[Key] = Counter()
        self.fault: str | None = None
        """Why nothing is captured any more."""
        self.steps = 0
        """Steps that were replayed."""

    @property
    def num_graphs(self) -> int:
        return len(self._graphs)

    @property
    def num_bytes(self) -> int:
        """Device memory of graphs and their buffers."""
        return self._backend.num_bytes + self._static.nbytes + self._logits.nbytes

    def run(self, prepared: Prepared, token_ids: Sequence[int]) -> torch.Tensor | None:
        """A step's logits, float32 [rows, vocab], good until the next call; None where the step is no graph's."""
        num_rows = len(prepared.spans)
        if not prepared.is_decode or prepared.plans is None or num_rows > self._most_rows:
            return None
        size = next(size for size in SIZES if size >= num_rows)
        plans = prepared.plans
        key = Key(size, tuple(room_for(plan, size, num_rows) for plan in plans.values()))
        self._uses[key] += 1
        if key not in self._graphs and not self._may_capture(key):
            return None
        arrays = self._arrays(prepared, token_ids, key)
        starts, num_bytes = transfer.offsets([array.nbytes for array in arrays])
        if num_bytes > STATIC_BYTES:
            return None
        host = transfer.host_bytes(num_bytes, self._device)
        transfer.fill(host, arrays, starts)
        self._static[:num_bytes].copy_(host, non_blocking=True)
        if key not in self._graphs and not self._capture(key, plans, arrays, starts):
            return None
        self._graphs.move_to_end(key)
        self._graphs[key]()
        self.steps += 1
        return self._logits[:num_rows]

    def _may_capture(self, key: Key) -> bool:
        return self.fault is None and self._uses[key] > USES_BEFORE and self._backend.num_bytes < MOST_BYTES

    def _arrays(self, prepared: Prepared, token_ids: Sequence[int], key: Key) -> list[np.ndarray]:
        """All inputs at the sizes of ``key`` but for the pages, which come last: only as many as there are."""
        num_rows, slot = len(prepared.spans), self._nobody * self._page_size
        fills = ((np.asarray(token_ids, np.int64), 0), (prepared.positions, 0), (prepared.slots, slot))
        arrays = [np.concatenate((part, np.full(key.size - num_rows, pad, np.int64))) for part, pad in fills]
        arrays.append(np.arange(key.size, dtype=np.int64))
        assert prepared.plans is not None
        for plan, room in zip(prepared.plans.values(), key.rooms, strict=True):
            arrays += pad_plan(plan, room, key.size, num_rows)
        pages = next(iter(prepared.plans.values())).pages
        return [*arrays, np.append(pages, np.int32(self._nobody))]

    def _capture(
        self, key: Key, plans: "Mapping[Reach, HostPlan]", arrays: list[np.ndarray], starts: list[int]
    ) -> bool:
        """Capture the graph of ``key``, whose first inputs are in their places; False where it cannot be had."""
        kinds = {np.dtype(np.int32): torch.int32, np.dtype(np.int64): torch.int64}
        views = [
            transfer.view(self._static, start, kinds[array.dtype], len(array))
            for array, start in zip(arrays, starts, strict=True)
        ]
        views[-1] = transfer.view(self._static, starts[-1], torch.int32, (STATIC_BYTES - starts[-1]) // 4)
        spans = tuple(Span(row, 1, 0, (self._nobody,)) for row in range(key.size))
        batch = Batch(views[0], views[1], views[2], views[3], spans, self._page_size)
        count = (len(views) - 5) // len(plans)
        parts = [views[4 + count * number : 4 + count * (number + 1)] for number in range(len(plans))]
        static = {
            reach: room.static_plan(plan.tiles, part, views[-1])
            for (reach, plan), room, part in zip(plans.items(), key.rooms, parts, strict=True)
        }
        out = self._logits[: key.size]

        def work() -> None:
            with torch.inference_mode():
                out.copy_(self._model.forward(batch, self._pool, static))

        try:
            self._graphs[key] = self._backend.capture(work)
        except RuntimeError as error:
            self.fault = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            return False
        if len(self._graphs) > MOST_GRAPHS:
            self._graphs.popitem(last=False)
        return True
