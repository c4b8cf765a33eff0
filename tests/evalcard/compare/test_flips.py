"""The items behind the counts: direction, order, and that they are as many as are counted."""

import random
from dataclasses import replace
from typing import Any

from evalcard.compare.flips import flipped
from evalcard.results.records import ItemScore


def test_lost_come_first_and_each_in_document_order(case: Any, stored: Any):
    case.add("a", [1, 0, 1, 1, 0], [0, 1, 1, 0, 1])
    found = flipped(*stored(), "a")
    assert [(flip.direction, flip.item_id) for flip in found] == [
        ("lost", 0),
        ("lost", 3),
        ("gained", 1),
        ("gained", 4),
    ]
    assert all(flip.baseline.sample.key.startswith("base") for flip in found)
    assert all(flip.compressed.sample.key.startswith("small") for flip in found)


def test_there_are_as_many_as_the_comparison_counts(case: Any, stored: Any):
    draw = random.Random(5)
    scores = [[[draw.randrange(2) for _ in range(3)] for _ in range(40)] for _ in range(2)]
    case.add("a", *scores)
    found = flipped(*stored(), "a")
    (row,) = case.compare().tasks
    counts = [sum(flip.direction == way for flip in found) for way in ("lost", "gained")]
    assert counts == [row.compressed[0].lost, row.compressed[0].gained] and min(counts) > 0
    assert len({(flip.item_id, flip.repeat) for flip in found}) == len(found)


def test_where_lower_is_better_a_rise_is_a_loss(case: Any, stored: Any):
    case.add("a", [0, 1], [1, 0], higher_is_better=False)
    assert [(flip.direction, flip.item_id) for flip in flipped(*stored(), "a")] == [("lost", 0), ("gained", 1)]


def test_graded_scores_do_not_flip(case: Any, stored: Any):
    case.add("a", [1, 0.5], [0, 0.5])
    assert flipped(*stored(), "a") is None
    assert case.compare().tasks[0].compressed[0].lost is None


def test_an_answer_that_failed_is_lost_and_one_that_is_missing_is_none(case: Any, stored: Any):
    case.add("a", [1, 1, 1], [1, 1, 1])
    ours, theirs = stored()
    failed = theirs.verdicts["a"][0].model_copy(update={"outcome": "error", "scores": []})
    theirs = replace(theirs, verdicts={"a": (failed, theirs.verdicts["a"][1])})
    assert [(flip.item_id, flip.direction) for flip in flipped(ours, theirs, "a")] == [(0, "lost")]


def test_the_metric_is_the_baselines_first(case: Any, stored: Any):
    case.add("a", [1], [1])
    ours, theirs = stored()
    (verdict,) = theirs.verdicts["a"]
    other = ItemScore(metric="acc", filter="loose", value=0.0)
    theirs = replace(theirs, verdicts={"a": (verdict.model_copy(update={"scores": [other, *verdict.scores]}),)})
    assert flipped(ours, theirs, "a") == []


def test_a_stored_question_is_shown_whichever_side_has_it(case: Any, stored: Any):
    case.add("a", [1, 1], [0, 0])
    ours, theirs = stored()
    theirs = replace(theirs, questions={"a": {0: "What is it?"}})
    assert [flip.question for flip in flipped(ours, theirs, "a")] == ["What is it?", None]
    summary = flipped(ours, theirs, "a")[0].summary()
    assert summary["question"] == "What is it?" and summary["direction"] == "lost" and summary["gold"] == "x"
    assert summary["compressed"]["outcome"] == "wrong" and summary["baseline"]["text"] == "x"
