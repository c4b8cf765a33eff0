"""What an answer leaves in its journal line."""

from collections.abc import Callable

import pytest

from evalcard.backends.backend import ChoiceAnswer, ItemAnswer, ScoreRequest
from evalcard.results.records import Sample
from evalcard.samples import fed_tokens, fits, make_sample
from evalcard.tasks.prepare import prepare
from evalcard_engine.plan import input_len
from evalcard_engine.request import Generate, Score


def test_tokens_are_counted_as_the_engine_counts_them(toy_spec: Callable):
    ready = prepare(toy_spec("toy_shapes", "toy_sums"))
    asked = [request for items in ready.items.values() for item in items for request in item.requests]
    engines = [
        Score("1", one.context_ids, one.continuation_ids)
        if isinstance(one, ScoreRequest)
        else Generate("1", one.prompt_ids, 8)
        for one in asked
    ]
    assert len({type(one) for one in engines}) == 2
    assert ready.prompt_tokens == sum(map(input_len, engines))
    assert fed_tokens(ready.items["toy_sums"][0]) == len(ready.items["toy_sums"][0].requests[0].prompt_ids)


@pytest.mark.parametrize("fault", [None, "layer 0, lm_head: output not finite"])
def test_a_failed_answer_keeps_its_fault_and_is_asked_again(toy_spec: Callable, fault: str | None):
    items = prepare(toy_spec("toy_shapes", "toy_sums")).items
    choices = tuple(ChoiceAnswer(None if i == 2 else -1.0, 1, False, fault if i == 2 else None) for i in range(4))
    answers = [("toy_shapes", ItemAnswer("error", choices=choices, fault=fault)),
               ("toy_sums", ItemAnswer("error", text="", token_ids=(), fault=fault))]  # fmt: skip
    for task, answer in answers:
        sample = make_sample(items[task][0], "k", "1", answer)
        assert sample.fault == fault and not fits(sample, items[task][0])
        assert Sample.model_validate_json(sample.model_dump_json(by_alias=True)) == sample
