"""What one model's answers look like, and how grave that is."""

import pytest

from evalcard.gate.judge import GateSpec, judge


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
    for slug in case.slugs:
        verdicts = case.verdicts[slug]["gsm8k"]
        verdicts[-unread:] = [
            v.model_copy(update={"outcome": "no_answer", "extracted": None}) for v in verdicts[-unread:]
        ]
    said = f"No answer was found in {unread}.0 % ({unread} of 100) of replies."
    expected = {f"{severity}: gsm8k, {slug}": said for slug in case.slugs} if severity else {}
    assert told(case.compare()) == expected


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


def test_findings_on_the_baseline_concern_all_models(case, flips):
    case.add("gsm8k", *flips(100, 50, 0, 0))
    for slug in case.slugs:
        case.samples[slug]["gsm8k"][0] = case.samples[slug]["gsm8k"][0].model_copy(update={"finish": "error"})
    by_where = {finding.where: finding.model for finding in case.compare().health}
    assert by_where == {"gsm8k, base": None, "gsm8k, small": "small"}


def changed(case, slug, task, count, **changes):
    """The last answers of a model, said otherwise; ``outcome`` goes to the verdict, all else to the sample."""
    outcome = changes.pop("outcome", None)
    samples, verdicts = case.samples[slug][task], case.verdicts[slug][task]
    samples[-count:] = [one.model_copy(update=changes) for one in samples[-count:]]
    if outcome is not None:
        verdicts[-count:] = [one.model_copy(update={"outcome": outcome}) for one in verdicts[-count:]]


@pytest.mark.parametrize(("count", "severity"), [(1, None), (2, "note"), (9, "note"), (10, "warning")])
@pytest.mark.parametrize(
    ("text", "said"), [(" \n", "are empty"), ("So 4. " + "Wait, let me check that again. " * 40, "end in a loop")]
)
def test_answers_that_say_nothing_or_the_same_without_end(case, flips, told, count, severity, text, said):
    case.add("gsm8k", *flips(200, 100, 0, 0))
    for slug in case.slugs:
        changed(case, slug, "gsm8k", count, text=text)
    share = f"{count / 2:.1f} % ({count} of 200)"
    expected = {f"{severity}: gsm8k, {slug}": f"{share} of answers {said}." for slug in case.slugs} if severity else {}
    assert told(case.compare()) == expected


def test_scored_and_failed_answers_are_not_empty(case, flips, told):
    case.add("arc", *flips(50, 30, 0, 0)).add("gsm8k", *flips(50, 30, 0, 0))
    for slug in case.slugs:
        changed(case, slug, "arc", 50, text=None)
        changed(case, slug, "gsm8k", 50, text="", finish="error", outcome="error")
    assert not any("empty" in text for text in told(case.compare()).values())


def test_failed_answers_name_the_layer(case, flips):
    """fp16 overflow in one layer: never a plain low score."""
    case.add("gsm8k", *flips(100, 50, 0, 0)).add("arc", *flips(100, 50, 0, 0))
    changed(case, "small", "gsm8k", 3, finish="error", outcome="error")
    changed(case, "small", "gsm8k", 1, fault="layer 12, mlp.down_proj: input not finite")
    changed(case, "small", "arc", 1, finish="error", outcome="error")
    changed(case, "base", "arc", 2, finish="error", outcome="error")
    comparison = case.compare()
    blockers = {(one.model, one.row): one for one in comparison.health if one.severity == "blocker"}
    layer = "layer 12, mlp.down_proj: input not finite"
    assert {where: one.finding for where, one in blockers.items()} == {
        (None, "arc"): "2.0 % (2 of 100) of answers failed.",
        ("small", "gsm8k"): f"3.0 % (3 of 100) of answers failed: {layer}.",
        ("small", "arc"): "1.0 % (1 of 100) of answers failed; of this model's other failures one was looked into: "
        f"{layer}.",
    }
    assert "--dtype" in blockers["small", "gsm8k"].advice
    assert judge(comparison, GateSpec()).exit_code == 4


def test_findings_name_row_and_model(case, flips):
    case.add("gsm8k", *flips(100, 50, 0, 0))
    for slug in case.slugs:
        changed(case, slug, "gsm8k", 30, finish="length", outcome="truncated", text="")
    found = {(one.row, one.model, one.where) for one in case.compare().health}
    assert found == {("gsm8k", None, "gsm8k, base"), ("gsm8k", "small", "gsm8k, small")}


REFRAIN = "Row, row, row your boat, gently down the stream. " * 5


@pytest.mark.parametrize(
    ("finish", "outcome", "is_loop"),
    [("stop", "correct", False), ("stop_string", "correct", False), ("stop", "wrong", True),
     ("stop", "no_answer", True), ("length", "correct", True)],
)  # fmt: skip
def test_a_right_answer_that_ends_by_itself_is_no_loop(case, flips, told, finish, outcome, is_loop):
    case.add("gsm8k", *flips(100, 50, 0, 0))
    for item in range(100, 110):
        for slug in case.slugs:
            case.answer(slug, "gsm8k", item, 0, 1, text=REFRAIN, finish=finish, outcome=outcome)
    case.tasks["gsm8k"] = case.tasks["gsm8k"].model_copy(update={"items_selected": 110, "items_total": 110})
    said = "9.1 % (10 of 110) of answers end in a loop."
    found = case.compare().health
    assert [one.finding for one in found if "loop" in one.finding] == ([said] * 2 if is_loop else [])
