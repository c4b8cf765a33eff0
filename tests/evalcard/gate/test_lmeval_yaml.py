"""llm-compressor's lm-eval tests as a gate: its limit, and what is said of all that is different."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalcard.compare.comparison import compare_folder
from evalcard.errors import UserError
from evalcard.gate.gatefile import load_gate
from evalcard.gate.judge import judge
from evalcard.gate.lmeval_yaml import read_lmeval
from evalcard.results.compared import MetricScore
from evalcard.results.runs import find_run
from evalcard.results.store import RunFolder

STRICT = "exact_match,strict-match"
FLEXIBLE = "exact_match,flexible-extract"


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """The file as llm-compressor's are laid out, with ``lmeval`` as given."""

    def make(lmeval: Any, **top: Any) -> Path:
        path = tmp_path / "w4a16.yaml"
        data = {"cadence": "weekly", "model": "acme/toy", "scheme": "W4A16", "lmeval": lmeval} | top
        path.write_text(yaml.safe_dump(data))
        return path

    return make


def scores(n: int, right: int, lost: int, gained: int = 0) -> tuple[list[int], list[int]]:
    return [1] * right + [0] * (n - right), [0] * lost + [1] * (right - lost + gained) + [0] * (n - right - gained)


@pytest.fixture
def judged(stored_run: Any, tmp_path: Path) -> Any:
    """(run, comparison) of 1000 gsm8k items, 800 right with the baseline."""

    def make(lost: int, **facts: Any) -> Any:
        task = {"metric": "exact_match", "filter": "strict-match", "num_fewshot": 5, "items_total": 1319} | facts
        stored_run().add("gsm8k", *scores(1000, 800, lost), **task).write()
        folder = find_run(tmp_path / "results", "some-run")
        return folder.read_run(), compare_folder(folder)

    return make


def test_its_threshold_is_a_least_recovery_of_its_task(write: Any):
    gate = load_gate(write({"task": "arc_challenge", "recovery_threshold": 0.57, "metrics": {"acc_norm,none": 0.5}}))
    assert dict(gate.tasks["arc_challenge"]) == {"min_recovery": 57.0}
    assert list(gate.every) == [] and not gate.averages and gate.asked_by is not None


def test_what_it_leaves_out_is_as_llm_compressor_has_it(write: Any):
    gate = load_gate(write({"metrics": {STRICT: 0.7}}))
    assert dict(gate.tasks["gsm8k"]) == {"min_recovery": 95.0}
    assert gate.asked_by is not None and (gate.asked_by.num_fewshot, gate.asked_by.limit) == (5, 1000)
    assert dict(load_gate(write({})).tasks["gsm8k"]) == {"min_recovery": 95.0}


def test_a_gate_file_of_our_own_is_read_as_before(tmp_path: Path):
    path = tmp_path / "gate.yaml"
    path.write_text("min_recovery: 99\n")
    assert load_gate(path).asked_by is None
    path.write_text("lmeval: 3\n")
    with pytest.raises(UserError, match="'lmeval', which is unknown"):
        load_gate(path)


def test_a_threshold_by_metric_is_that_of_the_metrics_named(write: Any):
    told = {"recovery_threshold": {STRICT: 0.9, FLEXIBLE: 0.9}, "metrics": {STRICT: 0.7, FLEXIBLE: 0.7}}
    assert dict(load_gate(write(told)).tasks["gsm8k"]) == {"min_recovery": 90.0}
    told["metrics"] = {STRICT: 0.7, "exact_match_stderr,strict-match": 0.02}
    told["recovery_threshold"] = {STRICT: 0.9}
    assert dict(load_gate(write(told)).tasks["gsm8k"]) == {"min_recovery": 90.0}


@pytest.mark.parametrize(
    ("lmeval", "says"),
    [
        ({"recovery_threshold": 95}, "give a fraction such as 0.95"),
        ({"recovery_threshold": "high"}, "give a fraction"),
        ({"recovery_threshold": True}, "give a fraction"),
        ({"recovery_threshold": {STRICT: 0.9}, "metrics": {STRICT: 0.7, FLEXIBLE: 0.7}}, "one measure"),
        ({"recovery_threshold": {}}, "one measure"),
        ({"higher_is_better": False}, "higher_is_better is False"),
        ({"task": "gsm8k,mmlu"}, "name of one task"),
        ({"task": ["gsm8k"]}, "name of one task"),
        ({"num_fewshot": "5"}, "num_fewshot"),
        ({"limit": 0}, "limit"),
        ({"metrics": [STRICT]}, "metrics is"),
        ({"metrics": {STRICT: "good"}}, "metrics.exact_match,strict-match"),
    ],
)
def test_what_cannot_be_asked_here_is_refused(write: Any, lmeval: Any, says: str):
    with pytest.raises(UserError) as refused:
        load_gate(write(lmeval))
    assert says in str(refused.value)


def test_its_rounding_is_not_ours_and_both_are_said(write: Any, judged: Any):
    run, comparison = judged(lost=43)  # 757 / 800 = 0.94625, which rounds to 0.95
    gate = load_gate(write({"metrics": {STRICT: 0.7}}))
    for decide, outcome in (("point", "FAIL"), ("interval", "INCONCLUSIVE")):
        verdict = judge(comparison, gate.__class__(**fields(gate) | {"decide": decide}), run)
        assert verdict.outcome == outcome
    notes = "\n".join(verdict.notes)
    assert "rounds the recovery to two decimals first" in notes
    assert "the recovery of 94.625 % is below 95 %; rounded as w4a16.yaml's test does it, it passes there" in notes
    run, comparison = judged(lost=10)
    verdict = judge(comparison, gate, run)
    assert verdict.outcome == "PASS" and "passes there" in verdict.notes[0] and len(verdict.notes) >= 1
    assert not any("is below" in note for note in verdict.notes)


def fields(spec: Any) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in spec.__dataclass_fields__}


def test_other_settings_than_the_limit_was_set_for_are_said(write: Any, judged: Any):
    run, comparison = judged(lost=10, num_fewshot=8)
    notes = judge(comparison, load_gate(write({"limit": 500, "metrics": {STRICT: 0.7}})), run).notes
    assert any("for 5 worked examples; the run gave 8" in note for note in notes)
    assert any("for the first 500 items; the run has 1000 of 1319" in note for note in notes)
    assert any("a test of acme/toy; the run's baseline is tiny" in note for note in notes)
    run, comparison = judged(lost=10)
    notes = judge(comparison, load_gate(write({"metrics": {STRICT: 0.7}}, model="tiny")), run).notes
    assert not any("its limit is for" in note or "baseline is" in note for note in notes)


def test_another_measure_than_the_rows_is_refused(write: Any, judged: Any):
    run, comparison = judged(lost=10)
    gate = load_gate(write({"metrics": {FLEXIBLE: 0.7}}))
    with pytest.raises(UserError, match="is scored by exact_match,strict-match"):
        judge(comparison, gate, run)


def test_lower_is_better_is_refused(write: Any, judged: Any):
    run, comparison = judged(lost=10, higher_is_better=False)
    with pytest.raises(UserError, match="lower is better for exact_match of gsm8k"):
        judge(comparison, load_gate(write({"metrics": {STRICT: 0.7}})), run)


def test_a_task_that_is_not_there_is_refused_like_any_limit(write: Any, judged: Any):
    run, comparison = judged(lost=10)
    with pytest.raises(UserError, match="a limit on arc"):
        judge(comparison, load_gate(write({"task": "arc"})), run)


def test_other_measures_and_expected_scores_are_told_and_not_judged(write: Any, judged: Any):
    run, comparison = judged(lost=10)
    (row,) = comparison.tasks

    def with_other(score: Any, value: float) -> Any:
        other = MetricScore(metric="exact_match", filter="flexible-extract", score=value)
        return score.model_copy(update={"others": [other]})

    row = row.model_copy(
        update={"baseline": with_other(row.baseline, 0.8), "compressed": [with_other(row.compressed[0], 0.6)]}
    )
    comparison = comparison.model_copy(update={"tasks": [row]})
    told = {STRICT: 0.9, FLEXIBLE: 0.9, "acc,none": 0.5}
    verdict = judge(comparison, load_gate(write({"metrics": told})), run)
    notes = "\n".join(verdict.notes)
    assert verdict.outcome == "PASS"
    assert f"{FLEXIBLE}, which w4a16.yaml names too, has a recovery of 75.00 %; it is not judged here" in notes
    assert "acc,none, which w4a16.yaml names too, is not in this comparison" in notes
    assert f"{STRICT} is 0.7900, below 95 % of the 0.9 that w4a16.yaml expects; its test warns and passes" in notes


def test_the_gate_command_takes_it(write: Any, judged: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    from evalcard.cli.main import invoke

    run, comparison = judged(lost=200)
    with RunFolder.open(tmp_path / "results", "some-run") as folder:
        folder.write_comparison(comparison)
    path = str(write({"metrics": {STRICT: 0.7}}))
    command = ["gate", "some-run", "--out", str(tmp_path / "results"), "--gate-file", path, "--json"]
    assert invoke(command) == 1
    verdict = json.loads(capsys.readouterr().out)
    (limit,) = verdict["models"][0]["limits"]
    assert (limit["name"], limit["kind"], limit["limit"], limit["value"]) == ("gsm8k", "min_recovery", 95.0, 75.0)
    kept = tmp_path / "gate.yaml"
    assert invoke([*command, "--write-gate", str(kept)]) == 1
    assert load_gate(kept).tasks == load_gate(Path(path)).tasks and load_gate(kept).asked_by is None
    assert invoke([*command, "--write-gate", path, "--reason", "so"]) == 2, "it is another program's test"


@pytest.mark.parametrize("value", ["9" * 400, ".inf", ".nan", "-.inf"])
def test_an_expected_score_beyond_all_numbers_is_refused(tmp_path: Path, value: str):
    path = tmp_path / "a.yaml"
    path.write_text(f"lmeval: {{task: gsm8k, metrics: {{'exact_match,strict-match': {value}}}}}")
    with pytest.raises(UserError, match="lmeval.metrics.exact_match,strict-match is .*give a number") as error:
        read_lmeval(path)
    assert len(str(error.value)) < 400


def test_aliases_of_aliases_fill_no_message(tmp_path: Path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    path = tmp_path / "a.yaml"
    path.write_text("\n".join([*lines, "lmeval: {task: *a11}"]))
    with pytest.raises(UserError, match="lmeval.task is") as error:
        read_lmeval(path)
    assert len(str(error.value)) < 2000


def test_a_task_that_cannot_be_printed_is_refused(tmp_path: Path):
    path = tmp_path / "a.yaml"
    path.write_text('lmeval: {task: "\\ud800"}')
    with pytest.raises(UserError, match="give the name of one task"):
        read_lmeval(path)
