"""``evalcard run`` around its run: flags, what is shown without weights, and how the gate's word ends it."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from evalcard.cli import run as command_module
from evalcard.cli.main import invoke
from evalcard.gate.verdict import EXIT_CODES, GateVerdict
from evalcard.results.compared import ComparedRow, Comparison, CompressedScore, ScoreRecord
from evalcard.results.records import ModelRecord, RowRecord, RunRecord, TaskRecord
from evalcard.results.store import RunFolder

DEMO = ("--limit-per-subtask", "40", "--quiet")


@pytest.fixture(autouse=True)
def no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("weights were loaded")

    monkeypatch.setattr("evalcard_engine.models.open_model", refuse)


def spec_of(monkeypatch: pytest.MonkeyPatch, *args: str) -> Any:
    """The spec that the flags make."""
    seen = []

    def stop(spec: Any, *_: object, **__: object) -> None:
        seen.append(spec)
        raise click.Abort

    monkeypatch.setattr("evalcard.plan.plan_run", stop)
    invoke(["run", *args])
    return seen[0] if seen else None


def test_flags_of_the_gate_reach_the_spec(monkeypatch: pytest.MonkeyPatch):
    flags = ["--gate-file", "g.yaml", "--min-recovery", "98.5", "--confidence", "0.9", "--sequential"]
    spec = spec_of(monkeypatch, *flags)
    assert (spec.gate_file, spec.min_recovery, spec.confidence) == ("g.yaml", 98.5, 0.9)
    assert spec.sequential and spec.noise_check is None
    plain = spec_of(monkeypatch)
    assert (plain.gate_file, plain.min_recovery, plain.confidence, plain.sequential) == (None, None, None, False)


def test_the_form_of_weights_reaches_the_spec(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    assert spec_of(monkeypatch, "--weights", "packed").weights == "packed"
    assert spec_of(monkeypatch).weights == "auto"
    assert invoke(["run", "--weights", "tiny"]) == 2
    assert "'tiny' is not one of 'auto', 'packed', 'expanded'" in capsys.readouterr().err


def test_a_limit_of_0_was_given(monkeypatch: pytest.MonkeyPatch):
    assert spec_of(monkeypatch, "--min-recovery", "0").min_recovery == 0


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--noise-check"], 50),
        (["--noise-check", "7"], 7),
        (["--noise-check=7"], 7),
        (["--noise-check", "--fresh"], 50),
    ],
)
def test_noise_check_asks_50_items_unless_told(monkeypatch: pytest.MonkeyPatch, given: list[str], expected: int):
    assert spec_of(monkeypatch, *given).noise_check == expected


@pytest.mark.parametrize(
    "args",
    [
        ["--min-recovery", "201"],
        ["--min-recovery", "-1"],
        ["--min-recovery", "nan"],
        ["--confidence", "1", "--min-recovery", "99"],
        ["--confidence", "0.5", "--min-recovery", "99"],
        ["--confidence", "95", "--min-recovery", "99"],
        ["--noise-check", "0"],
        ["--confidence", "0.9"],
        ["--gate-file", "nowhere.yaml"],
        ["--sequential"],
    ],
)
def test_what_makes_no_sense_is_refused_before_weights_load(args: list[str], tmp_path: Path):
    assert invoke(["run", *DEMO, "--out", str(tmp_path), *args]) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_limit_on_a_task_that_is_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    gate = tmp_path / "gate.yaml"
    gate.write_text("tasks: {gsm8k: 99}\n")
    assert invoke(["run", *DEMO, "--out", str(tmp_path / "out"), "--gate-file", str(gate)]) == 2
    assert "no such task" in (said := capsys.readouterr().err) and "demo_knowledge, demo_words, demo_maths" in said


def test_power_prints_a_table_and_stops(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any):
    monkeypatch.setenv("COLUMNS", "80")
    assert invoke(["run", *DEMO, "--out", str(tmp_path), "--power", "--min-recovery", "99", "--confidence", "0.9"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80 and not any(line.endswith(" ") for line in lines)
    (words,) = [line for line in lines if line.startswith("demo_words")]
    assert words.split()[:5] == ["demo_words", "40", "60", "%*", "5"] and "99 %" in words
    said = " ".join(lines)
    assert "overall average" in said and "assumed: a score of 60 %" in said and "90 % confidence" in said
    assert "warning: " in said and list(tmp_path.iterdir()) == []


def test_power_without_limits_has_no_columns_for_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert invoke(["run", *DEMO, "--out", str(tmp_path), "--power"]) == 0
    said = capsys.readouterr().out
    assert "asked" not in said and "warning" not in said and "Finest" in said


def test_power_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert invoke(["run", *DEMO, "--out", str(tmp_path), "--power", "--json", "--min-recovery", "99"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["confidence"], told["power"]) == (0.95, 0.8)
    first, *_, overall = told["rows"]
    assert (first["scope"], first["name"], first["items"]) == ("task", "demo_knowledge", 40)
    assert 0 < first["smallest_drop"] < 100 and 0 < first["finest_limit"] < 99
    assert first["asked"][0]["is_too_fine"] and first["asked"][0]["items"] > 40
    assert overall["scope"] == "overall" and overall["smallest_drop"] < first["smallest_drop"]


def store_demo(out: Path, digest: str, tasks: list[TaskRecord]) -> None:
    """An earlier run of the demo's baseline."""
    folder = RunFolder(out / "demo-earlier")
    empty: dict[str, Any] = {"asked": {}, "resolved": {}, "progress": [], "versions": {}, "hardware": {}, "command": []}
    models = [
        ModelRecord(slug=slug, role=role, name=slug, hub_id=None, revision=None, scheme=scheme, weights_digest=weights,
                    tokenizer_digest="t", template_digest=None, numerics=None)
        for slug, role, scheme, weights in (("b", "baseline", None, digest), ("c", "compressed", "w8a8", "x"),
                                            ("d", "compressed", "w4a16", "y"))
    ]  # fmt: skip
    rows = [RowRecord(name=one.name, tasks=[one.name], rule="task") for one in tasks]
    folder.write_run(RunRecord(schema=1, name="demo-earlier", created="2026-01-01T00:00:00+00:00", finished=None,
                               models=models, tasks=tasks, rows=rows, seed=1, git=None, **empty))  # fmt: skip
    compared = [
        ComparedRow(task=one.name, metric=one.metric, n=200, baseline=ScoreRecord(score=0.9, stderr=0.02), chance=0.0,
                    category=one.category, tasks=[one.name], compressed=[
                        CompressedScore(model=slug, scheme=None, score=0.9, stderr=0.02, recovery=None, lost=flips,
                                        gained=flips, mcnemar_p=None) for slug, flips in (("c", 1), ("d", 4))])
        for one in tasks
    ]  # fmt: skip
    folder.write_comparison(
        Comparison(schema=1, run="demo-earlier", tasks=compared, averages=[], health=[], verdict=None)
    )


def test_power_takes_what_an_earlier_run_of_the_same_weights_tells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    from evalcard.plan import plan_run, with_demo_defaults
    from evalcard.progress import Silent
    from evalcard.spec import make_spec

    monkeypatch.setenv("COLUMNS", "80")
    plan = plan_run(make_spec(with_demo_defaults({"limit_per_subtask": 40, "out": str(tmp_path)})), Silent())
    digest = next(iter(plan.backends.values())).identity().weights_digest
    assert digest is not None
    store_demo(tmp_path, digest, [task.record for task in plan.prepared.tasks])
    assert invoke(["run", *DEMO, "--out", str(tmp_path), "--power"]) == 0
    said = capsys.readouterr().out
    (words,) = [line for line in said.splitlines() if line.startswith("demo_words")]
    assert words.split()[1:6] == ["40", "90", "%", "4", "%"]  # of both schemes, the one that flips more
    assert "from demo-earlier" in said and "assumed" not in said


def test_dry_run_shows_gate_and_forecast(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert invoke(["run", *DEMO, "--out", str(tmp_path), "--dry-run", "--min-recovery", "99"]) == 0
    said = capsys.readouterr().out
    assert "Gate: recovery >= 99 % on every row, decided at 95 % confidence" in " ".join(said.split())
    assert "These items can show" in said and "warning: the limit 99 %" in said
    assert invoke(["run", *DEMO, "--out", str(tmp_path), "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["gate"] is None and len(told["forecast"]["rows"]) >= 3 and told["answers_per_model"] == 120


# ---- how a run ends


@pytest.fixture
def finished(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Runs end at once, with the outcome that a test puts here; what is printed is kept."""
    outcomes: list[Any] = []
    monkeypatch.setattr("evalcard.plan.plan_run", lambda *_, **__: SimpleNamespace(lines=list))
    monkeypatch.setattr("evalcard.run.run_plan", lambda *_, **__: outcomes[0])
    monkeypatch.setattr("evalcard.cli.tables.print_outcome", lambda outcome: click.echo("THE TABLE"))
    return outcomes


def outcome_with(verdict: GateVerdict | None) -> Any:
    kept = verdict.model_dump(mode="json") if verdict else None
    comparison = Comparison(schema=1, run="r", tasks=[], averages=[], health=[], verdict=kept)
    run = SimpleNamespace(models=[])
    return SimpleNamespace(comparison=comparison, verdict=verdict, run=run, card=Path("results/r/README.md"))


def verdict_of(outcome: Any) -> GateVerdict:
    return GateVerdict(outcome=outcome, exit_code=EXIT_CODES[outcome], decide="interval", confidence=0.95, models=[],
                       reasons=["gsm8k, m-w8a8: because."])  # fmt: skip


@pytest.mark.parametrize("outcome", list(EXIT_CODES))
def test_the_verdict_is_printed_and_gives_the_exit_code(
    finished: list[Any], outcome: str, capsys: pytest.CaptureFixture[str]
):
    finished.append(outcome_with(verdict_of(outcome)))
    assert invoke(["run", "--quiet"]) == EXIT_CODES[outcome]
    said = capsys.readouterr().out
    assert said.index("THE TABLE") < said.index(outcome.replace("_", " ")) and "because." in said


def test_without_limits_a_run_ends_with_0(finished: list[Any], capsys: pytest.CaptureFixture[str]):
    finished.append(outcome_with(None))
    assert invoke(["run", "--quiet"]) == 0
    assert capsys.readouterr().out == "THE TABLE\n"


def test_json_is_the_comparison_with_its_verdict(finished: list[Any], capsys: pytest.CaptureFixture[str]):
    finished.append(outcome_with(verdict_of("FAIL")))
    assert invoke(["run", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == 1 and told["verdict"]["outcome"] == "FAIL"


def test_help_names_every_flag_of_the_gate(capsys: pytest.CaptureFixture[str]):
    assert invoke(["run", "--help"]) == 0
    said = capsys.readouterr().out
    for flag in ("--gate-file", "--min-recovery", "--confidence", "--sequential", "--noise-check", "--power"):
        assert flag in said, flag
    assert command_module.command.params
