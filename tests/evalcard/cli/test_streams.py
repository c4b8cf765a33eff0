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


def code_of(script: str, *, into: str) -> tuple[int, str]:
    """(exit code, stderr) of a Python program whose stdout goes to ``into``."""
    line = f'"$PY" -c "$SCRIPT" {into}; echo "${{PIPESTATUS[0]}}" >&2'
    env = {"PY": sys.executable, "SCRIPT": script, "PYTHONPATH": ":".join(sys.path), "PATH": os.defpath}
    done = subprocess.run(["bash", "-c", line], env=env, capture_output=True, text=True)
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
