"""What the checks find, and how grave it is."""

import pytest

from evalcard.gate.judge import GateSpec, judge
from evalcard.results.records import RescoreRecord


@pytest.mark.parametrize(("cut", "severity"), [(1, "note"), (4, "note"), (5, "warning"), (40, "warning")])
def test_answers_cut_at_the_token_limit(case, flips, told, cut, severity):
    case.add("gsm8k", *flips(100, 50, 0, 0))
    samples = case.samples["small"]["gsm8k"]
    samples[-cut:] = [sample.model_copy(update={"finish": "length"}) for sample in samples[-cut:]]
    found = told(case.compare())
    assert (
        found[f"{severity}: gsm8k, small"]
        == f"{cut}.0 % ({cut} of 100) of answers hit the token limit, {cut} not right."
    )
    assert not any(where.endswith("base") for where in found)


def test_cut_answers_that_are_right_are_only_noted(case, flips, told):
    case.add("gsm8k", *flips(100, 50, 0, 0))
    samples = case.samples["base"]["gsm8k"]
    samples[:50] = [sample.model_copy(update={"finish": "length"}) for sample in samples[:50]]
    assert "0 not right" in told(case.compare())["note: gsm8k, base"]


@pytest.mark.parametrize(("unread", "severity"), [(4, None), (5, "note"), (19, "note"), (20, "warning")])
def test_replies_without_an_answer(case, flips, told, unread, severity):
    case.add("gsm8k", *flips(100, 50, 0, 0))
    verdicts = case.verdicts["base"]["gsm8k"]
    verdicts[-unread:] = [v.model_copy(update={"outcome": "no_answer", "extracted": None}) for v in verdicts[-unread:]]
    found = told(case.compare())
    assert list(found) == ([f"{severity}: gsm8k, base"] if severity else [])


def stopped_early(case, slug, count):
    """The last answers end at a stop string before the filter found anything in them."""
    for kind, changes in (("samples", {"finish": "stop_string"}), ("verdicts", {"outcome": "no_answer"})):
        answers = getattr(case, kind)[slug]["mmlu_pro"]
        answers[-count:] = [one.model_copy(update=changes) for one in answers[-count:]]


def test_a_stop_string_before_any_answer(case, told):
    """A full stop as stop string leaves 'Let us think' of every chain of thought, and a score of 0."""
    case.add("mmlu_pro", [0] * 40, [0] * 40, stop_strings=["."])
    stopped_early(case, "base", 40)
    stopped_early(case, "small", 20)
    comparison = case.compare()
    found = told(comparison)
    told_of = "of replies a stop string ('.') came before any answer was found."
    assert found["warning: mmlu_pro, base"] == f"In 100.0 % (40 of 40) {told_of}"
    assert found["warning: mmlu_pro, small"] == f"In 50.0 % (20 of 40) {told_of}"
    advice = next(finding.advice for finding in comparison.health if finding.where == "mmlu_pro, base")
    assert "until" in advice and "--check" in advice


def test_few_stopped_answers_are_replies_without_an_answer(case, told):
    case.add("mmlu_pro", [1] * 40, [1] * 21 + [0] * 19)
    stopped_early(case, "small", 19)
    assert told(case.compare())["warning: mmlu_pro, small"] == "No answer was found in 47.5 % (19 of 40) of replies."


def test_a_stop_string_behind_the_answer_is_how_answers_end(case, flips, told):
    case.add("gsm8k", *flips(100, 50, 0, 0))
    for slug in case.slugs:
        samples = case.samples[slug]["gsm8k"]
        samples[:] = [sample.model_copy(update={"finish": "stop_string"}) for sample in samples]
    assert told(case.compare()) == {}


def test_forty_cut_answers_keep_the_gate_from_passing(case, flips):
    """40 of 100 answers end at the token limit: not a plain low score."""
    case.add("gsm8k", *flips(100, 60, 0, 0))
    for slug in case.slugs:
        for kind, changes in (("samples", {"finish": "length"}), ("verdicts", {"outcome": "truncated"})):
            answers = getattr(case, kind)[slug]["gsm8k"]
            answers[60:] = [one.model_copy(update=changes) for one in answers[60:]]
    comparison = case.compare()
    (row,) = comparison.tasks
    assert row.baseline.outcomes["truncated"] == row.compressed[0].outcomes["truncated"] == 40
    assert row.compressed[0].recovery.value == 100.0
    verdict = judge(comparison, GateSpec())
    assert (verdict.outcome, verdict.exit_code) == ("INCONCLUSIVE", 3)
    assert any("40.0 % (40 of 100)" in reason for reason in verdict.reasons)


def test_worked_examples_that_were_left_out(case, flips, told):
    case.add("gsm8k", *flips(50, 30, 0, 0), num_fewshot=5)
    for slug in case.slugs:
        samples = case.samples[slug]["gsm8k"]
        for item, shots in ((3, 4), (7, 2), (8, 4)):
            samples[item] = samples[item].model_copy(update={"shots": shots})
    assert told(case.compare()) == {"note: gsm8k": "6.0 % (3 of 50) of prompts hold 2 to 4 of 5 worked examples."}


def test_findings_on_the_baseline_concern_all_models(case, flips):
    case.add("gsm8k", *flips(100, 50, 0, 0))
    for slug in case.slugs:
        case.samples[slug]["gsm8k"][0] = case.samples[slug]["gsm8k"][0].model_copy(update={"finish": "error"})
    by_where = {finding.where: finding.model for finding in case.compare().health}
    assert by_where == {"gsm8k, base": None, "gsm8k, small": "small"}


def test_a_subset_is_named(case, flips, told):
    case.add("gsm8k", *flips(200, 128, 0, 0), items_total=1319, selection="first 200")
    assert told(case.compare()) == {"note: gsm8k": "A subset of 200 of 1319 items was evaluated (first 200)."}


def test_a_subset_is_one_of_the_whole_row(case, flips, told):
    """Tasks of which no item was drawn have left it."""
    case.add("mmlu", *flips(200, 128, 0, 0), selection="seeded, 200 of the row's 14042")
    case.rows[0] = case.rows[0].model_copy(update={"items_total": 14042})
    (text,) = told(case.compare()).values()
    assert text == "A subset of 200 of 14042 items was evaluated (seeded, 200 of the row's 14042)."


def test_a_tripled_error_rate_behind_a_recovery_of_99_percent(case, flips, told):
    case.add("easy", *flips(1000, 995, 10, 0))
    comparison = case.compare()
    assert f"{comparison.tasks[0].compressed[0].recovery.value:.1f}" == "99.0"
    assert told(comparison) == {"note: easy, small": "The error rate grew from 0.50 % to 1.50 %, 3.0 times."}


def test_a_model_beside_itself_is_noted(case, flips, told):
    case.digests = {"base": "same", "small": "same"}
    run = case.add("arc", *flips(10, 8, 0, 0)).run()
    assert told(case.compare()) == {}  # the same weights under a scheme are another model
    models = [model.model_copy(update={"scheme": None}) for model in run.models]
    from evalcard.compare.comparison import compare_run

    comparison = compare_run(run.model_copy(update={"models": models}), case.verdicts, case.samples)
    assert list(told(comparison)) == ["note: small"]


def test_blockers_come_first(case, flips):
    case.add("gsm8k", *flips(100, 50, 0, 0), items_total=200, selection="first 100")
    case.samples["small"]["gsm8k"][0] = case.samples["small"]["gsm8k"][0].model_copy(update={"finish": "error"})
    case.verdicts["base"]["gsm8k"][50:80] = [
        verdict.model_copy(update={"outcome": "no_answer"}) for verdict in case.verdicts["base"]["gsm8k"][50:80]
    ]
    assert [finding.severity for finding in case.compare().health] == ["blocker", "warning", "note"]


def test_a_sound_comparison_has_no_findings(case, flips):
    assert case.add("arc", *flips(100, 70, 3, 2), chance=0.25).compare().health == []


def test_documents_that_changed_since_they_were_answered(case, flips, told):
    from evalcard.compare.comparison import compare_run

    case.add("arc", *flips(100, 70, 3, 2))
    how = RescoreRecord(command=["evalcard", "rescore", "r"], judges={}, changed_items={"arc": [3, 7]})
    comparison = compare_run(case.run().model_copy(update={"rescored": how}), case.verdicts, case.samples)
    said = "The documents of 2 of 100 items changed after they were answered; what they say now is what counts."
    assert told(comparison) == {"note: arc": said}
