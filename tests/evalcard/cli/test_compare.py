"""``evalcard compare``: what it prints, and its exit codes."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalcard.cli.main import invoke


def flips(n: int, right: int, lost: int, gained: int) -> tuple[list[int], list[int]]:
    """Scores of a baseline and of a compressed model."""
    return [1] * right + [0] * (n - right), [0] * lost + [1] * (right - lost + gained) + [0] * (n - right - gained)


@pytest.fixture
def compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """(exit code, stdout, stderr)."""

    def run(*args: str) -> tuple[int, str, str]:
        code = invoke(["compare", "--out", str(tmp_path / "results"), *args])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_mcnemar_sees_what_an_unpaired_test_misses(stored_run: Callable[..., Any], compare: Callable[..., Any]):
    baseline, compressed = flips(220, 160, 28, 11)
    stored_run("before", slugs=("tiny",)).add("sums", baseline).write()
    stored_run("after", slugs=("tiny",)).add("sums", compressed).write()
    code, printed, _ = compare("before", "after")
    (line,) = [line for line in printed.splitlines() if line.startswith("sums") and "0.0095" in line]
    assert code == 0 and line.split()[-5:] == ["tiny-2", "28", "11", "0.0095", "-7.73"]
    assert "baseline   before:tiny" in printed and "compressed tiny-2: after:tiny" in printed, "a name of its own"
    code, printed, _ = compare("before", "after", "--json")
    (one,) = json.loads(printed)["comparison"]["tasks"][0]["compressed"]
    assert (one["lost"], one["gained"], one["score"]) == (28, 11, 143 / 220)
    assert one["mcnemar_p"] == pytest.approx(0.0095, abs=5e-5)


def test_a_model_against_itself_has_recovery_100_and_an_interval(stored_run: Any, compare: Callable[..., Any]):
    stored_run().add("sums", *flips(100, 60, 5, 1)).write()
    code, printed, _ = compare("latest:baseline", "latest:baseline", "--json", "--flips", "3")
    found = json.loads(printed)
    (one,) = found["comparison"]["tasks"][0]["compressed"]
    assert code == 0 and found["flips"] == []
    assert (one["recovery"]["value"], one["mcnemar_p"], one["lost"], one["gained"]) == (100.0, 1.0, 0, 0)
    assert one["recovery"]["low"] < 99 and one["recovery"]["high"] > 101
    assert [model["slug"] for model in found["run"]["models"]] == ["tiny", "tiny-2"]


def test_flips_show_both_answers_and_the_right_one(stored_run: Any, compare: Callable[..., Any]):
    run = stored_run().add("sums", [1, 1, 0, 1], [0, 1, 1, 0])
    run.answers["tiny-w8a8", "sums"][0] |= {"text": "first\nsecond\nthird\nfourth\n#### 8\nlast", "output_tokens": 12}
    run.answers["tiny-w8a8", "sums"][3] |= {"extracted": None, "outcome": "truncated", "finish": "length"}
    run.write()
    code, printed, _ = compare("latest", "--flips", "2")
    assert code == 0
    shown = printed[printed.index("LOST") :]
    assert [line for line in shown.splitlines() if line.startswith(("LOST", "GAINED"))] == [
        "LOST  sums, item 0", "LOST  sums, item 3"
    ]  # fmt: skip
    assert "gold       7" in shown
    assert '"7" (correct); ended by itself after 5 tokens' in shown
    assert '"8" (wrong); ended by itself after 12 tokens' in shown
    assert "    | [1 line before]\n    | second\n" in shown and "    | #### 8\n    | last\n" in shown
    assert "no answer found (truncated); cut off by the limit after 5 tokens" in shown
    _, whole, _ = compare("latest", "--flips", "2", "--full")
    assert "    | first\n" in whole and "lines before" not in whole


def test_questions_that_cannot_be_read_are_missed_once(stored_run: Any, compare: Callable[..., Any]):
    stored_run().add("sums", [1, 1, 0], [0, 0, 1]).write()
    code, printed, _ = compare("latest", "--flips", "3")
    assert code == 0 and printed.count("questions are not shown") == 1 and "question\n" not in printed
    found = json.loads(compare("latest", "--flips", "3", "--json")[1])
    assert len(found["flips"]) == 3 and len(found["unread"]) == 1


def test_without_flips_no_task_is_read(stored_run: Any, compare: Callable[..., Any], monkeypatch: pytest.MonkeyPatch):
    def read(*_: object) -> None:
        raise AssertionError("nobody asked")

    monkeypatch.setattr("evalcard.tasks.questions.read_questions", read)
    stored_run().add("sums", [1, 1, 0], [0, 0, 1]).write()
    code, printed, _ = compare("latest")
    assert code == 0 and "LOST" not in printed and "not shown" not in printed


def test_questions_of_a_run_are_shown(toys: Any, stored_run: Any, compare: Callable[..., Any], tmp_path: Path):
    from evalcard.results.store import RunFolder
    from evalcard.tasks.prompts.encode import hash_document

    lines = (toys.data_root / "toy/sums/test.jsonl").read_text().splitlines()
    run = stored_run().add("toy_sums", [1, 1], [1, 0])
    for answers in run.answers.values():
        for answer in answers:
            answer["item_hash"] = hash_document(json.loads(lines[answer["item_id"]]))
    run.write()
    spec = {"tasks": [toys.path("toy_sums")], "data_root": str(toys.data_root), "baseline": "@demo"}
    with RunFolder.open(tmp_path / "results", "some-run") as folder:
        folder.write_run(folder.read_run().model_copy(update={"resolved": spec}))
    _, printed, _ = compare("latest", "--flips", "1")
    assert "  question\n    | Question: What is 41 plus 44?\n" in printed and "not shown" not in printed
    _, printed, _ = compare("latest", "--flips", "1", "--json")
    (flip,) = json.loads(printed)["flips"]
    assert (flip["item_id"], flip["direction"], flip["model"]) == (1, "lost", "tiny-w8a8")
    assert flip["question"].startswith("Question: What is 41 plus 44?")


def test_texts_of_models_reach_no_terminal_as_commands(stored_run: Any, compare: Callable[..., Any]):
    run = stored_run().add("sums", [1, 1], [0, 1])
    run.answers["tiny-w8a8", "sums"][0] |= {"text": "\x1b[2Jgone \x07\n[red]not markup[/]", "target": "\x1b]0;x\x07"}
    run.write()
    _, printed, _ = compare("latest", "--flips", "1")
    assert "\x1b" not in printed and "\x07" not in printed
    assert "\\x1b[2Jgone \\x07" in printed and "[red]not markup[/]" in printed
    assert max(map(len, printed.splitlines())) <= 80


@pytest.mark.parametrize(("limit", "code", "says"), [("50", 0, "PASS"), ("99", 1, "FAIL"), ("88", 3, "INCONCLUSIVE")])
def test_with_a_limit_the_exit_code_is_the_gates(
    stored_run: Any, compare: Callable[..., Any], limit: str, code: int, says: str
):
    stored_run().add("sums", *flips(220, 160, 28, 11)).write()
    got, printed, _ = compare("latest", "--min-recovery", limit)
    assert got == code and says in printed
    got, printed, _ = compare("latest", "--min-recovery", limit, "--json")
    assert got == code and json.loads(printed)["comparison"]["verdict"]["outcome"] == says


def test_a_gate_files_confidence_is_that_of_the_intervals(stored_run: Any, compare: Callable[..., Any], tmp_path: Path):
    from evalcard.gate.gatefile import write_gate
    from evalcard.gate.spec import Bounds, GateSpec
    from evalcard.stored import compare_results

    stored_run().add("sums", *flips(220, 160, 28, 11)).write()
    found = compare_results(tmp_path / "results", "latest")
    gate = GateSpec(every=Bounds(min_recovery=85.0), confidence=0.8)
    write_gate(tmp_path / "gate.yaml", gate, found.run, found.comparison, None)
    for flags, confidence in (([], 0.8), (["--confidence", "0.9"], 0.9)):
        _, printed, _ = compare("latest", "--gate-file", str(tmp_path / "gate.yaml"), "--json", *flags)
        comparison = json.loads(printed)["comparison"]
        verdict = comparison["verdict"]
        assert comparison["confidence"] == verdict["confidence"] == confidence
        (limit,) = verdict["models"][0]["limits"]
        recovery = comparison["tasks"][0]["compressed"][0]["recovery"]
        assert (limit["limit"], limit["low"], limit["high"]) == (85.0, recovery["low"], recovery["high"])


def test_confidence_narrows_intervals(stored_run: Any, compare: Callable[..., Any]):
    stored_run().add("sums", *flips(220, 160, 28, 11)).write()
    lows = []
    for flags in ([], ["--confidence", "0.6"]):
        _, printed, _ = compare("latest", "--json", *flags)
        lows.append(json.loads(printed)["comparison"]["tasks"][0]["compressed"][0]["recovery"]["low"])
    assert lows[0] < lows[1] < 90
    assert "60 % interval" in compare("latest", "--confidence", "0.6")[1]


def test_what_does_not_match_is_refused_with_4(stored_run: Any, compare: Callable[..., Any]):
    stored_run("one").add("sums", [1, 0, 1], [1, 0, 1]).write()
    stored_run("two").add("sums", [1, 0, 1], [1, 0, 1], num_fewshot=5).write()
    stored_run("three").add("other", [1, 0, 1], [1, 0, 1]).write()
    code, printed, error = compare("one", "two")
    assert (code, printed) == (4, "") and "worked examples 0 against 5" in error
    assert compare("one", "three")[0] == 4


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["nowhere"], "no run 'nowhere'"),
        (["some-run:w9"], "no model 'w9'"),
        (["some-run", "--task", "nothing"], "Its rows are: sums"),
        (["some-run", "--confidence", "0.5"], "0.5"),
        (["some-run", "--confidence", "nan"], "give a fraction"),
        (["some-run", "--confidence", "0.9999999999999999"], "at most 0.9999"),
        (["some-run", "--min-recovery", "0.99"], "--min-recovery is in percent, got 0.99; write 99"),
        (["x" * 5000], "there is no run"),
        (["some-run", "--min-recovery", "300"], "300"),
        (["some-run", "--gate-file", "no.yaml"], "no.yaml"),
        ([], "Missing argument"),
    ],
)
def test_mistakes_end_with_2(stored_run: Any, compare: Callable[..., Any], args: list[str], says: str):
    stored_run().add("sums", [1, 0, 1], [1, 0, 1]).write()
    code, printed, error = compare(*args)
    assert (code, printed) == (2, "") and says in error


def test_a_large_run_takes_seconds(stored_run: Any, compare: Callable[..., Any]):
    stored_run().add("sums", *flips(6000, 4000, 300, 200)).write()
    start = time.perf_counter()
    code, _, _ = compare("latest")
    assert code == 0 and time.perf_counter() - start < 20


@pytest.mark.parametrize("args", [["latest"], ["latest:baseline", "latest"]])
def test_a_newer_incomplete_run_is_warned_of(
    args: list[str], stored_run: Any, compare: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    folder = stored_run().add("sums", *flips(20, 10, 1, 1)).write()
    monkeypatch.setattr("evalcard.results.runs.newer_incomplete", lambda out: "newer-0a1b")
    code, printed, said = compare(*args, "--json")
    assert code == 0 and json.loads(printed), "standard output stays whole"
    assert said == (
        "Warning: a newer run newer-0a1b is incomplete and was not compared; give its command again or name it.\n"
    )
    assert compare(folder.name)[2] == ""


def silent(path: Path, slug: str, task: str) -> None:
    """As if the model's answers were another program's that does not tell how they ended."""
    from evalcard.results.records import SourceRecord
    from evalcard.results.store import RunFolder

    folder = RunFolder(path)
    run = folder.read_run()
    samples = folder.journal(slug, task).read().values()
    untold = [one.model_copy(update={"finish": "not_told", "output_tokens": 0}) for one in samples]
    folder.write_samples(slug, task, untold)
    source = SourceRecord(program="lm_eval 0.4.13", files=["results_2026.json"], tells_endings=False)
    folder.write_run(run.model_copy(update={"sources": run.sources | {slug: source}}))


def test_endings_that_are_not_told_are_not_made_up(stored_run: Any, compare: Callable[..., Any], tmp_path: Path):
    scores = [1] * 30 + [0] * 10, [0] * 5 + [1] * 25 + [0] * 10
    stored_run("before", slugs=("tiny",)).add("sums", scores[0]).write()
    cut = stored_run("after", slugs=("tiny",)).add("sums", scores[1])
    for one in cut.answers["tiny", "sums"][30:]:
        one |= {"finish": "length", "outcome": "truncated"}
    cut.write()
    silent(tmp_path / "results" / "before", "tiny", "sums")
    code, printed, _ = compare("before", "after", "--flips", "1")
    joined = " ".join(printed.split())
    assert code == 0 and "How 100.0 % (40 of 40) of answers ended is not told" in joined
    assert "how it ended is not told" in joined and "Truncated answers rose" not in joined
    code, printed, _ = compare("before", "after", "--flips", "1", "--json")
    (flip,) = json.loads(printed)["flips"]
    assert (flip["baseline"]["finish"], flip["baseline"]["output_tokens"]) == (None, None)
    assert flip["compressed"]["finish"] is not None


def test_a_run_without_verdicts_is_refused_with_4(stored_run: Any, compare: Callable[..., Any]):
    path = stored_run("empty").add("sums", [1, 1, 0], [1, 0, 0]).write()
    for file in (path / "verdicts").rglob("*.jsonl"):
        file.unlink()
    code, printed, error = compare("empty")
    assert (code, printed) == (4, "") and "nothing of empty can be compared" in " ".join(error.split())


def test_the_baseline_of_another_program_is_named(stored_run: Any):
    from dataclasses import replace

    from evalcard.cli.compared import _introduced
    from evalcard.stored import load_stored

    path = stored_run("before", slugs=("tiny",)).add("sums", [1, 0]).write()
    model = replace(load_stored(path.parent, "before"), origin="lm_eval 0.4.13: results_2026.json (2026-05-01)")
    assert _introduced(model) == "tiny: lm_eval 0.4.13: results_2026.json (2026-05-01)"
