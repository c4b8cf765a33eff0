"""Starts the tests that run kernels in Triton's interpreter, in a process that has it switched on from the start."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.usefixtures("working_interpreter")
def test_kernels_against_their_references(interpreted_files: list[str]) -> None:
    here = Path(__file__).parent
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    files = [str(here / name) for name in interpreted_files]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, env=environment, cwd=here.parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed and int(passed[1]) > 300 and "skipped" not in done.stdout, done.stdout[-500:]


def test_every_file_is_named(interpreted_files: list[str], plain_files: list[str]) -> None:
    """A file that is in neither list would run in both processes, and its kernels start in one."""
    found = sorted(path.name for path in Path(__file__).parent.glob("test_*.py"))
    assert found == sorted(interpreted_files + plain_files)
