"""What the gate says beside its verdict: cases 107, 109, 113 and 115."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from evalcard.gate.judge import judge
from evalcard.gate.spec import Bounds, Calibration, GateSpec
from evalcard.results.compared import ComparedRow, Comparison

SET_FOR = Calibration("org/base", None, {"org/small": None}, "2026-01-05", {"t": 0.70})


def with_score(row: ComparedRow, score: float, stderr: float | None, **paired: Any) -> ComparedRow:
    (one,) = row.compressed
    record = one.paired.model_copy(update=paired) if one.paired else None
    return row.model_copy(
        update={"compressed": [one.model_copy(update={"score": score, "stderr": stderr, "paired": record})]}
    )


def scored(compare: Any, n: int, score: float, stderr: float) -> Comparison:
    """A row of ``n`` items right or wrong whose printed score is this one."""
    _, compared = compare({"t": ([1] * n, [1] * n)})
    return compared.model_copy(update={"tasks": [with_score(compared.tasks[0], score, stderr)]})


def spec_of(set_for: Calibration | None = None, decide: str = "point", **limits: float) -> GateSpec:
    return GateSpec(every=Bounds(**limits), set_for=set_for, decide=decide)  # type: ignore[arg-type]


def test_a_margin_within_luck_is_warned_of(compare: Any):
    """Case 107: 94.4 % on 200 items, a limit one point below it."""
    judged = judge(scored(compare, 200, 0.944, 0.0163), spec_of(min_score=93.4))
    assert judged.outcome == "PASS"
    assert judged.notes == [
        "t, small: the limit is 1 point from the score, 0.6 standard errors of 200 items, so luck alone can "
        "turn this gate; a margin of 3.2 points or 2031 items would tell a loss from luck."
    ]


def test_an_interval_says_itself_what_its_items_tell(compare: Any):
    """One number of items, not that of the interval beside that of the score's standard error."""
    judged = judge(scored(compare, 200, 0.944, 0.0163), spec_of(decide="interval", min_score=93.4))
    assert (judged.outcome, judged.notes) == ("INCONCLUSIVE", [])
    (limit,) = judged.models[0].limits
    assert f"about {limit.more_items} more items like these would show it at or above the limit" in limit.reason


def test_nobody_is_told_to_do_what_is_done(compare: Any):
    """1.97 standard errors: the margin is beyond the least one that is told from luck."""
    assert judge(scored(compare, 2031, 0.944, 0.0051), spec_of(min_score=93.395)).notes == []


def test_a_score_just_below_its_limit_fails_with_the_same_warning(compare: Any):
    judged = judge(scored(compare, 200, 0.944, 0.0163), spec_of(min_score=95.4))
    assert judged.outcome == "FAIL" and "1 point from the score, 0.6 standard errors" in judged.notes[0]
    on_it = judge(scored(compare, 200, 0.944, 0.0163), spec_of(min_score=94.4))
    assert on_it.outcome == "PASS" and "0 points from the score, 0.0 standard errors" in on_it.notes[0]
    assert "a margin of 3.2 points would tell" in on_it.notes[0]


def test_a_margin_beyond_luck_is_not(compare: Any):
    assert judge(scored(compare, 2031, 0.944, 0.0051), spec_of(min_score=93.3)).notes == []


def test_graded_scores_are_warned_of_by_their_standard_error(compare: Any):
    scores = [place / 100 for place in range(100)]
    _, compared = compare({"t": (scores, scores)})
    (note,) = judge(compared, spec_of(min_score=48.5)).notes
    assert "the limit is 1 point from the score, 0.3 standard errors of 100 items" in note
    assert "a margin of 5.7 points or 3234 items" in note


def test_a_limit_far_below_the_score_catches_little(compare: Any):
    """Case 109: 38 % where 58.4 ± 0.4 % is measured."""
    judged = judge(scored(compare, 14042, 0.584, 0.004), spec_of(min_score=38))
    assert judged.outcome == "PASS"
    assert judged.notes == [
        "t, small: the limit 38 % is 20.40 points below the measured 58.40 ± 0.40 %: it would miss a loss of 20 points."
    ]
    assert judge(scored(compare, 14042, 0.584, 0.004), spec_of(min_score=49)).notes == []


@pytest.mark.parametrize(
    ("limits", "note"),
    [({"min_recovery": 85}, "the limit 85 % would miss a loss of 15 % of the baseline's score"),
     ({"max_drop": 12.5}, "the limit would miss a loss of 12.5 points"),
     ({"min_recovery": 90}, None), ({"max_drop": 10}, None)],
)  # fmt: skip
def test_limits_that_let_much_go_are_noted(limits: Mapping[str, float], note: str | None, row: Any, comparison: Any):
    """Once, for all the rows and models that they are asked of."""
    rows = (row(name, Fraction(1), a=Fraction(1), b=Fraction(1)) for name in ("t", "u"))
    judged = judge(comparison(*rows), spec_of(**limits))
    assert judged.outcome == "PASS"
    assert judged.notes == ([f"t, u: {note}."] if note else [])


def test_a_baseline_that_moved_is_told(row: Any, comparison: Any, record: Any):
    """Case 115: the baseline fell from 70 to 63 % with an upgrade; a limit on the score fails, recovery does not."""
    compared = comparison(row("t", Fraction("0.63"), small=Fraction("0.62")))
    run = record({"t": {}}, ["base", "small"])
    assert judge(compared, spec_of(SET_FOR, min_score=69), run).outcome == "FAIL"
    judged = judge(compared, spec_of(SET_FOR, min_recovery=95), run)
    assert judged.outcome == "PASS" and "recovery 98.41 %" in judged.reasons[0]
    assert judged.notes == ["t: the baseline moved from 70.00 % to 63.00 % (-10.0 %) since the limits were set."]


@pytest.mark.parametrize(("now", "told"), [("0.714", True), ("0.686", True), ("0.7139", False), ("0.6861", False)])
def test_from_two_percent_on_it_has_moved(now: str, told: bool, row: Any, comparison: Any, record: Any):
    compared = comparison(row("t", Fraction(now), small=Fraction(now)))
    judged = judge(compared, spec_of(SET_FOR, min_recovery=95), record({"t": {}}, ["base", "small"]))
    assert bool(judged.notes) == told and judged.outcome == "PASS"


def test_limits_of_another_model_pass_nothing(row: Any, comparison: Any, record: Any):
    """Case 113: a limit was inherited through two swaps of the model."""
    run = record({"t": {}}, ["base", "small"])
    compared = comparison(row("t", Fraction("0.70"), small=Fraction("0.70")))
    assert judge(compared, spec_of(SET_FOR, min_recovery=95), run).outcome == "PASS"
    for other, named in (
        (replace(SET_FOR, baseline="org/old"), "for org/small against org/old, not for org/base"),
        (replace(SET_FOR, compressed={"org/older": None}), "for org/older against org/base, not for org/small"),
    ):
        judged = judge(compared, spec_of(other, min_recovery=95), run)
        assert (judged.outcome, judged.exit_code) == ("INCONCLUSIVE", 3)
        (reason,) = judged.models[0].reasons
        said = f"small: gate not calibrated for this model: its limits were set on 2026-01-05 {named}."
        advice = "keep them for it: evalcard gate RUN --gate-file FILE --write-gate FILE --reason WHY."
        assert reason.startswith(said) and reason.endswith(advice)
        assert reason in judged.reasons
        assert judge(compared, spec_of(other, min_recovery=101), run).outcome == "FAIL"


def test_the_scheme_is_part_of_the_models_name(row: Any, comparison: Any, record: Any):
    run = record({"t": {}}, ["base", "small"])
    models = [run.models[0], run.models[1].model_copy(update={"scheme": "w8a8"})]
    compared = comparison(row("t", Fraction("0.70"), small=Fraction("0.70")))
    judged = judge(compared, spec_of(SET_FOR, min_recovery=95), run.model_copy(update={"models": models}))
    assert judged.outcome == "INCONCLUSIVE" and "not for org/small:w8a8" in judged.reasons[1]
    theirs = replace(SET_FOR, compressed={"org/small:w8a8": None, "org/small:w4a16": None})
    assert judge(compared, spec_of(theirs, min_recovery=95), run.model_copy(update={"models": models})).exit_code == 0


def test_another_revision_is_told_only(row: Any, comparison: Any, record: Any):
    run = record({"t": {}}, ["base", "small"])
    models = [one.model_copy(update={"revision": "new"}) for one in run.models]
    set_for = replace(SET_FOR, baseline_revision="old", compressed={"org/small": "new"})
    compared = comparison(row("t", Fraction("0.70"), small=Fraction("0.70")))
    judged = judge(compared, spec_of(set_for, min_recovery=95), run.model_copy(update={"models": models}))
    assert judged.outcome == "PASS"
    assert judged.notes == ["org/base is at revision new; the limits were set on 2026-01-05 for old."]


def test_without_a_run_record_it_says_that_it_does_not_know(row: Any, comparison: Any):
    compared = comparison(row("t", Fraction("0.70"), small=Fraction("0.70")))
    judged = judge(compared, spec_of(SET_FOR, min_recovery=95))
    assert judged.outcome == "PASS" and "not known" in judged.notes[0]


def test_every_note_is_the_verdicts_and_a_models_own_is_its_too(row: Any, comparison: Any, record: Any):
    compared = comparison(row("t", Fraction("0.63"), a=Fraction("0.63"), b=Fraction("0.40")))
    run = record({"t": {}}, ["base", "a", "b"])
    models = [one.model_copy(update={"revision": "new"}) for one in run.models]
    set_for = replace(SET_FOR, compressed={"org/a": "old", "org/b": "new"})
    judged = judge(compared, spec_of(set_for, min_score=38), run.model_copy(update={"models": models}))
    moved, far, revised = judged.notes
    assert "the baseline moved" in moved and far.startswith("t, a: the limit 38 %") and "org/a is at" in revised
    assert [model.notes for model in judged.models] == [[far, revised], []]
    assert judged.notes_for("a") == judged.notes and judged.notes_for("b") == [moved]
