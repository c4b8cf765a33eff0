"""The gate's word on a card."""

import pytest

from evalcard.card.index import index_view
from evalcard.card.limits import limit_view
from evalcard.card.verdicts import gate_view, outcome_of, stored_verdict
from evalcard.gate.judge import with_verdict
from evalcard.gate.verdict import GateVerdict, LimitVerdict, ModelVerdict

SLUG = "toy-1b-w8a8"


def limit(outcome: str, value: float | None, **facts) -> LimitVerdict:
    return LimitVerdict.model_validate(
        {"scope": "task", "name": "arc", "kind": "min_recovery", "limit": 96.0, "outcome": outcome, "value": value,
         "low": None, "high": None, "reason": f"because of {outcome}", **facts}
    )  # fmt: skip


@pytest.fixture
def judged(make_case):
    """Two models: the first with one limit of each outcome, the second passes."""
    limits = [
        limit("PASS", 97.0, low=96.0, high=98.0),
        limit("FAIL", 95.999, low=93.0, high=95.999, name="facts"),
        limit("INCONCLUSIVE", 96.5, low=95.0, high=98.0, name="sums", more_items=12345),
        limit("INCONCLUSIVE", 95.0, low=90.0, high=95.9, name="other"),
        limit("CANNOT_JUDGE", None, scope="overall", name="overall", kind="max_drop"),
    ]
    mine = ModelVerdict(model=SLUG, outcome="CANNOT_JUDGE", limits=limits, reasons=["see /mnt/secret/data/x"])
    other = ModelVerdict(model="toy-1b-w4a16", outcome="PASS", limits=limits[:1], reasons=[])
    run, comparison = make_case(2)
    verdict = GateVerdict(outcome="CANNOT_JUDGE", exit_code=4, decide="point", confidence=0.9, models=[mine, other],
                          reasons=["all of it"], notes=["the baseline moved"])  # fmt: skip
    return run, with_verdict(comparison, verdict)


def test_a_line_for_every_limit(judged):
    view = gate_view(judged[1], SLUG)
    assert (view.outcome, view.decide, view.confidence) == ("CANNOT_JUDGE", "point", "90")
    told = [(line.limit.place, line.limit.measured, line.limit.interval, line.outcome) for line in view.limits]
    assert told == [
        ("arc", "97.00 %", "[96.00, 98.00]", "PASS"),
        ("facts", "95.999 %", "[93.00, 95.999]", "FAIL"),
        ("sums", "96.50 %", "[95.00, 98.00]", "INCONCLUSIVE"),
        ("other", "95.00 %", "[90.00, 95.90]", "INCONCLUSIVE"),
        ("overall average", "–", "", "CANNOT_JUDGE"),
    ]
    assert [line.more_items for line in view.limits] == [
        None, None, "about 12345 more items like these would show it at or above the limit", None, None
    ]  # fmt: skip


def test_reasons_are_those_that_the_table_does_not_show(judged):
    view = gate_view(judged[1], SLUG)
    assert view.reasons == ("other: because of INCONCLUSIVE", "overall average: because of CANNOT_JUDGE", "see x")
    assert view.notes == ("the baseline moved",)


def test_every_model_has_its_own_word(judged):
    run, comparison = judged
    assert [outcome_of(comparison, slug) for slug in (SLUG, "toy-1b-w4a16", "else")] == ["CANNOT_JUDGE", "PASS", None]
    assert [line.gate for line in index_view(run, comparison).lines] == ["CANNOT_JUDGE", "PASS"]
    assert len(gate_view(comparison, "toy-1b-w4a16").limits) == 1 and gate_view(comparison, "else") is None


def test_a_verdict_of_an_older_form_is_none(judged, make_case):
    run, comparison = judged
    older = comparison.model_copy(
        update={"verdict": {"outcome": "PASS", "exit_code": 0, "min_recovery": 99.0, "decide": "point", "models": [],
                            "reasons": []}}
    )  # fmt: skip
    for none in (older, make_case()[1]):
        assert stored_verdict(none) is None and gate_view(none, SLUG) is None and outcome_of(none, SLUG) is None
    assert not index_view(run, older).has_gate
    assert stored_verdict(comparison).outcome == "CANNOT_JUDGE"


def test_a_models_card_has_no_notes_on_other_models(judged):
    run, comparison = judged
    verdict = stored_verdict(comparison)
    first, second = verdict.models
    models = [
        first.model_copy(update={"notes": ["on the first", "on both"]}),
        second.model_copy(update={"notes": ["on the second", "on both"]}),
    ]
    notes = ["the baseline moved", "on the first", "on the second", "on both"]
    noted = with_verdict(comparison, verdict.model_copy(update={"models": models, "notes": notes}))
    assert gate_view(noted, SLUG).notes == ("the baseline moved", "on the first", "on both")
    assert gate_view(noted, "toy-1b-w4a16").notes == ("the baseline moved", "on the second", "on both")


def test_a_drop_that_rounds_to_nothing_is_not_negative(judged):
    one = limit("PASS", -0.001, kind="max_drop", limit=1.0, low=-0.004, high=0.5)
    view = limit_view(one)
    assert (view.measured, view.interval) == ("0.00", "[0.00, 0.50]")
