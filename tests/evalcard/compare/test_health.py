"""What the checks find, and how grave it is."""

import pytest


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


def test_findings_on_the_baseline_concern_all_models(case, flips):
    case.add("gsm8k", *flips(100, 50, 0, 0))
    for slug in case.slugs:
        case.samples[slug]["gsm8k"][0] = case.samples[slug]["gsm8k"][0].model_copy(update={"finish": "error"})
    by_where = {finding.where: finding.model for finding in case.compare().health}
    assert by_where == {"gsm8k, base": None, "gsm8k, small": "small"}


def test_a_subset_is_named(case, flips, told):
    case.add("gsm8k", *flips(200, 128, 0, 0), items_total=1319, selection="first 200")
    assert told(case.compare()) == {"note: gsm8k": "A subset of 200 of 1319 items was evaluated (first 200)."}


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
