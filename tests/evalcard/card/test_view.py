"""Headline, flips and the other facts of a card."""

import dataclasses
import re
from typing import Any

import pytest

from evalcard.card.index import index_view
from evalcard.card.view import card_view
from evalcard.gate.judge import judge, with_verdict
from evalcard.gate.spec import GateSpec
from evalcard.results.records import RowRecord


def view_of(case, **changes: Any):
    return card_view(*case, "toy-1b-w8a8")


def strings(value: Any):
    """All text in a view."""
    if dataclasses.is_dataclass(value):
        value = [getattr(value, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from strings(item)
    elif hasattr(value, "model_dump"):
        yield from strings(list(value.model_dump().values()))


def test_headlines_are_averages_or_only_rows(make_case):
    headlines = view_of(make_case()).headlines
    told = [(line.category, line.task, line.num_rows, line.recovery, line.is_defined) for line in headlines]
    assert told == [
        ("knowledge", None, 2, "98.00 %", True),
        ("maths", "sums", 1, "105.00 %", True),
        ("riddles", "riddles", 1, "–", False),
    ]


def test_flips_are_summed(make_case):
    flips = view_of(make_case()).flips
    assert (flips.answers, flips.lost, flips.gained) == (200 + 120 + 40 + 50, 15, 10)


def test_rows_that_share_tasks_are_not_summed(make_case):
    rows = [
        RowRecord(name="arc", tasks=["arc"], rule="task"),
        RowRecord(name="all", tasks=["arc", "facts"], rule="size"),
    ]
    assert view_of(make_case(rows=rows)).flips is None


def test_the_coarsest_row_is_named(make_case):
    step = view_of(make_case()).coarsest
    assert (step.task, step.points) == ("sums", "5.00")  # 20 items right: one of them is a twentieth


def test_bytes_bits_and_base_model(make_case):
    view = view_of(make_case())
    assert (view.model.bits_per_weight, view.model.weights, view.weights_share) == ("8.13", "1,300.0 MB", "59.09 %")
    assert view.base_model == "acme/toy-1b" and view.model.title == "toy-1b w8a8"


def test_what_is_not_known_is_none(make_case):
    run, comparison = make_case()
    bare = {"hub_id": None, "name": "toy", "bits_per_weight": None, "weight_bytes": None, "num_parameters": None}
    run = run.model_copy(update={"models": [model.model_copy(update=bare) for model in run.models]})
    view = card_view(run, comparison, "toy-1b-w8a8")
    assert view.base_model is None and view.weights_share is None
    assert (view.model.weights, view.model.parameters, view.model.bits_per_weight) == (None, None, None)


def test_the_base_model_may_be_named_in_the_spec(make_case):
    run, comparison = make_case(resolved={"base_model": "acme/original"})
    assert card_view(run, comparison, "toy-1b-w8a8").base_model == "acme/original"


@pytest.mark.parametrize(
    "named", ["/data/models/llama", "./llama", "data/models/llama", "C:\\llama", "http://host/llama"]
)
def test_a_folder_is_no_base_model(make_case, named):
    run, comparison = make_case(resolved={"base_model": named})
    assert card_view(run, comparison, "toy-1b-w8a8").base_model is None


def test_the_scheme_is_not_said_twice_in_a_title(make_case):
    run, comparison = make_case()
    models = [run.models[0], run.models[1].model_copy(update={"name": "acme/toy-1b-W8A8"})]
    assert card_view(run.model_copy(update={"models": models}), comparison, "toy-1b-w8a8").model.title == "toy-1b-W8A8"


def test_only_findings_on_this_model(make_case):
    run, comparison = make_case(2)
    other = comparison.health[0].model_copy(update={"model": "toy-1b-w4a16"})
    comparison = comparison.model_copy(update={"health": [*comparison.health, other]})
    view = card_view(run, comparison, "toy-1b-w8a8")
    assert [finding.severity for finding in view.findings] == ["blocker", "note"]
    assert len(view.blockers) == 1


def test_the_gate_shows_where_it_was_asked(make_case):
    run, comparison = make_case()
    assert card_view(run, comparison, "toy-1b-w8a8").gate is None
    judged = with_verdict(comparison, judge(comparison, GateSpec()))
    assert card_view(run, judged, "toy-1b-w8a8").gate.outcome == "CANNOT_JUDGE"


def test_no_path_in_any_view(make_case):
    secret = "/mnt/secret/data"
    run, comparison = make_case(
        2, versions={"torch": f"2.13 from {secret}/wheel"}, hardware={"cpu": f"x {secret}/y"},
        resolved={"device": f"{secret}/z", "system": f"Read {secret}/prompt."},
    )  # fmt: skip
    models = [model.model_copy(update={"numerics": f"kernels {secret}/k"}) for model in run.models]
    tasks = [task.model_copy(update={"decoding": f"greedy {secret}/d"}) for task in run.tasks]
    run = run.model_copy(update={"models": models, "tasks": tasks})
    bad = comparison.health[0].model_copy(update={"finding": f"see {secret}/f", "advice": f"read {secret}/a"})
    comparison = comparison.model_copy(update={"health": [bad]})
    texts = [*strings(card_view(run, comparison, "toy-1b-w8a8")), *strings(index_view(run, comparison))]
    assert len(texts) > 50
    assert not [text for text in texts if re.search("secret|someone", text)]


def test_the_index_has_a_line_for_each_model(make_case):
    run, comparison = make_case(2)
    view = index_view(run, comparison)
    assert [line.model.slug for line in view.lines] == ["toy-1b-w8a8", "toy-1b-w4a16"]
    assert [[headline.recovery for headline in line.headlines] for line in view.lines][0] == [
        "98.00 %",
        "105.00 %",
        "–",
    ]
    assert [row.task for row in view.scores] == [
        "arc", "facts", "average of knowledge", "sums", "riddles", "overall average",
    ]  # fmt: skip
    assert not view.has_gate
    judged = with_verdict(comparison, judge(comparison, GateSpec()))
    assert index_view(run, judged).has_gate
