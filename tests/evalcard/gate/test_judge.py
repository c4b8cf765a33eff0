"""The gate: limits, exit codes and what is never passed."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcard.errors import ComparisonRefused, UserError
from evalcard.gate.judge import EXIT_CODES, GateSpec, GateVerdict, judge, judge_run, keep_verdict, with_verdict
from evalcard.results.compared import ComparedRow, Comparison, CompressedScore, Finding, RecoveryRecord, ScoreRecord
from evalcard.results.records import RunRecord
from evalcard.results.store import RunFolder


def row(task: str, baseline: Fraction, **compressed: Fraction | None) -> ComparedRow:
    """A row as compare makes it: recovery exact, then rounded once; None stands for an undefined one."""
    scores = [
        CompressedScore(
            model=slug, scheme=None, score=float(score or 0), stderr=None, lost=None, gained=None, mcnemar_p=None,
            recovery=None if score is None else RecoveryRecord(value=float(100 * score / baseline)),
            reason="the baseline scores 0" if score is None else None,
        )
        for slug, score in compressed.items()
    ]  # fmt: skip
    return ComparedRow(task=task, metric="acc", n=500, baseline=ScoreRecord(score=float(baseline), stderr=None),
                       compressed=scores, chance=0.0, category="general", tasks=[task])  # fmt: skip


def comparison(*rows: ComparedRow, health: tuple[Finding, ...] = ()) -> Comparison:
    return Comparison(schema=1, run="r", tasks=list(rows), averages=[], health=list(health), verdict=None)


def finding(severity: str, model: str | None = None) -> Finding:
    facts = {"finding": "Something is odd.", "severity": severity, "where": "here", "advice": "Look.", "model": model}
    return Finding.model_validate(facts)


def outcome(judged: GateVerdict) -> tuple[str, int]:
    return judged.outcome, judged.exit_code


def test_equal_to_the_limit_passes():
    """460 of 500 against a perfect baseline and a limit of 92 %."""
    judged = judge(comparison(row("gsm8k", Fraction(1), small=Fraction(460, 500))), GateSpec(min_recovery=92))
    assert outcome(judged) == ("PASS", 0)
    (only,) = judged.models[0].rows
    assert (only.recovery, only.limit, only.outcome) == (92.0, 92, "PASS")


def test_rounded_figures_are_never_compared():
    """93.51 % is below 94 %, though two decimals of the ratio would be 0.94."""
    judged = judge(comparison(row("gsm8k", Fraction("0.7810"), small=Fraction("0.7303"))), GateSpec(min_recovery=94))
    assert outcome(judged) == ("FAIL", 1)
    assert "recovery 93.51 % is below 94 %" in judged.reasons[0]


def test_a_figure_just_below_its_limit_is_printed_below_it():
    judged = judge(comparison(row("t", Fraction(1), small=Fraction(98_999_99, 10_000_000))), GateSpec())
    assert outcome(judged) == ("FAIL", 1)
    assert "recovery 98.99999 % is below 99 %" in judged.reasons[0]


@settings(deadline=None)
@given(st.integers(1, 3000).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, 2 * n))), st.integers(0, 2000))
def test_floats_decide_as_the_fractions_would(counts: tuple[int, int], tenths: int):
    baseline, compressed = counts
    limit = tenths / 10
    judged = judge(
        comparison(row("t", Fraction(baseline, 6000), m=Fraction(compressed, 6000))), GateSpec(min_recovery=limit)
    )
    assert (judged.outcome == "PASS") == (Fraction(100 * compressed, baseline) >= Fraction(tenths, 10))


def test_each_task_may_have_its_own_limit():
    compared = comparison(
        row("gsm8k", Fraction(1), small=Fraction(98, 100)), row("mmlu", Fraction(1), small=Fraction(1))
    )
    assert judge(compared, GateSpec()).outcome == "FAIL"
    assert judge(compared, GateSpec(tasks={"gsm8k": 98})).outcome == "PASS"
    assert judge(compared, GateSpec(tasks={"mmlu": 101}, min_recovery=0)).outcome == "FAIL"


def test_a_limit_on_an_unknown_task_lists_the_tasks():
    with pytest.raises(UserError, match="gsmk8, but the run has no such task. Its tasks are: gsm8k, mmlu") as error:
        judge(comparison(row("gsm8k", Fraction(1)), row("mmlu", Fraction(1))), GateSpec(tasks={"gsmk8": 98}))
    assert error.value.exit_code == 2


@pytest.mark.parametrize("limit", [-0.1, 200.5, float("nan"), float("inf")])
def test_limits_outside_the_scale_are_refused(limit: float):
    with pytest.raises(UserError, match="from 0 to 200"):
        GateSpec(min_recovery=limit)
    with pytest.raises(UserError, match="limit gsm8k is"):
        GateSpec(tasks={"gsm8k": limit})


def test_limits_at_the_ends_are_allowed():
    assert GateSpec(min_recovery=0).limit_of("x") == 0 and GateSpec(min_recovery=200, tasks={"x": 1}).limit_of("x") == 1


def test_only_point_is_decided_by():
    with pytest.raises(UserError, match="point"):
        GateSpec(decide="interval")  # type: ignore[arg-type]


def test_a_missing_recovery_cannot_be_judged():
    judged = judge(
        comparison(row("t", Fraction(1, 2), small=None), row("u", Fraction(1), small=Fraction(1))), GateSpec()
    )
    assert outcome(judged) == ("CANNOT_JUDGE", 4)
    assert "t, small: no recovery: the baseline scores 0." in judged.reasons


def test_a_missing_score_cannot_be_judged():
    judged = judge(comparison(row("t", Fraction(1), small=Fraction(1)), row("u", Fraction(1))), GateSpec())
    assert outcome(judged) == ("CANNOT_JUDGE", 4)


@pytest.mark.parametrize("good", [True, False])
def test_a_blocker_cannot_be_judged_whatever_the_scores(good: bool):
    score = Fraction(1) if good else Fraction(0)
    judged = judge(comparison(row("t", Fraction(1), small=score), health=(finding("blocker"),)), GateSpec())
    assert outcome(judged) == ("CANNOT_JUDGE", 4)
    assert "here: Something is odd." in judged.reasons


@pytest.mark.parametrize(("score", "expected"), [(1, "INCONCLUSIVE"), (0, "FAIL")])
def test_a_warning_forbids_a_pass_but_hides_no_failure(score: int, expected: str):
    judged = judge(comparison(row("t", Fraction(1), small=Fraction(score)), health=(finding("warning"),)), GateSpec())
    assert outcome(judged) == (expected, EXIT_CODES[expected])


def test_a_note_changes_nothing():
    assert (
        judge(comparison(row("t", Fraction(1), m=Fraction(1)), health=(finding("note"),)), GateSpec()).outcome == "PASS"
    )


def test_findings_on_one_model_leave_the_others_alone():
    compared = comparison(row("t", Fraction(1), a=Fraction(1), b=Fraction(1)), health=(finding("warning", "b"),))
    judged = judge(compared, GateSpec())
    assert [model.outcome for model in judged.models] == ["PASS", "INCONCLUSIVE"]
    assert outcome(judged) == ("INCONCLUSIVE", 3)


def test_the_worst_model_decides():
    compared = comparison(row("t", Fraction(1), a=Fraction(1), b=Fraction(1, 2)))
    assert judge(compared, GateSpec()).outcome == "FAIL"


def test_nothing_to_judge():
    assert outcome(judge(comparison(), GateSpec())) == ("CANNOT_JUDGE", 4)
    assert outcome(judge(comparison(row("t", Fraction(1))), GateSpec())) == ("CANNOT_JUDGE", 4)
    only_blocked = judge(comparison(health=(finding("blocker", "small"),)), GateSpec())
    assert [model.model for model in only_blocked.models] == ["small"] and only_blocked.exit_code == 4


def test_judging_twice_says_the_same_and_changes_nothing():
    compared = comparison(row("t", Fraction(1), a=Fraction(1)))
    before = compared.model_dump_json()
    assert judge(compared, GateSpec()) == judge(compared, GateSpec())
    assert compared.model_dump_json() == before


def test_the_verdict_goes_through_json(tmp_path: Path):
    compared = comparison(row("t", Fraction(3), a=Fraction(2)), row("u", Fraction(1), a=None))
    judged = judge(compared, GateSpec(tasks={"t": 50}))
    stored = json.loads(json.dumps(with_verdict(compared, judged).verdict))
    assert GateVerdict.model_validate(stored) == judged


def test_a_stored_run_is_judged_and_keeps_the_last_word(tmp_path: Path):
    facts = {"schema": 1, "name": "run", "created": "2026-01-01", "finished": "2026-01-02", "asked": {}, "resolved": {},
             "models": [], "tasks": [], "rows": [], "progress": [], "versions": {}, "hardware": {}, "seed": 1,
             "command": [], "git": None}  # fmt: skip
    with RunFolder.open(tmp_path, "run") as folder:
        folder.write_run(RunRecord.model_validate(facts))
        folder.write_comparison(comparison(row("t", Fraction(1), a=Fraction(97, 100))))
        for limit, expected in ((99, "FAIL"), (97, "PASS")):
            assert judge_run(tmp_path, "latest", GateSpec(min_recovery=limit)).outcome == expected
            assert folder.read_comparison().verdict["outcome"] == expected
        folder.write_run(RunRecord.model_validate(facts | {"finished": None}))
    with pytest.raises(ComparisonRefused, match="incomplete"):
        judge_run(tmp_path, "run", GateSpec(min_recovery=0))


def test_a_verdict_stands_as_long_as_what_it_judged():
    first = comparison(row("arc", Fraction(3, 4), small=Fraction(74, 100)))
    judged = with_verdict(first, judge(first, GateSpec(min_recovery=95)))
    assert keep_verdict(judged, first) == judged and judged.verdict is not None
    other = comparison(row("arc", Fraction(3, 4), small=Fraction(73, 100)))
    assert keep_verdict(judged, other) == other and other.verdict is None


def test_each_reason_is_given_once():
    """The rows of both models and the finding on their baseline all say the same."""
    fault = Finding(finding="No recovery: the baseline scores 0.", severity="blocker", where="t", advice="Look.")
    judged = judge(comparison(row("t", Fraction(1, 2), a=None, b=None), health=(fault, finding("blocker"))), GateSpec())
    assert judged.reasons == ["t, a, b: no recovery: the baseline scores 0.", "here: Something is odd."]
    assert [model.reasons for model in judged.models] == [["here: Something is odd."]] * 2
    assert [model.rows[0].reason for model in judged.models] == ["no recovery: the baseline scores 0"] * 2
    assert outcome(judged) == ("CANNOT_JUDGE", 4)


def test_a_blocker_that_says_more_than_its_row_stays():
    fault = Finding(finding="No recovery: the baseline scores 0.", severity="blocker", where="u", advice="Look.")
    judged = judge(comparison(row("t", Fraction(1, 2), a=None), health=(fault,)), GateSpec())
    assert judged.reasons == ["t, a: no recovery: the baseline scores 0.", "u: No recovery: the baseline scores 0."]
