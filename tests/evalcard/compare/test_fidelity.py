"""How alike two models' answers are: pairing, what counts, what is left out, and where the records come from."""

import math
from typing import Any

import pytest

from evalcard.compare.fidelity import fidelity_of, pair_answers
from evalcard.compare.joined import compare_stored
from evalcard.results.compared import FidelityRecord
from evalcard.results.records import RowRecord, Sample, Verdict


def sample(item: int, *, repeat: int = 0, **facts: Any) -> Sample:
    return Sample.model_validate(
        {"schema": 1, "key": "k", "task": "t", "task_version": "1", "item_id": item, "item_hash": "h", "repeat": repeat,
         "prompt_hash": "p", "prompt_tokens": 1, "finish": "stop", "output_tokens": 0, **facts}
    )  # fmt: skip


def verdict(item: int, target: str = "a", *, repeat: int = 0, metric: str = "acc") -> Verdict:
    return Verdict.model_validate(
        {"item_id": item, "repeat": repeat, "extracted": "a", "target": target, "outcome": "correct",
         "scores": [{"metric": metric, "filter": "none", "value": 1.0}]}
    )  # fmt: skip


def scored(item: int, *shares: float | None, texts: str = "abcd", **facts: Any) -> Sample:
    """Choices with these probabilities, up to a common factor; None where the logits were not finite."""
    choices = [
        {"text": f" {text}", "logprob": None if one is None else math.log(one) - 7, "tokens": 1, "is_greedy": False}
        for text, one in zip(texts, shares, strict=False)
    ]
    return sample(item, choices=choices, **facts)


def said(item: int, text: str, *ids: int, **facts: Any) -> Sample:
    return sample(item, text=text, token_ids=list(ids) or None, **facts)


def fidelity(verdicts: list[Verdict], ours: list[Sample], theirs: list[Sample]) -> FidelityRecord | None:
    return fidelity_of("row", "small", [pair_answers(verdicts, ours, theirs)])


def test_scored_answers_by_hand():
    found = fidelity(
        [verdict(0, "a"), verdict(1, "b")],
        [scored(0, 0.5, 0.5), scored(1, 0.2, 0.8)], [scored(0, 0.25, 0.75), scored(1, 0.2, 0.8)],
    )  # fmt: skip
    kl = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    assert (found.unit, found.items, found.generated) == ("choices", 2, None)
    assert (found.kl_mean, found.kl_median, found.kl_max) == pytest.approx((kl / 2, kl / 2, kl))
    assert (found.kl_p90, found.kl_p99, found.kl_stderr) == pytest.approx((0.9 * kl, 0.99 * kl, kl / 2))
    assert found.top_agreement == 0.5, "of equal choices the first one is the top"
    assert (found.gold_items, found.gold_shift) == (2, pytest.approx(0.125))
    assert sum(found.kl_bins) == 2 and found.left_out == {}


def test_pairs_are_by_item_and_repeat_and_only_graded_ones_count():
    ours = [scored(0, 0.5, 0.5), scored(0, 0.9, 0.1, repeat=1), scored(2, 0.9, 0.1)]
    theirs = [scored(0, 0.9, 0.1, repeat=1), scored(0, 0.5, 0.5), scored(2, 0.1, 0.9)]
    found = fidelity([verdict(0), verdict(0, repeat=1)], ours, theirs)
    assert found.items == 2 and found.kl_max == pytest.approx(0, abs=1e-15) and found.top_agreement == 1


def test_what_cannot_be_compared_is_counted_by_reason():
    verdicts = [verdict(n) for n in range(5)]
    ours = [scored(0, 0.5, None), scored(1, 0.5, 0.5), scored(2, 0.5, 0.5), scored(3, 0.5, 0.5), scored(4, 0.6, 0.4)]
    theirs = [scored(0, 0.5, 0.5), scored(1, None, 0.5), scored(2, 0.5, 0.5, texts="ax"), scored(4, 0.6, 0.4)]
    found = fidelity(verdicts, ours, theirs)
    assert found.items == 1 and found.left_out == {"failed": 2, "other_choices": 1, "unpaired": 1}
    assert fidelity(verdicts[:1], ours[:1], theirs[:1]) is None


def test_log_probabilities_that_are_no_choices_have_no_distribution():
    one, windows = scored(0, 0.5), scored(1, 0.5, 0.25)
    parts = windows.choices
    rolling = windows.model_copy(update={"choices": [parts[0], parts[1].model_copy(update={"text": ""})]})
    assert fidelity([verdict(0), verdict(1)], [one, rolling], [one, rolling]) is None


def test_choices_asked_without_their_question_are_none():
    """acc_mutual_info: the second half has no context, so that it cannot be set against the first."""
    ours, theirs = scored(0, 0.5, 0.5, 0.9, 0.1, texts="abab"), scored(0, 0.5, 0.5, 0.1, 0.9, texts="abab")
    found = fidelity([verdict(0, metric="acc_mutual_info")], [ours], [theirs])
    assert found.items == 1 and found.kl_max == pytest.approx(0, abs=1e-15)
    assert fidelity([verdict(0)], [ours], [theirs]).kl_max > 0.1


@pytest.mark.parametrize("target", ["c", "a | b", ""])
def test_a_gold_that_is_no_single_choice_is_not_guessed(target):
    found = fidelity([verdict(0, target)], [scored(0, 0.5, 0.5)], [scored(0, 0.5, 0.5)])
    assert (found.gold_items, found.gold_shift) == (0, None)
    twice = scored(0, 0.5, 0.5, texts="aa")
    assert fidelity([verdict(0, "a")], [twice], [twice]).gold_items == 0


def test_generated_answers_by_hand():
    verdicts = [verdict(n) for n in range(5)]
    ours = [said(0, "x", 1, 2, 3, 4), said(1, "x y", 1, 2, 3, 4), said(2, "x", 1, 2), said(3, "y", 5), said(4, "z")]
    theirs = [said(0, "x", 1, 2, 3, 4), said(1, "x z", 1, 2, 9), said(2, "x!", 1, 2, 3), said(3, "z", 6), said(4, "z")]
    found = fidelity(verdicts, ours, theirs)
    assert found.unit is None and found.items == 0 and found.kl_mean is None and found.top_agreement is None
    told = found.generated
    assert (told.answers, told.identical, told.with_tokens) == (5, 0.4, 4)
    assert told.first_difference == 2, "after 2, 2 and 0 equal tokens"
    assert told.token_agreement == pytest.approx((1 + 2 / 4 + 2 / 3 + 0) / 4)


def test_equal_and_empty_answers():
    empty = sample(1, text="", token_ids=[])
    told = fidelity([verdict(0), verdict(1)], [said(0, "x", 1), empty], [said(0, "x", 1), empty]).generated
    assert (told.identical, told.first_difference, told.token_agreement) == (1, None, 1)
    unknown = fidelity([verdict(0)], [said(0, "x")], [said(0, "y")]).generated
    assert (unknown.identical, unknown.with_tokens, unknown.token_agreement) == (0, 0, None)


def test_failed_answers_are_left_out():
    failed = sample(0, text=None, finish="error")
    found = fidelity([verdict(0), verdict(1)], [failed, said(1, "x", 1)], [said(0, "x", 1), said(1, "x", 1)])
    assert found.left_out == {"failed": 1} and found.generated.answers == 1


def test_a_row_pools_its_tasks_and_every_pair_weighs_the_same():
    one = pair_answers([verdict(0)], [scored(0, 0.5, 0.5)], [scored(0, 0.25, 0.75)])
    two = pair_answers([verdict(n) for n in range(3)], [scored(n, 0.5, 0.5) for n in range(3)],
                       [scored(n, 0.5, 0.5) for n in range(3)])  # fmt: skip
    both = fidelity_of("group", "small", [one, two])
    assert both.items == 4 and both.kl_mean == pytest.approx(both.kl_max / 4)
    assert fidelity_of("group", "small", []) is None


def made(case: Any, slugs: int = 3) -> Any:
    case.slugs = ["base", "small", "tiny"][:slugs]
    case.add("t", *([[1, 0, 1]] * slugs)).add("u", *([[1, 1]] * slugs))
    for n, slug in enumerate(case.slugs):
        given = case.samples[slug]["t"]
        case.samples[slug]["t"] = [
            one.model_copy(update={"text": None, "choices": scored(0, 0.5, 0.5 + n).choices}) for one in given
        ]
    return case


def test_a_comparison_tells_every_model_and_row(case):
    found = made(case).compare().fidelity
    assert [(one.model, one.row, one.unit, one.items) for one in found] == [
        ("small", "t", "choices", 3), ("small", "u", None, 0), ("tiny", "t", "choices", 3), ("tiny", "u", None, 0),
    ]  # fmt: skip
    assert 0 < found[0].kl_mean < found[2].kl_mean and found[1].generated.identical == 1


def test_a_group_is_one_row(case):
    made(case, 2).rows = [RowRecord(name="both", tasks=["t", "u"], rule="size")]
    (found,) = case.compare().fidelity
    assert (found.row, found.items, found.generated.answers) == ("both", 3, 2)


def test_a_model_without_answers_has_none(case):
    made(case)
    del case.samples["tiny"], case.verdicts["tiny"]
    assert {one.model for one in case.compare().fidelity} == {"small"}


def test_stored_results_are_compared_likewise(case, stored):
    made(case, 2)
    ours, theirs = stored()
    run, comparison = compare_stored(ours, theirs)
    assert comparison.fidelity == case.compare().fidelity and run.models[1].slug == "small"


def test_of_common_items_only_these_count(case, stored):
    made(case, 2)
    ours, theirs = stored()
    theirs.verdicts["t"] = theirs.verdicts["t"][:2]
    theirs.samples["t"] = theirs.samples["t"][:2]
    _, comparison = compare_stored(ours, theirs, common_items=True)
    assert comparison.fidelity[0].items == 2 and comparison.fidelity[0].left_out == {}
