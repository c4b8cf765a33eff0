"""A step's chunks become one packed batch."""

import pytest
import torch

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
