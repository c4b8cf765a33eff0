"""Starts the tests that run kernels in Triton's interpreter, in a process that has it switched on from the start."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def interpreted(files: list[Path]) -> int:
    """Run these files where Triton interprets, all of them; how many tests passed."""
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, files)]
    done = subprocess.run(command, env=environment, cwd=HERE.parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed and "skipped" not in done.stdout, done.stdout[-500:]
    return int(passed[1])


@pytest.mark.usefixtures("working_interpreter")
def test_kernels_against_their_references(interpreted_files: list[str]) -> None:
    assert interpreted([HERE / name for name in interpreted_files]) > 300


@pytest.mark.usefixtures("working_interpreter")
def test_linears_and_whole_models_by_kernels() -> None:
    files = [HERE.parent / "quant" / "test_kernel_linear.py", HERE.parent / "test_layer_modules.py"]
    assert interpreted(files) == 72


@pytest.mark.usefixtures("working_interpreter")
def test_attention_against_its_definition() -> None:
    assert interpreted([HERE.parent / "attention" / "test_triton.py"]) == 90


@pytest.mark.usefixtures("working_interpreter")
def test_decoding_by_graphs() -> None:
    assert interpreted([HERE.parent / "test_graphs.py"]) == 39


def test_every_file_is_named(interpreted_files: list[str], plain_files: list[str]) -> None:
    """A file that is in neither list would run in both processes, and its kernels start in one."""
    found = sorted(path.name for path in Path(__file__).parent.glob("test_*.py"))
    assert found == sorted(interpreted_files + plain_files)
