"""What is said, and refused, before any weights load."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.gate.spec import Bounds, GateSpec
from evalcard.gateplan import gate_of
from evalcard.plan import DEMO_SCHEMES, Plan, plan_run, with_demo_defaults
from evalcard.progress import Silent
from evalcard.spec import make_spec
from evalcard.tasks.prepare import prepare

Planned = Callable[..., Plan]


@pytest.fixture
def planned(
    toy_spec: Callable[..., Any],
    tokenizer_folder: Path,
    fake_backend: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Planned:
    """A plan over toy tasks, with a backend that never answers."""
    monkeypatch.setattr("evalcard.plan.make_backends", lambda spec, _: [fake_backend() for _ in spec.models])

    def make(*tasks: str, asks_power: bool = False, **changes: Any) -> Plan:
        given = {"compressed": [f"{tokenizer_folder}:w8a8"], "out": str(tmp_path / "results")} | changes
        return plan_run(toy_spec(*tasks, **given), Silent(), asks_power)

    return make


def gate_file(folder: Path, text: str) -> str:
    path = folder / "gate.yaml"
    path.write_text(text)
    return str(path)


def test_a_row_is_counted_whole_though_tasks_left_it(toy_spec: Callable[..., Any]):
    spec = toy_spec("toy_mc", limit=1)
    lines = Plan(spec, prepare(spec), {}).lines()
    assert any(line.startswith("  toy_mc: 1 of 14 items, ") for line in lines), lines


def test_a_sweep_of_the_demo_stands_instead_of_its_usual_schemes():
    spec = make_spec(with_demo_defaults({"sweep": "fp8,nf4"}))
    assert [model.label for model in spec.models] == ["evalcard-demo", "evalcard-demo:fp8", "evalcard-demo:nf4"]
    assert [model.scheme for model in make_spec(with_demo_defaults({})).compressed] == list(DEMO_SCHEMES)
    assert make_spec(with_demo_defaults({"baseline": "@demo", "sweep": "nf4"})).tasks == spec.tasks


def test_tasks_that_are_missing_are_asked_for() -> None:
    with pytest.raises(UserError, match="tasks are missing: give some, such as --tasks mmlu,gsm8k"):
        make_spec(with_demo_defaults({"baseline": "ORG/M"}))


def test_without_limits_there_is_no_gate_but_a_forecast(planned: Planned):
    plan = planned("toy_mc")
    assert plan.gate is None and plan.confidence == 0.95
    (one,) = plan.forecasts
    assert (one.name, one.items, one.asked) == ("toy_mc", 14, ())
    said = "\n".join(plan.lines())
    assert "These items can show a drop of recovery of" in said and "assumed" in said
    assert "Gate:" not in said and "warning" not in said


def test_a_limit_makes_a_gate_and_a_warning(planned: Planned):
    plan = planned("toy_mc", min_recovery=99, confidence=0.9)
    assert plan.gate == GateSpec(every=Bounds(min_recovery=99), confidence=0.9)
    lines = plan.lines()
    assert "Gate: recovery >= 99 % on every row, decided at 90 % confidence" in lines
    assert any(line.startswith("warning: the limit 99 % on toy_mc is finer than 14 items can show") for line in lines)
    assert max(map(len, lines[-6:])) <= 80


def test_flags_win_over_the_gate_file(planned: Planned, tmp_path: Path):
    path = gate_file(tmp_path, "min_recovery: 98\nconfidence: 0.8\ntasks:\n  toy_sums: 90\n")
    plan = planned("toy_mc", "toy_sums", gate_file=path, min_recovery=97)
    assert plan.gate is not None and plan.confidence == 0.8
    assert plan.gate.of_row("toy_mc") == Bounds(min_recovery=97)
    assert plan.gate.of_row("toy_sums") == Bounds(min_recovery=90)
    said = " ".join(" ".join(plan.lines()).split())
    assert "Gate: recovery >= 97 % on every row, recovery >= 90 % on toy_sums, decided at 80 % confidence" in said


def test_the_plan_as_json_holds_gate_and_forecast(planned: Planned):
    told = json.loads(json.dumps(planned("toy_mc", min_recovery=99).summary()))
    limit = {"scope": "task", "name": "toy_mc", "kind": "min_recovery", "limit": 99.0}
    assert told["gate"] == {"limits": [limit], "confidence": 0.95, "decide": "interval"}
    (row,) = told["forecast"]["rows"]
    assert row["name"] == "toy_mc" and row["score"] == 0.6 and row["score_is_from"] is None
    assert row["asked"][0]["is_too_fine"] is True and row["asked"][0]["items"] > 1000
    assert len(told["forecast"]["warnings"]) == 1
    assert json.loads(json.dumps(planned("toy_mc").summary()))["gate"] is None


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ("tasks: {gsm8k: 98}", r"limit on gsm8k, but the run has no such task\. It has: toy_mc, toy_sums\."),
        ("averages: {Maths: 98}", r"limit on Maths, but the run has no such category\. It has: "),
        ("min_recovery: 300", "300"),
        ("min_recovery: 99\nmin_recvery: 98", "min_recvery"),
        ("tasks: {}", "no limit"),
    ],
)
def test_limits_that_cannot_be_held_are_refused(planned: Planned, tmp_path: Path, limits: str, says: str):
    with pytest.raises(UserError, match=says):
        planned("toy_mc", "toy_sums", gate_file=gate_file(tmp_path, limits))


def test_limits_on_what_is_there_are_taken(planned: Planned, tmp_path: Path):
    (category,) = {task.record.category for task in planned("toy_mc", "toy_sums").prepared.tasks}
    limits = f"tasks: {{toy_sums: 98}}\naverages: {{{category}: 97}}\noverall: 99"
    plan = planned("toy_mc", "toy_sums", gate_file=gate_file(tmp_path, limits))
    assert [(one.scope, len(one.asked)) for one in plan.forecasts] == [
        ("task", 0), ("task", 1), ("average", 1), ("overall", 1)
    ]  # fmt: skip
    said = " ".join(" ".join(plan.lines()).split())
    assert f"recovery >= 97 % on the average of {category}, recovery >= 99 % on the overall average" in said


def test_a_gate_file_that_is_not_there(planned: Planned, tmp_path: Path):
    with pytest.raises(UserError, match=r"nowhere\.yaml"):
        planned("toy_mc", gate_file=str(tmp_path / "nowhere.yaml"))


def test_a_gate_file_is_read_before_tasks_are(
    toy_spec: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object) -> None:
        raise AssertionError("tasks were looked at")

    monkeypatch.setattr("evalcard.tasks.files.select.select", refuse)
    spec = toy_spec("toy_mc", gate_file=str(tmp_path / "nowhere.yaml"), compressed=["org/m:w8a8"])
    with pytest.raises(UserError, match=r"nowhere\.yaml"):
        plan_run(spec, Silent())


def test_a_confidence_needs_something_to_decide(planned: Planned):
    with pytest.raises(UserError, match=r"--confidence 0\.9 is that of the gate, but there is no limit"):
        planned("toy_mc", confidence=0.9)
    assert planned("toy_mc", confidence=0.9, asks_power=True).confidence == 0.9


def test_a_gate_needs_somebody_to_judge(planned: Planned):
    with pytest.raises(UserError, match="there is no compressed model"):
        planned("toy_mc", compressed=[], min_recovery=99)
    assert planned("toy_mc", compressed=[], min_recovery=99, asks_power=True).forecasts[0].asked[0].is_too_fine


def test_a_least_score_is_refused_where_lower_is_better(toy_spec: Callable[..., Any], planned: Planned):
    from evalcard.gateplan import refuse_unfit_limits

    plan = planned("toy_mc")
    tasks = {one.name: one.record.model_copy(update={"higher_is_better": False}) for one in plan.prepared.tasks}
    with pytest.raises(UserError, match=r"least score \(min_score\) of toy_mc, where lower is better"):
        refuse_unfit_limits(GateSpec(every=Bounds(min_score=50)), plan.prepared.rows, tasks)
    refuse_unfit_limits(GateSpec(every=Bounds(min_recovery=50)), plan.prepared.rows, tasks)


def test_an_average_over_both_directions_is_refused(planned: Planned):
    from evalcard.gateplan import refuse_unfit_limits

    plan = planned("toy_mc", "toy_sums")
    tasks = {one.name: one.record for one in plan.prepared.tasks}
    tasks["toy_sums"] = tasks["toy_sums"].model_copy(update={"higher_is_better": False})
    with pytest.raises(UserError, match="the overall average, but there is no such average"):
        refuse_unfit_limits(GateSpec(overall=Bounds(min_recovery=99)), plan.prepared.rows, tasks)
    refuse_unfit_limits(GateSpec(), plan.prepared.rows, tasks)


def test_a_sequential_run_is_checked_with_its_gate(planned: Planned):
    with pytest.raises(UserError, match="limit"):
        planned("toy_mc", sequential=True)
    plan = planned("toy_mc", sequential=True, min_recovery=99)
    # All items of the full set decide its recovery exactly, so that no limit is too fine for them.
    assert "Gate:" in "\n".join(plan.lines()) and "finer" not in "\n".join(plan.lines())
    assert plan.power_summary()["warnings"] == []


def test_the_spec_alone_tells_the_gate(toy_spec: Callable[..., Any]):
    assert gate_of(toy_spec("toy_mc", compressed=["org/m:w8a8"])) is None
    gate = gate_of(toy_spec("toy_mc", compressed=["org/m:w8a8"], min_recovery=0))
    assert gate is not None and gate.every == Bounds(min_recovery=0)


def test_a_model_that_is_refused_comes_before_what_its_prompts_met(
    planned: Planned, fake_backend: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    """A backend in a process of its own finds out later than the tokenizer, whose advice would be another."""

    class Late:
        def __init__(self, error: str | None) -> None:
            self.error = error

        def is_identified(self) -> bool:
            return False

        def identity(self) -> Any:
            if self.error:
                raise UserError(self.error)
            return fake_backend().identity()

    def broken_tokenizer(*_: Any, **__: Any) -> Any:
        raise UserError("cannot load a tokenizer")

    monkeypatch.setattr("evalcard.tasks.prepare.prepare", broken_tokenizer)
    for error, said in [("config.json is broken", "config.json is broken"), (None, "cannot load a tokenizer")]:
        monkeypatch.setattr("evalcard.plan.make_backends", lambda spec, _, e=error: [Late(e) for _ in spec.models])
        with pytest.raises(UserError, match=said):
            planned("toy_sums")
