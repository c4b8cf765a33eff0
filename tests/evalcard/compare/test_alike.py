"""What is refused, and that each refusal names the difference."""

from dataclasses import replace
from typing import Any

import pytest

from evalcard.compare.joined import compare_stored
from evalcard.errors import ComparisonRefused


def with_task(model: Any, **changes: Any) -> Any:
    return replace(model, tasks={"a": model.tasks["a"].model_copy(update=changes)})


def with_sample(model: Any, item: int, **changes: Any) -> Any:
    samples = (one.model_copy(update=changes) if one.item_id == item else one for one in model.samples["a"])
    return replace(model, samples={"a": tuple(samples)})


@pytest.fixture
def pair(case: Any, stored: Any) -> Any:
    case.add("a", [1, 1, 0, 1, 1, 1], [1, 0, 0, 1, 1, 1])
    return stored()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": "2"}, "the task's version 1.0 against 2.0"),
        ({"metric": "acc_norm"}, r"metric acc \(none\) against acc_norm \(none\)"),
        ({"filter": "strict"}, r"metric acc \(none\) against acc \(strict\)"),
        ({"judge": "math"}, "judge the task's own grading against math"),
        ({"num_fewshot": 5}, "worked examples 0 against 5"),
        ({"repeats": 4}, "answers an item 1 against 4"),
        ({"decoding": "sampled, temperature 0.6, top-p 1, seed 1"}, "decoding greedy against sampled, temperature 0.6"),
        ({"chat_template": True}, "chat template none against applied"),
        ({"higher_is_better": False}, "higher is better against lower is better"),
    ],
)
def test_other_settings(pair: Any, change: dict[str, Any], says: str):
    with pytest.raises(ComparisonRefused, match=f"not evaluated alike: a: .*{says}"):
        compare_stored(pair[0], with_task(pair[1], **change))
    with pytest.raises(ComparisonRefused, match="not evaluated alike"):
        compare_stored(pair[0], with_task(pair[1], **change), common_items=True)


def test_all_differences_are_named_at_once(pair: Any):
    other = with_task(pair[1], num_fewshot=5, chat_template=True)
    with pytest.raises(ComparisonRefused, match="worked examples 0 against 5; chat template none against applied"):
        compare_stored(pair[0], other)


def test_the_same_version_in_another_spelling_is_the_same(pair: Any):
    _, found = compare_stored(pair[0], with_task(pair[1], version="1.0"))
    assert found.tasks[0].n == 6


def test_stop_strings_differ_where_both_are_known(pair: Any):
    ours, theirs = (with_task(model, stop_strings=stops) for model, stops in zip(pair, (["."], ["\n"]), strict=True))
    with pytest.raises(ComparisonRefused, match=r"stop strings '\.' against '\\n'"):
        compare_stored(ours, theirs)
    compare_stored(ours, with_task(theirs, stop_strings=[]))
    compare_stored(replace(ours, prompts="text"), theirs)


def test_another_rule_of_a_group(pair: Any):
    rows = (pair[1].rows[0].model_copy(update={"rule": "mean"}),)
    with pytest.raises(ComparisonRefused, match="the row a weighs its tasks by another rule.*task against mean"):
        compare_stored(pair[0], replace(pair[1], rows=rows))


def test_other_items_under_the_same_id(pair: Any):
    other = with_sample(with_sample(pair[1], 2, item_hash="elsewhere"), 4, item_hash="elsewhere")
    for common in (False, True):
        with pytest.raises(ComparisonRefused, match=r"task a: 2 of 6 items \(2, 4\) were asked about other documents"):
            compare_stored(pair[0], other, common)


def test_other_prompts_of_the_same_kind(pair: Any):
    other = with_sample(pair[1], 3, prompt_hash="elsewhere")
    for kind in ("ids", "text"):
        with pytest.raises(ComparisonRefused, match=r"task a: 1 of 6 items \(3\) had other prompts in run of base"):
            compare_stored(replace(pair[0], prompts=kind), replace(other, prompts=kind))
    compare_stored(pair[0], replace(other, prompts="text"))


def test_another_token_limit_shows_in_the_answers(pair: Any):
    cut = with_sample(pair[0], 1, finish="length", output_tokens=256)
    longer = with_sample(pair[1], 1, output_tokens=700)
    for models in ((cut, longer), (longer, cut)):
        with pytest.raises(ComparisonRefused, match="item 1: .*at its limit after 256 tokens.*goes on to 700"):
            compare_stored(*models)
    compare_stored(cut, with_sample(pair[1], 1, output_tokens=257))
    compare_stored(cut, with_sample(pair[1], 2, output_tokens=700))
    unknown = with_sample(pair[0], 1, finish="length", output_tokens=0)
    compare_stored(unknown, longer)
