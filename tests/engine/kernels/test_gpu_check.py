"""The GPU benchmark works as far as a machine without one can tell."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "engine" / "benchmarks" / "gpu_check.py"


@pytest.mark.usefixtures("working_interpreter")
def test_a_rehearsal_runs_every_case(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    command = [sys.executable, str(SCRIPT), "--part", "kernels", "--rehearse", "--csv", str(table)]
    done = subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = list(csv.DictReader(table.open()))
    kinds = {row["kernel"] for row in rows}
    assert {
        "w4a16",
        "w4a16 order",
        "w8a8",
        "fp8",
        "fp8 blocks",
        "nf4",
        "mxfp4",
        "nvfp4",
        "rms_norm",
        "rotary_cache",
    } < kinds
    assert f"{len(rows)} cases, every one right" in done.stdout
    assert all(float(row["error"]) <= float(row["allowed"]) and float(row["ms"]) > 0 for row in rows)
