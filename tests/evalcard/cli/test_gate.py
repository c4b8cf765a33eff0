"""``evalcard gate``: flags over a file, exit codes, and outputs that are whole or refused before anything is judged."""

import json
import os
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from evalcard.cli.main import invoke
from evalcard.cli.outputs import GateOutputs
from evalcard.compare.comparison import compare_answers
from evalcard.compare.pairing import Answered
from evalcard.gate.judge import judge
from evalcard.gate.spec import GateSpec
from evalcard.results.compared import Finding
from evalcard.results.records import ModelRecord, RowRecord, RunRecord, TaskRecord
from evalcard.results.store import RunFolder

N, RIGHT = 1000, 800


def task(name: str, category: str = "maths") -> TaskRecord:
    return TaskRecord.model_validate(
        {"name": name, "source": "file", "version": "1", "metric": "acc", "filter": "none", "category": category,
         "chance": 0.25, "higher_is_better": True, "num_fewshot": 0, "repeats": 1, "decoding": "scored",
         "chat_template": False, "items_total": N, "items_selected": N, "selection": "all"}
    )  # fmt: skip


def model(slug: str, scheme: str | None) -> ModelRecord:
    return ModelRecord.model_validate(
        {"slug": slug, "role": "compressed" if scheme else "baseline", "name": "acme/toy", "hub_id": "acme/toy",
         "revision": "0123abc", "scheme": scheme, "weights_digest": slug, "tokenizer_digest": "t",
         "template_digest": None, "numerics": "n"}
    )  # fmt: skip


def answers(lost: int, gained: int) -> dict[tuple[int | str, int], Answered]:
    values = [0] * lost + [1] * (RIGHT - lost) + [1] * gained + [0] * (N - RIGHT - gained)
    return {
        (item, 0): Answered(value, "correct" if value else "wrong", "stop", f"i{item}", f"p{item}")
        for item, value in enumerate(values)
    }


def store(out: Path, name: str = "sums-0a1b2c3d", finished: bool = True, **flips: tuple[int, int]) -> RunFolder:
    """A run on disk with 1000 items a row, of which the baseline has 800 right; (lost, gained) by row."""
    flips = flips or {"sums": (10, 10)}
    tasks = [task(row) for row in flips]
    run = RunRecord.model_validate(
        {"schema": 1, "name": name, "created": "2026-11-30T10:00:00+00:00", "asked": {}, "resolved": {},
         "finished": "2026-11-30T11:00:00+00:00" if finished else None, "tasks": tasks, "progress": [],
         "models": [model("toy", None), model("toy-w8a8", "w8a8")], "versions": {}, "hardware": {}, "seed": 1,
         "rows": [RowRecord(name=one.name, tasks=[one.name], rule="task") for one in tasks],
         "command": ["evalcard", "run"], "git": None}
    )  # fmt: skip
    by_model = {
        "toy": {row: answers(0, 0) for row in flips},
        "toy-w8a8": {row: answers(*pair) for row, pair in flips.items()},
    }
    folder = RunFolder(out / name)
    folder.write_run(run)
    folder.write_comparison(compare_answers(run, by_model))
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "results"


def gate(out: Path, *args: str) -> int:
    return invoke(["gate", "--out", str(out), *args])


def stored_verdict(folder: RunFolder) -> dict[str, Any] | None:
    return folder.read_comparison().verdict


@pytest.mark.parametrize(
    ("args", "code", "outcome"),
    [
        (["--min-recovery", "97"], 0, "PASS"),
        (["--min-recovery", "99"], 3, "INCONCLUSIVE"),
        ([], 3, "INCONCLUSIVE"),
        (["--on-inconclusive", "fail"], 1, "INCONCLUSIVE"),
        (["--on-inconclusive", "pass"], 0, "INCONCLUSIVE"),
        (["--min-recovery", "105"], 1, "FAIL"),
        (["--min-recovery", "105", "--on-inconclusive", "pass"], 1, "FAIL"),
        (["--decide", "point"], 0, "PASS"),
        (["--confidence", "0.6", "--min-recovery", "99.5"], 0, "PASS"),
        (["--min-score", "sums=75", "--min-recovery", "90"], 0, "PASS"),
        (["--min-score", "sums=85", "--min-recovery", "90"], 1, "FAIL"),
        (["--max-drop", "2"], 0, "PASS"),
        (["--max-drop", "0.5"], 3, "INCONCLUSIVE"),
        (["--task", "sums=97"], 0, "PASS"),
    ],
)
def test_exit_codes(out: Path, args: list[str], code: int, outcome: str, capsys: pytest.CaptureFixture[str]):
    folder = store(out)
    assert gate(out, *args) == code
    kept = stored_verdict(folder)
    assert kept is not None and kept["outcome"] == outcome
    assert capsys.readouterr().out.startswith(outcome)
    assert (folder.path / "README.md").is_file(), "the cards say it too"


def test_a_blocker_cannot_be_judged(out: Path):
    folder = store(out)
    finding = Finding(finding="Prompts differ.", severity="blocker", where="sums", advice="", row="sums")
    folder.write_comparison(folder.read_comparison().model_copy(update={"health": [finding]}))
    assert gate(out, "--min-recovery", "50", "--on-inconclusive", "pass") == 4


def test_an_incomplete_run_is_4_and_judges_nothing(out: Path, capsys: pytest.CaptureFixture[str]):
    folder = store(out, finished=False)
    assert gate(out, folder.name) == 4
    assert "incomplete" in capsys.readouterr().err and stored_verdict(folder) is None


def test_rows_averages_and_overall_have_limits_of_their_own(out: Path, capsys: pytest.CaptureFixture[str]):
    store(out, **{"sums": (10, 10), "a=b,c": (60, 0)})
    args = ["--task", "a=b,c=85", "--min-recovery", "97", "--average", "maths=90", "--overall", "91", "--json"]
    assert gate(out, *args) == 0
    said = json.loads(capsys.readouterr().out)
    limits = [(one["scope"], one["name"], one["kind"], one["limit"]) for one in said["models"][0]["limits"]]
    assert limits == [
        ("task", "sums", "min_recovery", 97.0),
        ("task", "a=b,c", "min_recovery", 85.0),
        ("average", "maths", "min_recovery", 90.0),
        ("overall", "overall", "min_recovery", 91.0),
    ]


def test_flags_win_over_the_gate_file(out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    store(out, sums=(10, 10), words=(10, 10))
    file = tmp_path / "gate.yaml"
    file.write_text("min_recovery: 96\nconfidence: 0.9\ntasks:\n  words: {min_recovery: 90, min_score: 70}\n")
    assert gate(out, "--gate-file", str(file), "--task", "words=95", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    limits = {(one["name"], one["kind"]): one["limit"] for one in said["models"][0]["limits"]}
    expected = {("sums", "min_recovery"): 96.0, ("words", "min_recovery"): 95.0, ("words", "min_score"): 70.0}
    assert limits == expected and said["confidence"] == 0.9


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--task", "sums=much"], "'much' is no number"),
        (["--task", "sums"], "names no row"),
        (["--average", "=97"], "names no category"),
        (["--task", "sums=97", "--task", "sums=98"], "given twice"),
        (["--task", "other=97"], "no such task"),
        (["--average", "poetry=97"], "no such category"),
        (["--min-recovery", "0.97"], "write 97"),
        (["--min-recovery", "1e-9"], "write 0, or a number above 1"),
        (["--task", "sums=90", "--task", "sums=nan"], "given twice"),
        (["--task", "sums=nan", "--task", "sums=90"], "given twice"),
        (["--confidence", "0.9999999999999999"], "at most 0.9999"),
        (["--junit", "x" * 5000], "File name too long"),
        (["--summary", "x" * 5000], "File name too long"),
        (["--write-gate", "x" * 5000], "File name too long"),
        (["--gate-file", "x" * 5000], "File name too long"),
        (["x" * 5000], "there is no run"),
        (["--task", "sums=0.95"], "write 95"),
        (["--min-score", "sums=0.5"], "write 50"),
        (["--min-recovery", "201"], "0 to 200"),
        (["--min-recovery", "nan"], "0 to 200"),
        (["--confidence", "95"], "write 0.95"),
        (["--confidence", "0.5"], "0.5"),
        (["--confidence", "1"], "the confidence is 1"),
        (["--gate-file", "nowhere.yaml"], "nowhere.yaml"),
        (["--junit", "nowhere/junit.xml"], "no folder"),
        (["--summary", "."], "is a folder"),
        (["--reason", "it was too high"], "--write-gate FILE"),
        (["--on-inconclusive", "maybe"], "maybe"),
    ],
)
def test_mistakes_are_2_and_change_nothing(
    out: Path, args: list[str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    folder = store(out)
    monkeypatch.chdir(out)
    before = sorted(out.rglob("*"))
    assert gate(out, *args) == 2
    said = capsys.readouterr()
    assert says in " ".join(said.err.split()) and said.out == ""
    assert stored_verdict(folder) is None and sorted(out.rglob("*")) == before


@pytest.mark.parametrize("option", ["--junit", "--summary", "--write-gate", "--gate-file", "RUN", "--out"])
def test_a_link_to_itself_is_a_mistake(option: str, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder, loop = store(out), tmp_path / "loop"
    loop.symlink_to(loop)
    args = [str(loop)] if option == "RUN" else [option, str(loop)]
    assert gate(out, *args) == 2
    assert "loop" in capsys.readouterr().err and stored_verdict(folder) is None


@pytest.mark.parametrize("left", ["run.json", "comparison.json"])
def test_limits_of_an_incomplete_run_are_not_written(left: str, out: Path, tmp_path: Path):
    folder, file = store(out, finished=False), tmp_path / "gate.yaml"
    if left == "run.json":
        (folder.path / "comparison.json").unlink()
    assert gate(out, folder.name, "--min-recovery", "97", "--write-gate", str(file)) == 4
    assert not file.exists() and stored_verdict_or_none(folder) is None


def stored_verdict_or_none(folder: RunFolder) -> dict[str, Any] | None:
    return stored_verdict(folder) if (folder.path / "comparison.json").exists() else None


def test_another_runs_comparison_is_4_and_stays(out: Path, capsys: pytest.CaptureFixture[str]):
    folder = store(out)
    folder.write_comparison(folder.read_comparison().model_copy(update={"run": "other"}))
    before = (folder.path / "comparison.json").read_bytes()
    assert gate(out) == 4
    assert "does not belong" in capsys.readouterr().err
    assert (folder.path / "comparison.json").read_bytes() == before


@pytest.mark.parametrize("option", ["--junit", "--summary", "--write-gate"])
@pytest.mark.parametrize("name", ["run.json", "comparison.json", "README.md", "verdicts/toy/sums.jsonl", "hard.xml"])
def test_no_output_is_written_over_what_evalcard_keeps(
    option: str, name: str, out: Path, capsys: pytest.CaptureFixture[str]
):
    folder = store(out)
    if name == "hard.xml":
        os.link(folder.path / "run.json", folder.path / name)
    (folder.path / "verdicts/toy").mkdir(parents=True)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert gate(out, "--min-recovery", "97", option, str(folder.path / name)) == 2
    assert "is a file that evalcard keeps" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("first", "second"),
    [("--junit", "--summary"), ("--summary", "--write-gate"), ("--gate-file", "--junit"), ("--gate-file", "--summary")],
)
@pytest.mark.parametrize("how", ["same", "link", "hard link"])
def test_outputs_are_files_of_their_own(
    first: str, second: str, how: str, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder, one, other = store(out), tmp_path / "one", tmp_path / "other"
    one.write_text("min_recovery: 97\n")
    {"same": lambda: None, "link": lambda: other.symlink_to(one), "hard link": lambda: os.link(one, other)}[how]()
    assert gate(out, first, str(one), second, str(one if how == "same" else other)) == 2
    assert f"is the file of {first} as well" in capsys.readouterr().err
    assert one.read_text() == "min_recovery: 97\n" and stored_verdict(folder) is None


def test_a_gate_file_may_be_kept_up_to_date_and_a_device_given_twice(out: Path, tmp_path: Path):
    store(out)
    file = tmp_path / "gate.yaml"
    file.write_text("min_recovery: 96\n")
    devices = ["--junit", os.devnull, "--summary", os.devnull]
    assert gate(out, "--gate-file", str(file), "--task", "sums=97", "--write-gate", str(file), *devices) == 0
    assert "sums:" in file.read_text()


def test_names_in_an_error_start_no_command(out: Path, capsys: pytest.CaptureFixture[str]):
    store(out, **{"a\n::set-env name=X::y": (10, 10), "##[stop]": (10, 10)})
    assert gate(out, "--task", "other=97") == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "a ::set-env" in said and "##[" not in said


def test_a_file_that_cannot_be_written_is_found_before_judging(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    folder = store(out)
    junit = tmp_path / "junit.xml"
    junit.write_text("old")
    # As for a user who is not root: root may write anything.
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != junit)
    assert gate(out, "--junit", str(junit)) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert stored_verdict(folder) is None and junit.read_text() == "old"


def test_a_file_that_fails_after_all_loses_no_verdict(out: Path, capsys: pytest.CaptureFixture[str]):
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    folder = store(out)
    summary = out / "summary.md"
    assert gate(out, "--min-recovery", "97", "--junit", "/dev/full", "--summary", str(summary)) == 2
    said = capsys.readouterr()
    assert said.out.startswith("PASS") and "the outcome is PASS, which is stored" in said.err
    assert "cannot write /dev/full: No space left" in said.err
    assert summary.read_text().startswith("## evalcard: PASS"), "one file does not cost the other"
    kept = stored_verdict(folder)
    assert kept is not None and kept["outcome"] == "PASS"


def test_junit_is_replaced_and_the_summary_is_added_to(out: Path, tmp_path: Path):
    store(out)
    junit, summary = tmp_path / "junit.xml", tmp_path / "summary.md"
    summary.write_text("# Other steps\n")
    for _ in range(2):
        assert gate(out, "--min-recovery", "97", "--junit", str(junit), "--summary", str(summary)) == 0
    root = ET.parse(junit).getroot()
    assert [root.attrib[name] for name in ("tests", "failures", "errors", "skipped")] == ["1", "0", "0", "0"]
    text = summary.read_text()
    assert text.startswith("# Other steps\n## evalcard: PASS\n") and text.count("## evalcard: PASS") == 2
    assert gate(out, "--junit", str(junit), "--on-inconclusive", "fail") == 1
    assert ET.parse(junit).getroot().attrib["failures"] == "1"
    assert gate(out, "--junit", str(junit)) == 3
    assert ET.parse(junit).getroot().attrib["skipped"] == "1"


def test_a_command_that_is_no_text_is_shown_as_far_as_it_is(out: Path):
    folder = store(out)
    run = folder.read_run().model_copy(update={"command": ["evalcard", "run", "--tasks", "a\udcff.yaml"]})
    comparison = folder.read_comparison()
    verdict = judge(comparison, GateSpec(), run)
    GateOutputs(None, out / "summary.md", fails_inconclusive=False).write(verdict, run, comparison)
    assert "--tasks 'a\ufffd.yaml'" in (out / "summary.md").read_text(encoding="utf-8")


def test_junit_goes_through_links_and_pipes_and_replaces_neither(out: Path, tmp_path: Path):
    store(out)
    target, link = tmp_path / "target.xml", tmp_path / "link.xml"
    target.write_text("old " * 10_000)
    link.symlink_to(target)
    assert gate(out, "--min-recovery", "97", "--junit", str(link)) == 0
    assert link.is_symlink() and ET.parse(target).getroot().tag == "testsuites"
    reader, writer = os.pipe()
    pipe = f"/dev/fd/{writer}"
    if not Path(pipe).exists():
        pytest.skip("needs /dev/fd")
    assert gate(out, "--min-recovery", "97", "--junit", pipe) == 0
    os.close(writer)
    with open(reader, "rb") as file:
        assert ET.fromstring(file.read()).tag == "testsuites"


def test_a_gate_file_is_written_through_a_link(out: Path, tmp_path: Path):
    store(out)
    target, link = tmp_path / "target.yaml", tmp_path / "link.yaml"
    target.write_text("min_recovery: 90\n")
    link.symlink_to(target)
    assert gate(out, "--min-recovery", "97", "--write-gate", str(link)) == 0
    assert link.is_symlink() and "min_recovery: 97" in target.read_text()


def test_annotations_follow_a_table_that_is_not_read_as_commands(out: Path, capsys: pytest.CaptureFixture[str]):
    store(out, **{"::error::x": (200, 0)})
    assert gate(out, "--annotations") == 1
    first, *table, last, command = capsys.readouterr().out.splitlines()
    pause = first.removeprefix("::stop-commands::")
    assert len(pause) >= 32 and last == f"::{pause}::"
    assert any(line.startswith("::error") for line in table), "which is why commands are paused"
    assert command.startswith("::error title=evalcard FAIL%3A sums-0a1b2c3d::")
    assert gate(out, "--json", "--annotations") == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["outcome"] == "FAIL" and said.err.splitlines() == [command]


def test_limits_are_written_whatever_the_verdict(out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    store(out)
    file = tmp_path / "gate.yaml"
    assert gate(out, "--min-recovery", "105", "--write-gate", str(file)) == 1
    text = file.read_text()
    assert "min_recovery: 105" in text and "acme/toy" in text and "0.8" in text
    capsys.readouterr()
    assert gate(out, "--min-recovery", "97", "--write-gate", str(file)) == 2
    assert "--reason" in capsys.readouterr().err and file.read_text() == text
    reason = "w8a8 loses a little here"
    assert gate(out, "--min-recovery", "97", "--write-gate", str(file), "--reason", reason) == 0
    assert reason in file.read_text()
    assert gate(out, "--gate-file", str(file)) == 0


def test_limits_that_this_run_cannot_be_asked_are_not_written(out: Path, tmp_path: Path):
    store(out)
    file = tmp_path / "gate.yaml"
    assert gate(out, "--task", "other=97", "--write-gate", str(file)) == 2
    assert not file.exists()


def started(folder: RunFolder, **settings: Any) -> None:
    """As if ``evalcard run`` had been given these."""
    folder.write_run(folder.read_run().model_copy(update={"resolved": settings}))


def test_the_first_line_and_json_name_the_run_and_its_date(out: Path, capsys: pytest.CaptureFixture[str]):
    store(out)
    gate(out, "--min-recovery", "97")
    assert capsys.readouterr().out.splitlines()[0] == "PASS: run sums-0a1b2c3d of 2026-11-30 11:00 UTC"
    gate(out, "--min-recovery", "97", "--json")
    said = json.loads(capsys.readouterr().out)
    assert (said["run"], said["finished"]) == ("sums-0a1b2c3d", "2026-11-30T11:00:00+00:00")


@pytest.mark.parametrize(("command", "done"), [("gate", "judged"), ("card", "rendered"), ("rescore", "graded again")])
def test_a_newer_incomplete_run_is_warned_of(command: str, done: str, out: Path, capsys: pytest.CaptureFixture[str]):
    folder = store(out)
    newer = store(out, "newer-0a1b2c3d", finished=False)
    created = "2026-12-01T00:00:00+00:00"
    newer.write_run(newer.read_run().model_copy(update={"created": created}))
    invoke([command, "latest", "--out", str(out)])
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Warning")]
    assert f"newer run newer-0a1b2c3d is incomplete and was not {done}; give its command again or name it" in line
    invoke([command, folder.name, "--out", str(out)])
    assert "newer" not in capsys.readouterr().err


@pytest.mark.parametrize("args", [[], ["latest"]])
def test_nothing_but_an_incomplete_run_is_4(args: list[str], out: Path, capsys: pytest.CaptureFixture[str]):
    store(out, finished=False)
    assert gate(out, *args) == 4
    assert "Give the `evalcard run` command of one again" in capsys.readouterr().err


def test_without_a_limit_those_of_the_run_hold(out: Path, capsys: pytest.CaptureFixture[str]):
    folder = store(out)
    assert gate(out) == 3
    assert "no limit was given: 99 % of every row" in capsys.readouterr().out
    started(folder, min_recovery=97.0, confidence=0.9)
    assert gate(out, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["confidence"] == 0.9 and said["models"][0]["limits"][0]["limit"] == 97.0
    assert said["limits_from"].endswith("started with, --min-recovery 97 --confidence 0.9")
    assert gate(out, "--min-score", "sums=70", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["limits_from"] is None and said["confidence"] == 0.95


@pytest.mark.parametrize(
    "limit",
    [
        ["--task", "sums=90"],
        ["--min-score", "sums=70"],
        ["--max-drop", "5"],
        ["--overall", "90"],
        ["--average", "maths=90"],
    ],
    ids=lambda one: one[0],
)
def test_only_what_is_given_is_asked(limit: list[str], out: Path, capsys: pytest.CaptureFixture[str]):
    store(out, sums=(10, 10), words=(100, 0))
    gate(out, *limit, "--json")
    limits = json.loads(capsys.readouterr().out)["models"][0]["limits"]
    assert 99.0 not in [one["limit"] for one in limits] and len(limits) == (2 if "--max-drop" in limit else 1)


@pytest.mark.parametrize(("how", "code", "said"), [("pass", 0, "let through"), ("fail", 1, "failed")])
def test_the_code_said_is_the_code_of_the_process(
    how: str, code: int, said: str, out: Path, capsys: pytest.CaptureFixture[str]
):
    folder = store(out)
    assert gate(out, "--on-inconclusive", how, "--json") == code
    assert json.loads(capsys.readouterr().out)["exit_code"] == code
    kept = stored_verdict(folder)
    assert kept is not None and kept["exit_code"] == 3, "the verdict's own"
    assert gate(out, "--on-inconclusive", how) == code
    assert capsys.readouterr().out.startswith(f"INCONCLUSIVE, {said} by --on-inconclusive {how}: run sums-0a1b2c3d")
    assert gate(out, "--on-inconclusive", how, "--min-recovery", "97") == 0
    assert capsys.readouterr().out.startswith("PASS: run")


def test_a_failure_has_its_reason_and_the_next_step(out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = store(out, sums=(200, 0))
    summary = tmp_path / "summary.md"
    assert gate(out, "--min-recovery", "95", "--summary", str(summary)) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "sums, toy-w8a8: recovery 75.00 %" in text and "is below 95 %: its whole interval is." in text
    assert f"next: read the card, {folder.path}/README.md" in text
    assert f"evalcard compare {folder.path} --flips 5" in text
    written = summary.read_text()
    assert "is below 95 %: its whole interval is." in written and "evalcard compare sums-0a1b2c3d --flips 5" in written


def test_what_was_written_is_said(out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder, file = store(out), tmp_path / "gate.yaml"
    write = ["--write-gate", str(file)]
    gate(out, "--min-recovery", "97", *write)
    assert capsys.readouterr().out.endswith(f"Wrote {file}: a new gate file.\n")
    gate(out, "--min-recovery", "97", *write)
    assert capsys.readouterr().out.endswith(f"Wrote {file}: no limit changed.\n")
    gate(out, "--min-recovery", "98", *write, "--json")
    said = capsys.readouterr()
    assert json.loads(said.out) and said.err == f"Wrote {file}: min_recovery from 97 to 98.\n"
    run = folder.read_run()
    models = [run.models[0].model_copy(update={"name": "acme/new"}), *run.models[1:]]
    folder.write_run(run.model_copy(update={"models": models}))
    assert gate(out, "--min-recovery", "98", *write) == 2
    assert "moves the limits to other models" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--junit", "--summary", "--write-gate"])
def test_no_folder_is_made_for_an_output(option: str, out: Path, tmp_path: Path):
    store(out)
    assert gate(out, "--min-recovery", "97", option, str(tmp_path / "mistyped" / "file")) == 2
    assert not (tmp_path / "mistyped").exists()
