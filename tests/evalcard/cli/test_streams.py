"""What is printed ends no command, whoever reads it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = (
    "import sys; from evalcard.cli import main; import evalcard.cli.main as m;"
    "m.invoke = lambda: {what}; sys.argv = ['evalcard', *{args}]; main.main()"
)
LONG = "[print('x' * 1000) for _ in range(500)] and {code}"


def _env(script: str) -> dict[str, str]:
    return {"PY": sys.executable, "SCRIPT": script, "PYTHONPATH": ":".join(sys.path), "PATH": os.defpath}


def code_of(script: str, *, into: str) -> tuple[int, str]:
    """(exit code, stderr) of a Python program whose stdout goes to ``into``."""
    line = f'"$PY" -c "$SCRIPT" {into}; echo "${{PIPESTATUS[0]}}" >&2'
    done = subprocess.run(["bash", "-c", line], env=_env(script), capture_output=True, text=True)
    *said, code = done.stderr.splitlines()
    return int(code), "\n".join(said)


@pytest.mark.parametrize("code", [0, 1, 3, 4])
@pytest.mark.parametrize("into", ["| true", "2>&1 | true"])
def test_a_reader_that_goes_away_changes_no_exit_code(code: int, into: str):
    script = CODE.format(what=LONG.format(code=code), args=["gate"])
    assert code_of(script, into=into) == (code, "")


@pytest.mark.parametrize("program", ["import click; click.echo('x' * 99999)", "import rich; rich.print('x ' * 99999)"])
def test_neither_click_nor_rich_end_the_process(program: str):
    script = f"def said():\n    {program}\n    return 0\n" + CODE.format(what="said()", args=["list"])
    assert code_of(script, into="| true") == (0, "")


def test_help_needs_no_reader():
    script = "import sys; from evalcard.cli.main import main; sys.argv = ['evalcard', 'list', '--help']; main()"
    assert code_of(script, into="| true") == (0, "")


@pytest.mark.parametrize(("command", "code", "left"), [("gate", 0, 0), ("gate", 1, 1), ("list", 0, 2), ("run", 3, 3)])
def test_a_full_disk_is_told_and_a_verdict_stands(command: str, code: int, left: int):
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    found, said = code_of(CODE.format(what=LONG.format(code=code), args=[command]), into="> /dev/full")
    assert found == left and "cannot print to standard output: No space left" in said and "Traceback" not in said


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("code", [0, 1, 3])
def test_streams_that_are_closed_change_no_exit_code(closed: str, code: int):
    script = CODE.format(what=f"lines.tell('said') or {code}", args=["gate"]).replace(
        "import sys;", "import sys; from evalcard.cli import lines;", 1
    )
    done = subprocess.run(
        ["bash", "-c", f'"$PY" -c "$SCRIPT" {closed}'], env=_env(script), capture_output=True, text=True
    )
    assert done.returncode == code and "Traceback" not in done.stderr


def test_no_file_gets_the_number_of_a_closed_stream():
    what = "sys.exit(int(os.open(os.devnull, os.O_RDONLY) < 3) * 9) or 0"
    script = CODE.format(what=what, args=["list"]).replace("import sys;", "import sys, os;", 1)
    done = subprocess.run(["bash", "-c", '"$PY" -c "$SCRIPT" <&- >&- 2>&-'], env=_env(script), capture_output=True)
    assert done.returncode == 0
