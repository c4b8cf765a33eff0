"""The last layer computes only the rows that are asked for, in every family, and no bit of them knows it."""

from dataclasses import replace

import torch

from evalcard_engine import last_layer
from evalcard_engine.batch import Batch, Span


def test_no_bit_knows_which_rows_were_left_out(family, packed, some_tokens, monkeypatch) -> None:
    tokens = some_tokens(330, 90, 17)
    asked = [[329], [60, 61, 89], []]
    model, found = family.open(), {}
    for least in (10**9, 1):
        monkeypatch.setattr(last_layer, "LEAST_DROPPED", least)
        run = packed(model, tokens, 256)
        run.step((0, 0, 300), (1, 0, 50), asked=[[], []])
        first = run.step((0, 300, 330), (2, 0, 17), (1, 50, 90), asked=[asked[0], asked[2], asked[1]])
        found[least] = [*first, *run.step((2, 16, 17)), *run.pool.keys, *run.pool.values]
    for whole, part in zip(*found.values(), strict=True):
        assert torch.equal(whole, part)


def test_what_is_left_out_is_not_computed(made, packed, some_tokens) -> None:
    counted: list[int] = []
    model = made("llama").open()
    mlp = model._module.model.layers[-1].mlp
    mlp.register_forward_pre_hook(lambda _, given: counted.append(given[0].shape[1]))
    run = packed(model, some_tokens(330, 90), 256)
    run.step((0, 0, 330), (1, 0, 90), asked=[[329], [80, 89]])
    run.step((0, 0, 330), asked=[[]])
    run.step((0, 300, 330), asked=[[329]])
    assert counted == [1 + 10, 30]


def batch_of(spans: list[Span], logits_rows: list[int]) -> Batch:
    count = sum(span.query_len for span in spans)
    places = torch.arange(count)
    return Batch(places + 5, places + 7, places + 9, torch.tensor(logits_rows, dtype=torch.int64), tuple(spans), 256)


SPANS = [Span(0, 4, 10, (0,)), Span(4, 3, 0, (1,), is_long=True), Span(7, 5, 2, (2,))]


def test_rows_from_the_first_one_asked_on() -> None:
    kept = last_layer.last_rows(batch_of(SPANS, [3, 8, 10]), least_dropped=1)
    assert kept is not None
    rows, batch = kept
    assert rows.tolist() == [3, 8, 9, 10, 11]
    assert batch.spans == (replace(SPANS[0], query_len=1, context_len=13), Span(1, 4, 3, (2,)))
    assert batch.logits_rows.tolist() == [0, 1, 3]
    assert (batch.token_ids - 5).tolist() == (batch.slots - 9).tolist() == rows.tolist()


def test_nothing_is_left_out_where_that_saves_too_little() -> None:
    assert last_layer.last_rows(batch_of(SPANS, [3, 8, 10]), least_dropped=8) is None
    assert last_layer.last_rows(batch_of(SPANS, list(range(12))), least_dropped=0) is None
    assert last_layer.last_rows(batch_of(SPANS, []), least_dropped=1) is not None
    small = batch_of([Span(0, last_layer.LEAST_DROPPED, 0, (0,))], [last_layer.LEAST_DROPPED - 1])
    assert last_layer.last_rows(small) is None
