"""A model small enough to check by hand, with which the engine is tested without waiting for a real one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from evalcard_engine.batch import Batch
from evalcard_engine.config import EngineConfig
from evalcard_engine.engine import Engine
from evalcard_engine.faults import FirstFault

VOCAB = 29


def history_logits(history: tuple[int, ...], vocab: int = VOCAB) -> torch.Tensor:
    """The fake model's law: float32 [vocab], a function of every token so far and of their order."""
    state = 7
    for token in history:
        state = (state * 1_000_003 + token + 1) % (1 << 31)
    return torch.randn(vocab, generator=torch.Generator().manual_seed(state)) * 3


class FakePool:
    """One number a slot: the token written there, -1 before."""

    def __init__(self, num_pages: int, page_size: int) -> None:
        self.tokens = torch.full((num_pages, page_size), -1, dtype=torch.int64)

    def copy_tokens(self, source_page: int, target_page: int, count: int) -> None:
        assert source_page != target_page
        self.tokens[target_page, :count] = self.tokens[source_page, :count]


class FakeModel:
    """Reads each row's history back through the pages it is given: a wrong page, slot or copy changes the answer."""

    numerics = "fake"

    def __init__(self, max_positions: int = 512) -> None:
        self.info = SimpleNamespace(
            vocab_size=VOCAB, max_positions=max_positions, short_positions=None, model_type="fake"
        )
        self.pools: list[FakePool] = []
        self.batches: list[Batch] = []
        self.on_forward: Callable[[Batch], None] = lambda batch: None
        self.fault: str | None = None
        """What watching a forward finds."""
        self.change: Callable[[tuple[int, ...], torch.Tensor], torch.Tensor] = lambda history, logits: logits

    def page_bytes(self, page_size: int) -> int:
        return 8 * page_size

    def make_pool(self, num_pages: int, page_size: int) -> FakePool:
        self.pools.append(FakePool(num_pages, page_size))
        return self.pools[-1]

    def forward(self, batch: Batch, pool: FakePool) -> torch.Tensor:
        self.batches.append(batch)
        self.on_forward(batch)
        pool.tokens.view(-1)[batch.slots] = batch.token_ids
        rows = [self._row(batch, pool, row) for row in batch.logits_rows.tolist()]
        return torch.stack(rows) if rows else torch.empty(0, VOCAB)

    @contextmanager
    def watched(self) -> Iterator[FirstFault]:
        yield FirstFault(self.fault)

    def _row(self, batch: Batch, pool: FakePool, row: int) -> torch.Tensor:
        span = next(s for s in batch.spans if s.query_start <= row < s.query_start + s.query_len)
        position = int(batch.positions[row])
        assert position == span.context_len + row - span.query_start
        history = tuple(pool.tokens[list(span.pages)].flatten()[: position + 1].tolist())
        assert -1 not in history, f"position {history.index(-1)} was never written"
        return self.change(history, history_logits(history))


@pytest.fixture
def fake_law() -> Callable[[tuple[int, ...]], torch.Tensor]:
    return history_logits


@pytest.fixture
def fake_model() -> Callable[..., FakeModel]:
    return FakeModel


@pytest.fixture
def open_fake() -> Callable[..., Engine]:
    """An engine on a fake model: ``open_fake(model=None, **config)``, with small pages and steps unless told."""

    def make(model: FakeModel | None = None, **config) -> Engine:
        defaults = {"page_size": 4, "step_tokens": 16, "max_sequences": 4, "kv_memory": 8 * 4 * 200}
        return Engine(model or FakeModel(), EngineConfig(device="cpu", **{**defaults, **config}))

    return make
