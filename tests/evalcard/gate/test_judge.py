"""The gate's verdict on models and runs: what decides, what forbids a pass, what is kept."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from evalcard.errors import ComparisonRefused, UserError
from evalcard.gate.judge import judge, judge_run, keep_verdict, with_verdict
from evalcard.gate.spec import Bounds, GateSpec
from evalcard.gate.verdict import EXIT_CODES, GateVerdict
from evalcard.results.compared import Comparison, FidelityRecord
from evalcard.results.store import RunFolder


def at(limit: float, decide: str = "point", **tasks: float) -> GateSpec:
    rows = {name: Bounds(min_recovery=own) for name, own in tasks.items()}
    return GateSpec(every=Bounds(min_recovery=limit), tasks=rows, decide=decide)  # type: ignore[arg-type]


def outcome(judged: GateVerdict) -> tuple[str, int]:
    return judged.outcome, judged.exit_code


def test_rounded_figures_are_never_compared(row: Any, comparison: Any):
    """Case 116: 93.51 % is below 94 %, though two decimals of the ratio would be 0.94."""
    judged = judge(comparison(row("gsm8k", Fraction("0.7810"), small=Fraction("0.7303"))), at(94))
    assert outcome(judged) == ("FAIL", 1)
    assert judged.reasons == ["gsm8k, small: recovery 93.51 % is below 94 %."]
    passed = judge(comparison(row("gsm8k", Fraction("0.7810"), small=Fraction("0.7360"))), at(94))
    assert passed.reasons == ["gsm8k, small: recovery 94.24 % is at or above 94 %."] and passed.exit_code == 0


def test_equal_to_the_limit_passes(row: Any, comparison: Any):
    """Case 112: 460 of 500 against a limit of 92, as a recovery, as a score and as a loss of 8 points."""
    compared = comparison(row("gsm8k", Fraction(1), small=Fraction(460, 500)))
    judged = judge(compared, GateSpec(every=Bounds(min_recovery=92, max_drop=8, min_score=92), decide="point"))
    assert outcome(judged) == ("PASS", 0)
    assert [(one.kind, one.value, one.limit, one.outcome) for one in judged.models[0].limits] == [
        ("min_recovery", 92.0, 92, "PASS"),
        ("max_drop", 8.0, 8, "PASS"),
        ("min_score", 92.0, 92, "PASS"),
    ]


def test_a_figure_just_below_its_limit_is_printed_below_it(row: Any, comparison: Any):
    judged = judge(comparison(row("t", Fraction(1), small=Fraction(98_999_99, 10_000_000))), at(99))
    assert outcome(judged) == ("FAIL", 1)
    assert "recovery 98.99999 % is below 99 %" in judged.reasons[0]


def test_each_task_may_have_its_own_limit(row: Any, comparison: Any):
    compared = comparison(
        row("gsm8k", Fraction(1), small=Fraction(98, 100)), row("mmlu", Fraction(1), small=Fraction(1))
    )
    assert judge(compared, at(99)).outcome == "FAIL"
    assert judge(compared, at(99, gsm8k=98)).outcome == "PASS"
    assert judge(compared, at(0, mmlu=101)).outcome == "FAIL"


def test_a_missing_recovery_cannot_be_judged(row: Any, comparison: Any):
    compared = comparison(row("t", Fraction(1, 2), small=None), row("u", Fraction(1), small=Fraction(1)))
    for decide in ("point", "interval"):
        judged = judge(compared, at(99, decide))
        assert outcome(judged) == ("CANNOT_JUDGE", 4)
        assert "t, small: no recovery: the baseline scores 0." in judged.reasons
    assert judge(compared, GateSpec(tasks={"u": Bounds(50)}, every=Bounds(), decide="point")).outcome == "PASS"


def test_a_missing_score_cannot_be_judged(row: Any, comparison: Any):
    judged = judge(comparison(row("t", Fraction(1), small=Fraction(1)), row("u", Fraction(1))), at(99))
    assert outcome(judged) == ("CANNOT_JUDGE", 4)
    assert "u, small: no score." in judged.reasons


def test_a_row_that_nobody_answered_cannot_be_judged(row: Any, comparison: Any, record: Any):
    """It is in the run, so a limit on it is no mistake; but it is not a pass either, nor is that of its average."""
    run = record({"t": {}, "u": {}}, ["base", "small"])
    compared = comparison(row("t", Fraction(1), small=Fraction(1)))
    judged = judge(compared, at(99), run)
    assert outcome(judged) == ("CANNOT_JUDGE", 4) and "u, small: no score." in judged.reasons
    assert judge(compared, GateSpec(tasks={"u": Bounds(50)}, every=Bounds(), decide="point"), run).exit_code == 4


@pytest.mark.parametrize("good", [True, False])
def test_a_blocker_cannot_be_judged_whatever_the_scores(good: bool, row: Any, comparison: Any, finding: Any):
    score = Fraction(1) if good else Fraction(0)
    judged = judge(comparison(row("t", Fraction(1), small=score), health=[finding("blocker")]), at(99))
    assert outcome(judged) == ("CANNOT_JUDGE", 4)
    assert "here: Something is odd." in judged.reasons


@pytest.mark.parametrize(("score", "expected"), [(1, "INCONCLUSIVE"), (0, "FAIL")])
def test_a_warning_forbids_a_pass_but_hides_no_failure(
    score: int, expected: str, row: Any, comparison: Any, finding: Any
):
    judged = judge(comparison(row("t", Fraction(1), small=Fraction(score)), health=[finding("warning")]), at(99))
    assert outcome(judged) == (expected, EXIT_CODES[expected])
    assert judged.models[0].limits[0].outcome == ("PASS" if score else "FAIL")


def test_a_note_changes_nothing(row: Any, comparison: Any, finding: Any):
    assert judge(comparison(row("t", Fraction(1), m=Fraction(1)), health=[finding("note")]), at(99)).outcome == "PASS"


def test_findings_on_one_model_leave_the_others_alone(row: Any, comparison: Any, finding: Any):
    rows = row("t", Fraction(1), a=Fraction(1), b=Fraction(1))
    judged = judge(comparison(rows, health=[finding("warning", "b")]), at(99))
    assert [model.outcome for model in judged.models] == ["PASS", "INCONCLUSIVE"]
    assert outcome(judged) == ("INCONCLUSIVE", 3)


@pytest.mark.parametrize(("severity", "expected"), [("blocker", "CANNOT_JUDGE"), ("warning", "INCONCLUSIVE")])
def test_a_finding_on_one_row_counts_where_a_limit_touches_it(
    severity: str, expected: str, row: Any, comparison: Any, finding: Any
):
    t, u = (row(name, Fraction(1), "maths", m=Fraction(1)) for name in ("t", "u"))
    other = row("v", Fraction(1), "words", m=Fraction(1))
    average, overall = (row(name, Fraction(1), "maths", m=Fraction(1)) for name in ("maths", "overall"))
    compared = comparison(t, u, other, averages=[average], overall=overall, health=[finding(severity, row="t")])

    def asked(**limits: Any) -> str:
        return judge(compared, GateSpec(**({"every": Bounds(), "decide": "point"} | limits))).outcome

    assert asked(tasks={"u": Bounds(99), "v": Bounds(99)}) == "PASS"
    assert asked(averages={"words": Bounds(99)}) == "PASS"
    assert asked(tasks={"t": Bounds(99)}) == expected
    assert asked(every=Bounds(99)) == expected
    assert asked(averages={"maths": Bounds(99)}) == expected
    assert asked(overall=Bounds(99)) == expected


def test_the_worst_model_decides(row: Any, comparison: Any):
    assert judge(comparison(row("t", Fraction(1), a=Fraction(1), b=Fraction(1, 2))), at(99)).outcome == "FAIL"


def test_nothing_to_judge(row: Any, comparison: Any, finding: Any):
    assert outcome(judge(comparison(), at(99))) == ("CANNOT_JUDGE", 4)
    assert outcome(judge(comparison(row("t", Fraction(1))), at(99))) == ("CANNOT_JUDGE", 4)
    only_blocked = judge(comparison(health=[finding("blocker", "small")]), at(99))
    assert [model.model for model in only_blocked.models] == ["small"] and only_blocked.exit_code == 4


def test_truncated_answers_leave_it_open(compare: Any):
    """Case 7: 40 of 100 answers end at the token limit, so scores that are alike prove nothing."""
    scores = [1] * 60 + [0] * 40
    run, compared = compare({"gsm8k": (scores, scores)}, cut=40)
    judged = judge(compared, at(90, "interval"), run)
    assert outcome(judged) == ("INCONCLUSIVE", 3)
    assert [limit.outcome for limit in judged.models[0].limits] == ["PASS"]
    assert any("40.0 % (40 of 100)" in reason and "token limit" in reason for reason in judged.reasons)
    assert judge(compare({"gsm8k": (scores, scores)})[1], at(90, "interval"), run).outcome == "PASS"


@pytest.mark.parametrize(
    ("right", "chance", "why"),
    [(228, 0.25, "not shown to be above chance (22.80 % on 1000 items, chance 25.00 %)"), (0, 0.0, "scores 0"),
     (4, 0.0, "only 4 of 1000 items right")],
)  # fmt: skip
def test_a_broken_baseline_is_an_error(right: int, chance: float, why: str, compare: Any, counts: Any):
    """Cases 125 and 4: at chance, or near 0, it is no denominator; nor does a least score help the gate over it."""
    run, compared = compare({"mmlu": counts(1000, right, 0, 2)}, {"mmlu": {"chance": chance}})
    for spec in (at(99), at(0, "interval"), GateSpec(every=Bounds(min_score=10)), GateSpec(every=Bounds(max_drop=9))):
        judged = judge(compared, spec, run)
        assert outcome(judged) == ("CANNOT_JUDGE", 4), spec
        assert any(why in reason for reason in judged.reasons), judged.reasons


def test_judging_twice_says_the_same_and_changes_nothing(compare: Any, counts: Any):
    run, compared = compare({"t": counts(100, 90, 3, 2), "u": counts(40, 20, 3, 2)})
    before = compared.model_dump_json()
    spec = GateSpec(every=Bounds(97, 3, 50), overall=Bounds(97))
    assert judge(compared, spec, run) == judge(compared, spec, run)
    assert compared.model_dump_json() == before


def test_the_verdict_goes_through_json(compare: Any, counts: Any, row: Any, comparison: Any):
    run, compared = compare({"t": counts(100, 90, 3, 2), "u": ([0] * 9, [1] * 9)})
    undefined = comparison(row("t", Fraction(3), a=Fraction(2)), row("u", Fraction(1), a=None))
    for judged in (judge(compared, at(97, "interval"), run), judge(undefined, at(99, t=50))):
        stored = json.loads(json.dumps(with_verdict(compared, judged).verdict))
        assert GateVerdict.model_validate(stored) == judged


def test_a_stored_run_is_judged_and_keeps_the_last_word(tmp_path: Path, compare: Any, counts: Any):
    run, compared = compare({"t": counts(1000, 1000, 30, 0)})
    with RunFolder.open(tmp_path, "made-up") as folder:
        folder.write_run(run)
        folder.write_comparison(compared)
        for limit, expected in ((99, "FAIL"), (95, "PASS"), (96.5, "INCONCLUSIVE")):
            judged = judge_run(tmp_path, "latest", at(limit, "interval"))
            assert judged.outcome == expected
            stored = folder.read_comparison()
            assert GateVerdict.model_validate(stored.verdict) == judged
        assert "all 1000 are used" in judged.reasons[0]
        folder.write_run(run.model_copy(update={"finished": None}))
    with pytest.raises(ComparisonRefused, match="incomplete"):
        judge_run(tmp_path, "made-up", at(0))


def test_a_verdict_stands_as_long_as_what_it_judged(row: Any, comparison: Any):
    first: Comparison = comparison(row("arc", Fraction(3, 4), small=Fraction(74, 100)))
    judged = with_verdict(first, judge(first, at(95)))
    assert keep_verdict(judged, first) == judged and judged.verdict is not None
    other: Comparison = comparison(row("arc", Fraction(3, 4), small=Fraction(73, 100)))
    assert keep_verdict(judged, other) == other and other.verdict is None
    renamed = first.model_copy(update={"tasks": [first.tasks[0].model_copy(update={"metric": "number"})]})
    kept = keep_verdict(judged, renamed)
    assert kept == renamed.model_copy(update={"verdict": judged.verdict}), "another judge that says the same"
    told = FidelityRecord(row="arc", model="small", unit="choices", items=4, kl_mean=0.1)
    newer = first.model_copy(update={"fidelity": [told]})
    assert keep_verdict(judged, newer).verdict == judged.verdict, "an older evalcard told no fidelity"


def test_each_reason_is_given_once(row: Any, comparison: Any, finding: Any):
    """The rows of both models and the finding on their baseline all say the same."""
    fault = finding("blocker", finding="No recovery: the baseline scores 0.", where="t", row="t")
    compared = comparison(row("t", Fraction(1, 2), a=None, b=None), health=[fault, finding("blocker")])
    judged = judge(compared, at(99))
    assert judged.reasons == ["t, a, b: no recovery: the baseline scores 0. Look.", "here: Something is odd."]
    assert [model.reasons for model in judged.models] == [["here: Something is odd."]] * 2
    assert [model.limits[0].reason for model in judged.models] == ["no recovery: the baseline scores 0. Look"] * 2
    assert outcome(judged) == ("CANNOT_JUDGE", 4)


def test_what_cannot_be_judged_says_what_to_do(compare: Any, counts: Any):
    """A terminal, JUnit XML and annotations show the reason alone, without the findings that hold the advice."""
    _, compared = compare({"t": counts(100, 3, 0, 0)})
    (limit,) = judge(compared, at(99)).models[0].limits
    assert limit.outcome == "CANNOT_JUDGE"
    assert "only 3 of 100 items right" in limit.reason and "Use an easier task or more items" in limit.reason
    assert judge(compared, at(99)).models[0].reasons == [], "the finding itself is not told a second time"


def test_a_blocker_that_says_more_than_its_row_stays(row: Any, comparison: Any, finding: Any):
    fault = finding("blocker", finding="No recovery: the baseline scores 0.", where="u")
    judged = judge(comparison(row("t", Fraction(1, 2), a=None), health=[fault]), at(99))
    assert judged.reasons == ["t, a: no recovery: the baseline scores 0.", "u: No recovery: the baseline scores 0."]


def test_a_gate_without_a_limit_is_refused(row: Any, comparison: Any):
    with pytest.raises(UserError, match="no limit"):
        judge(comparison(row("t", Fraction(1), a=Fraction(1))), GateSpec(every=Bounds()))
