"""The command line: lazy, quick, and with the design's exit codes."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from evalcard.cli.main import COMMANDS, invoke
from evalcard.collector import EVERY


def evalcard(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "evalcard", *args], capture_output=True, text=True, cwd=cwd)


def test_help_names_every_command():
    done = evalcard("--help")
    assert done.returncode == 0
    assert all(name in done.stdout for name in COMMANDS)


def test_an_unknown_command_shows_near_matches(capsys: pytest.CaptureFixture[str]):
    assert invoke(["taks"]) == 2
    said = capsys.readouterr().err
    assert "No such command 'taks' (did you mean tasks?)" in said and "rescore" in said


def test_help_imports_no_subcommand():
    code = "import sys; from evalcard.cli.main import invoke; invoke(['--help']); sys.stderr.write(str([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "'evalcard.cli.main'" in done.stderr
    for heavy in ("torch", "lm_eval", "pydantic", "rich", "evalcard.cli.run"):
        assert f"'{heavy}'" not in done.stderr, heavy


def test_help_costs_little_more_than_the_interpreter():
    def fastest(*command: str) -> float:
        spans = []
        for _ in range(3):
            start = time.perf_counter()
            subprocess.run([sys.executable, *command], capture_output=True, check=True)
            spans.append(time.perf_counter() - start)
        return min(spans)

    assert fastest("-m", "evalcard", "--help") < 6 * fastest("-c", "import click")


@pytest.mark.parametrize("command", list(COMMANDS))
def test_help_of_every_command_loads_nothing_heavy(command: str):
    code = (
        f"import sys; from evalcard.cli.main import invoke; code = invoke(['{command}', '--help']);"
        "print(code, {'torch', 'lm_eval', 'transformers'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip() == "0 set()"


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "10000"), ({"GOMP_SPINCOUNT": "5"}, "5"), ({"OMP_WAIT_POLICY": "ACTIVE"}, None)],
)
def test_waiting_threads_spin_briefly_unless_the_user_says_otherwise(given: dict[str, str], expected: str | None):
    code = "import os; from evalcard.cli import main; main._calm_threads(); print(os.environ.get('GOMP_SPINCOUNT'))"
    env = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")} | given
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.stdout.strip() == str(expected)


def test_version():
    assert invoke(["--version"]) == 0


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["rn"], "No such command 'rn'"),
        (["run", "--bseline", "x"], "No such option"),
        (["run", "--kv-memory", "much"], "is no size"),
        (["run", "--model-args", "a"], "is not key=value"),
        (["run", "--baseline", "org/m"], "tasks"),
        (["run", "--baseline", "@demo", "--compressed", "org/m:w9a9"], "unknown scheme 'w9a9'"),
        (["run", "--compressed", "org/m:w8a8"], "--compressed needs --baseline"),
        (["run", "--compressed", "@demo:w8a8", "--compressed", "@demo:W8A8"], "given twice"),
        (["run", "--reuse", "nowhere"], "no such folder"),
        (["run", "--threads", "1000000"], "threads"),
        (["run", "nowhere.yaml"], "cannot read the spec"),
        (["gate"], "no complete run"),
        (["gate", "--decide", "perhaps"], "perhaps"),
        (["gate", "--task", "gsm8k=much"], "no number"),
        (["gate", "--junit", "nowhere/junit.xml"], "no folder"),
        (["card", "no-such-run"], "no run 'no-such-run'"),
    ],
)
def test_mistakes_end_with_2_and_a_hint(args: list[str], says: str, capsys, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert invoke(args) == 2
    assert says in capsys.readouterr().err
    assert not list(tmp_path.iterdir()), "a mistake leaves nothing behind"


def test_internal_error_is_70_and_says_what_is_safe(monkeypatch, capsys):
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("made up")

    monkeypatch.setattr("evalcard.results.runs.find_run", broken)
    assert invoke(["card"]) == 70
    error = capsys.readouterr().err
    assert "made up" in error and "the same command resumes it" in error


def test_interrupt_is_130(monkeypatch, capsys):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("evalcard.results.runs.find_run", interrupted)
    assert invoke(["card"]) == 130
    assert "resumes" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error():
    done = subprocess.run(f"{sys.executable} -m evalcard list | head -n 1", shell=True, capture_output=True, text=True)
    assert "Traceback" not in done.stderr and done.stdout.strip()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_no_terminal_is_too_poor_for_a_table(stored_run: Any, encoding: str):
    run = stored_run().add("sums", [1, 1, 0, 1] * 10, [1, 0, 0, 1] * 10, category="r\u00e4tsel \u2603")
    path = run.add("words", [0] * 40, [0] * 40).write()
    for command in (["compare", str(path), "--flips", "2"], ["compare", str(path), "--min-recovery", "95"], ["list"]):
        done = subprocess.run([sys.executable, "-m", "evalcard", *command], capture_output=True,
                              env={**os.environ, "PYTHONIOENCODING": encoding})  # fmt: skip
        assert b"Traceback" not in done.stderr and done.returncode in (0, 4), done.stderr
        if encoding == "ascii" and command[0] == "compare":
            assert b"+-" in done.stdout and done.stdout.isascii()


def test_an_error_is_wrapped_on_a_terminal_and_one_line_elsewhere(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "80")
    args = ["compare", "a-run-that-is-not-there", "--out", "a-folder-of-results-that-is-not-there"]
    assert invoke(args) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1 and len(said) > 80
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert invoke(args) == 2
    wrapped = capsys.readouterr().err
    assert max(map(len, wrapped.splitlines())) <= 80 and wrapped.split() == said.split()


def test_a_folder_that_is_gone_is_named(tmp_path: Path):
    gone = tmp_path / "gone"
    code = (
        f"import os, sys; os.mkdir({str(gone)!r}); os.chdir({str(gone)!r}); os.rmdir({str(gone)!r}); "
        "sys.argv = ['evalcard', 'run']; from evalcard.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, env=os.environ)
    assert (done.returncode, "was started in is gone. Change to one that exists." in done.stderr) == (2, True), done


def test_commands_look_for_garbage_rarely():
    code = (
        "import atexit, gc, sys; from evalcard.cli.main import main; sys.argv = ['evalcard', '--version']; "
        "atexit.register(lambda: print(gc.get_threshold(), gc.isenabled())); main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == f"{EVERY} True", done
