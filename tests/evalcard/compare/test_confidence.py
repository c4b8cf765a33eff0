"""Intervals at another confidence are those that a comparison at that confidence would have had."""

from typing import Any

import pytest

from evalcard.compare import averages, comparison, rows
from evalcard.compare.confidence import at_confidence
from evalcard.errors import UserError
from evalcard.results.records import SequentialRecord


def test_as_if_compared_at_that_confidence(case: Any, flips: Any, monkeypatch: pytest.MonkeyPatch):
    case.add("a", *flips(90, 60, 8, 3)).add("b", [[1, 0]] * 30, [[1, 1], [0, 0], [0, 1]] * 10)
    case.add("c", [0.5, 0.25] * 10, [0.5, 0.75] * 10, higher_is_better=False, category="texts")
    plain = case.compare()
    for module in (rows, averages, comparison):
        if hasattr(module, "CONFIDENCE"):
            monkeypatch.setattr(module, "CONFIDENCE", 0.8)
    narrow = case.compare()
    assert narrow.tasks[0].compressed[0].recovery != plain.tasks[0].compressed[0].recovery
    assert at_confidence(plain, 0.8).model_copy(update={"health": narrow.health}) == narrow


def test_less_confidence_is_a_narrower_interval(case: Any, flips: Any):
    case.add("a", *flips(90, 60, 8, 3))
    (one,) = case.compare().tasks[0].compressed
    (less,) = at_confidence(case.compare(), 0.6).tasks[0].compressed
    assert one.recovery.low < less.recovery.low < one.recovery.value < less.recovery.high < one.recovery.high
    assert one.difference.low < less.difference.low < one.difference.value < less.difference.high < one.difference.high


def test_what_has_no_interval_gets_none(case: Any):
    case.add("a", [0] * 9, [1] * 9)
    found = at_confidence(case.compare(), 0.8)
    assert found.confidence == 0.8 and found.tasks[0].compressed[0].recovery is None


def test_a_confidence_sequence_is_never_shown_as_of_another_confidence(case: Any, flips: Any, monkeypatch: Any):
    case.add("a", *flips(90, 60, 8, 3))
    early = SequentialRecord(row="a", limit=95, confidence=0.95, items=300, used=90, decision=None, low=80, high=99)
    run = case.run().model_copy(update={"sequential": [early]})
    monkeypatch.setattr(case, "run", lambda: run)
    found = case.compare()
    assert at_confidence(found, 0.95) == found
    with pytest.raises(UserError, match="a used 90 of 300 items.*a confidence of 0.95, got 0.99.*--sequential"):
        at_confidence(found, 0.99)
