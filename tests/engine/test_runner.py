"""A step's chunks become one packed batch."""

import numpy as np
import pytest
import torch

from evalcard_engine import engine
from evalcard_engine.request import Generate
from evalcard_engine.runner import Runner, build_batch
from evalcard_engine.sequence import Sequence
from evalcard_engine.step import Chunk, Copy, Step


def test_chunks_are_packed_one_after_the_other():
    decoding = Sequence((1, 2, 3, 4), 4, 9, generated=[5], computed_len=4, pages=[7, 2])
    prefilling = Sequence(tuple(range(10, 22)), 9, 12, computed_len=3, pages=[5, 0, 9])
    batch = build_batch([Chunk(decoding, 4, 5, 4), Chunk(prefilling, 3, 11, 9)], page_size=4, device="cpu")
    assert batch.token_ids.tolist() == [5, *range(13, 21)]
    assert batch.positions.tolist() == [4, *range(3, 11)]
    assert batch.slots.tolist() == [8, 23, 0, 1, 2, 3, 36, 37, 38]
    assert batch.logits_rows.tolist() == [0, 7, 8]
    assert [(s.query_start, s.query_len, s.context_len) for s in batch.spans] == [(0, 1, 4), (1, 8, 3)]
    assert [s.pages for s in batch.spans] == [(7, 2), (5, 0, 9)]


def test_a_span_names_only_the_pages_it_reaches():
    sequence = Sequence(tuple(range(12)), 11, 12, pages=[5, 0, 9])
    (span,) = build_batch([Chunk(sequence, 0, 4, 11)], page_size=4, device="cpu").spans
    assert span.pages == (5,) and span.end_len == 4


def test_copies_come_before_the_forward_pass_and_rows_name_their_positions(fake_model, fake_law):
    model = fake_model()
    pool = model.make_pool(4, 4)
    pool.tokens[0] = torch.tensor([1, 2, 3, 9])
    sequence = Sequence((1, 2, 3, 4), 3, 4, computed_len=3, pages=[2])
    step = Step(0, 0, chunks=[Chunk(sequence, 3, 4, 3)], copies=[Copy(0, 2, 3)])
    rows, logits = Runner(model, pool, 4, "cpu").run(step)
    assert [(row.sequence, row.position) for row in rows] == [(sequence, 3)]
    assert torch.equal(logits[0], fake_law((1, 2, 3, 4)))


def test_a_model_that_returns_other_rows_than_asked_is_caught(fake_model):
    model = fake_model()
    model.forward = lambda batch, pool: torch.zeros(2, 29)
    sequence = Sequence((1, 2), 1, 2, pages=[0])
    with pytest.raises(AssertionError):
        Runner(model, model.make_pool(1, 4), 4, "cpu").run(Step(0, 0, chunks=[Chunk(sequence, 0, 2, 1)]))


class Planned:
    """A fake model that plans on the host, and a log of who did what."""

    is_replayable = True

    def __init__(self, model, log: list) -> None:
        self._model = model
        self.log = log

    def __getattr__(self, name: str):
        return getattr(self._model, name)

    def plan_attention(self, spans, pool):
        self.log.append(("plan", len(spans), spans[0].context_len))
        return {None: NoPlan()}

    def forward(self, batch, pool, plans=None):
        self.log.append(("launch", len(batch.spans), batch.spans[0].context_len))
        return self._model.forward(batch, pool)


class NoPlan:
    arrays = (np.zeros(3, np.int32),)

    def received(self, sent):
        assert [tensor.tolist() for tensor in sent] == [[0, 0, 0]]
        return self


def test_the_next_step_is_prepared_while_one_runs(open_fake, fake_model, monkeypatch):
    """A step's plan is made before the step before it is waited for, and used where all answers went on."""
    log: list = []
    collect = engine.Readout.collect

    def collected(self):
        if self._collect is not None:
            log.append(("collect",))
        collect(self)

    monkeypatch.setattr(engine.Readout, "collect", collected)
    requests = [Generate("a", (1, 2), 3), Generate("b", (3, 4), 5)]
    found = {answer.id: answer for answer in open_fake(Planned(fake_model(), log), page_size=16).run(requests)}
    assert found == {answer.id: answer for answer in open_fake(fake_model(), page_size=16).run(requests)}
    assert log[:10] == [
        ("plan", 2, 0), ("launch", 2, 0), ("plan", 2, 2), ("collect",),
        ("launch", 2, 2), ("plan", 2, 3), ("collect",),
        ("launch", 2, 3), ("plan", 1, 4), ("collect",),
    ]  # fmt: skip
    assert sum(entry[0] == "plan" for entry in log) == sum(entry[0] == "launch" for entry in log) == 5


def test_a_wrong_guess_is_dropped(open_fake, fake_model, fake_law):
    """An answer that meets its stop token leaves the step that was prepared with it."""
    log: list = []
    first = int(fake_law((1, 2)).argmax())
    requests = [Generate("a", (1, 2), 9, stop_ids=frozenset({first})), Generate("b", (3, 4), 3)]
    found = {answer.id: answer for answer in open_fake(Planned(fake_model(), log), page_size=16).run(requests)}
    assert found == {answer.id: answer for answer in open_fake(fake_model(), page_size=16).run(requests)}
    assert found["a"].token_ids == () and log[2:4] == [("plan", 2, 2), ("plan", 1, 2)]
