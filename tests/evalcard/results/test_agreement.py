"""A comparison.json that was edited, or is another run's, is refused with its fault."""

import math
from typing import Any

import pytest

from evalcard.compare.comparison import compare_answers
from evalcard.compare.pairing import Answered
from evalcard.errors import ComparisonRefused, UserError
from evalcard.results.agreement import check_comparison
from evalcard.results.compared import Comparison
from evalcard.results.records import RunRecord


def answers(wrong: int) -> dict[tuple[int | str, int], Answered]:
    values = [0] * wrong + [1] * (80 - wrong) + [0] * 20
    return {
        (item, 0): Answered(value, "correct" if value else "wrong", "stop", f"i{item}", f"p{item}")
        for item, value in enumerate(values)
    }


@pytest.fixture
def run(make_run: Any) -> RunRecord:
    base = make_run().models[0]
    small = base.model_copy(update={"slug": "small", "role": "compressed"})
    task = {"source": "file", "version": "1", "metric": "acc", "filter": "none", "category": "maths", "chance": 0.25,
            "higher_is_better": True, "num_fewshot": 0, "repeats": 1, "decoding": "scored", "chat_template": False,
            "items_total": 100, "items_selected": 100, "selection": "all"}  # fmt: skip
    return make_run(
        models=[base, small], tasks=[{"name": name, **task} for name in ("t", "u")],
        rows=[{"name": name, "tasks": [name], "rule": "task"} for name in ("t", "u")],
    )  # fmt: skip


@pytest.fixture
def data(run: RunRecord) -> dict[str, Any]:
    by_model = {slug: {name: answers(wrong) for name in ("t", "u")} for slug, wrong in (("base", 0), ("small", 3))}
    return compare_answers(run, by_model).model_dump(by_alias=True)


def set_at(data: Any, place: str, value: Any) -> None:
    *way, last = place.split(".")
    for key in way:
        data = data[int(key)] if key.isdigit() else data[key]
    data[int(last) if last.isdigit() else last] = value


ONE = "tasks.0.compressed.0"


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (f"{ONE}.recovery.value", -5.0, "its recovery is -5"),
        (f"{ONE}.recovery.value", math.nan, "is nan, which is no finite number"),
        (f"{ONE}.recovery.low", 98.0, "outside its interval"),
        (f"{ONE}.recovery.high", 90.0, "outside its interval"),
        (f"{ONE}.recovery", {"value": 96.25, "low": 97.0, "high": 96.0}, "goes from 97 to 96"),
        (f"{ONE}.difference.value", 0.5, "its difference is 0.5"),
        (f"{ONE}.score", math.inf, "no finite number"),
        (f"{ONE}.lost", -1, "lost is -1"),
        (f"{ONE}.lost", 0, "lost is 0, and its pairs count"),
        (f"{ONE}.gained", 7, "gained is 7, and its pairs count"),
        (f"{ONE}.paired.both", 50.0, "and its pairs make"),
        (f"{ONE}.mcnemar_p", 2.0, "mcnemar_p is 2"),
        (f"{ONE}.paired.n", 0, "of 0 items different"),
        (f"{ONE}.paired.n", 10**400, "beyond all bounds"),
        (f"{ONE}.paired.different", -1, "has -1 of 100"),
        (f"{ONE}.paired.lost", -3.0, "paired counts"),
        (f"{ONE}.paired.both", None, "all three are known, or none"),
        (f"{ONE}.paired.both", 1000.0, "paired counts"),
        (f"{ONE}.paired.baseline_variance", -1.0, "paired has the variances"),
        (f"{ONE}.paired.degrees", 0.0, "degrees of freedom"),
        ("tasks.0.n", 0, "n is 0"),
        ("tasks.0.baseline.stderr", -1.0, "standard error is -1"),
        ("averages.0.compressed.0.recovery.value", 150.0, "maths: small: its recovery is 150"),
        ("confidence", 1.0, "its confidence is 1"),
        ("verdict", {"deep": [{"x": math.inf}]}, "verdict.deep[0].x is inf"),
    ],
)
def test_a_figure_that_cannot_be_is_named(run: RunRecord, data: dict[str, Any], place: str, value: Any, said: str):
    check_comparison(Comparison.model_validate(data), run, "here")
    set_at(data, place, value)
    with pytest.raises(UserError) as error:
        check_comparison(Comparison.model_validate(data), run, "here")
    assert error.value.exit_code == 2 and "here is damaged: " in str(error.value) and said in str(error.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data["tasks"].append(data["tasks"][0]), "the row 't' twice"),
        (lambda data: data["tasks"][0]["compressed"].append(data["tasks"][0]["compressed"][0]), "model 'small' twice"),
    ],
)
def test_what_is_there_twice_is_damaged(run: RunRecord, data: dict[str, Any], change: Any, said: str):
    change(data)
    with pytest.raises(UserError, match=f"damaged.*{said}"):
        check_comparison(Comparison.model_validate(data), run, "here")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data.update(run="other"), "the run 'other', not of 'toy-00000000'"),
        (lambda data: data["tasks"].pop(), "lacks the row 'u'"),
        (lambda data: set_at(data, "tasks.1.task", "v"), "has the row 'v', which the run lacks"),
        (lambda data: set_at(data, "tasks.1.compressed.0.model", "x"), "has the model 'x' on u"),
        (lambda data: set_at(data, "tasks.1.compressed", []), "lacks the model 'small' on u"),
    ],
)
def test_what_belongs_to_another_run_is_refused(run: RunRecord, data: dict[str, Any], change: Any, said: str):
    change(data)
    with pytest.raises(ComparisonRefused) as error:
        check_comparison(Comparison.model_validate(data), run, "here")
    assert said in str(error.value) and error.value.exit_code == 4


def test_a_row_without_answers_is_told_by_its_finding(run: RunRecord):
    by_model = {slug: {"t": answers(wrong)} for slug, wrong in (("base", 0), ("small", 3))}
    check_comparison(compare_answers(run, by_model), run, "here")
    by_model = {"base": {"t": answers(0), "u": answers(0)}, "small": {"t": answers(1)}}
    check_comparison(compare_answers(run, by_model), run, "here")


FIDELITY = {
    "row": "t", "model": "small", "unit": "choices", "items": 3, "kl_mean": 0.1, "kl_median": 0.1, "kl_p90": 0.2,
    "kl_p99": 0.2, "kl_max": 0.3, "kl_bins": [3], "top_agreement": 1.0,
    "generated": {"answers": 2, "identical": 0.5, "with_tokens": 2, "first_difference": 3.0, "token_agreement": 0.7},
}  # fmt: skip


def with_fidelity(data: dict[str, Any], place: str = "row", value: Any = "t") -> Comparison:
    one = {**FIDELITY, "generated": dict(FIDELITY["generated"])}
    set_at(one, place, value)
    return Comparison.model_validate({**data, "fidelity": [one]})


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("top_agreement", 1.2, "top_agreement is 1.2, not from 0 to 1"),
        ("generated.identical", -0.1, "identical is -0.1"),
        ("generated.token_agreement", 2.0, "token_agreement is 2"),
        ("kl_p90", 0.05, "its divergences of median, 90 %, 99 % and most are 0.1, 0.05, 0.2, 0.3"),
        ("kl_median", -0.1, "most are -0.1"),
        ("kl_mean", math.inf, "is inf, which is no finite number"),
        ("items", 4, r"it counts 4 items, in bins \[3\]"),
        ("left_out", {"failed": -1}, "it counts 3 items"),
    ],
)
def test_fidelity_that_cannot_be(run: RunRecord, data: dict[str, Any], place: str, value: Any, said: str):
    check_comparison(with_fidelity(data), run, "here")
    with pytest.raises(UserError, match=said):
        check_comparison(with_fidelity(data, place, value), run, "here")


def test_fidelity_of_another_runs_model(run: RunRecord, data: dict[str, Any]):
    finished = run.model_copy(update={"finished": "2026-01-01T00:00:00+00:00"})
    check_comparison(with_fidelity(data), finished, "here")
    check_comparison(with_fidelity(data, "row", "wiki.test.raw"), finished, "here")
    with pytest.raises(ComparisonRefused, match="the fidelity of the model 'other', which the run lacks"):
        check_comparison(with_fidelity(data, "model", "other"), finished, "here")
