"""What a new grading changed, as it is told."""

import pytest

from evalcard.compare.changes import changes_of
from evalcard.results.records import ItemScore, Outcome, Verdict


def verdict(item: int, outcome: Outcome, judge: str, target: str = "4") -> Verdict:
    score = ItemScore(metric="exact_match", filter=judge, value=float(outcome == "correct"))
    return Verdict(item_id=item, repeat=0, extracted="4", target=target, outcome=outcome, scores=[score])


def test_another_judge_that_says_the_same_changed_nothing_worth_a_count():
    before = [verdict(i, "correct" if i < 3 else "wrong", "strict") for i in range(5)]
    now = [verdict(i, "correct" if i < 3 else "wrong", "number") for i in range(5)]
    changes = changes_of("sums", "toy", before, now)
    assert (changes.num_changed, changes.rejudged, changes.num_differing, changes.num_moved) == (5, 5, 0, 0)
    assert changes.line() == "sums, toy: same outcomes under another judge"
    assert changes.summary()["rejudged"] == 5


def test_what_moved_is_counted_without_what_only_changed_its_judge():
    before = [verdict(i, "no_answer" if i < 2 else "correct", "strict") for i in range(5)]
    now = [verdict(i, "correct", "number") for i in range(5)]
    changes = changes_of("sums", "toy", before, now)
    assert (changes.num_changed, changes.num_differing, changes.num_moved) == (5, 2, 2)
    assert changes.line() == "sums, toy: 2 of 5 outcomes changed (no answer -> correct 2)"


@pytest.mark.parametrize("judge", ["strict", "number"])
def test_another_right_answer_is_more_than_another_judge(judge: str):
    changes = changes_of("sums", "toy", [verdict(0, "wrong", "strict")], [verdict(0, "wrong", judge, target="5")])
    assert changes.rejudged == 0 and "verdicts changed within their outcome: 1" in changes.line()
