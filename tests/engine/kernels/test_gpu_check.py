"""The GPU benchmark works as far as a machine without one can tell."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "engine" / "benchmarks" / "gpu_check.py"


def rehearse(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "--rehearse", *map(str, arguments)]
    return subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True)


@pytest.mark.usefixtures("working_interpreter")
def test_a_rehearsal_runs_every_case(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    done = rehearse("--part", "kernels", "--csv", table)
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
        "decode",
        "decode fp8",
        "decode int8",
        "decode shared",
        "prefill",
        "prefill chunk",
    } < kinds
    assert f"{len(rows)} cases, every one right" in done.stdout
    assert all(float(row["error"]) <= float(row["allowed"]) and float(row["ms"]) > 0 for row in rows)


@pytest.mark.usefixtures("working_interpreter")
def test_a_rehearsal_holds_models_against_the_cpu(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    done = rehearse("--part", "model", "--schemes", "plain,w4a16-g32,w8a8", "--csv", table)
    assert done.returncode == 0 and "3 cases, every one right" in done.stdout, done.stdout + done.stderr
    rows = {row["scheme"]: row for row in csv.DictReader(table.open())}
    assert list(rows) == ["plain", "w4a16-g32", "w8a8"] and rows["w8a8"]["linears"].startswith("packed")
    held = [int(row["linear_bytes"]) for row in rows.values()]
    assert held[1] < held[2] < held[0]
    assert all(float(row["error"]) <= float(row["allowed"]) for row in rows.values())
    assert all(float(row["prefill_tokens_s"]) > 0 and float(row["decode_tokens_s"]) > 0 for row in rows.values())


def test_a_file_with_other_columns_is_refused_before_anything_runs(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("date,what\n")
    done = rehearse("--part", "kernels", "--csv", table)
    assert done.returncode != 0 and "other columns" in done.stderr and table.read_text() == "date,what\n"


@pytest.mark.usefixtures("working_interpreter")
def test_a_rehearsal_measures_decoding_and_prompts_beside_the_peers(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    done = rehearse("--part", "speed", "--schemes", "plain,w8a8", "--csv", table)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = list(csv.DictReader(table.open()))
    ours = [(row["scheme"], row["what"]) for row in rows if row["engine"] == "evalcard"]
    assert ours == [(scheme, what) for scheme in ("plain", "w8a8") for what in ("decode", "prefill")]
    peers = [(row["engine"], row["what"]) for row in rows if row["engine"] != "evalcard"]
    assert peers == [("generate", "decode"), ("continuous batching", "decode")]
    assert all(float(row["tokens_s"]) > 0 and not row["note"] for row in rows)
    assert "times as fast as generate at 2 sequences" in done.stdout and f"{len(rows)} rows measured" in done.stdout


@pytest.mark.usefixtures("working_interpreter")
def test_what_does_not_fit_into_the_time_is_left_out(tmp_path: Path) -> None:
    """Rows that were measured are in the file all the same, and a part that fails is a row that says why."""
    table = tmp_path / "rows.csv"
    done = rehearse("--part", "speed", "--schemes", "w8a8,nonsense", "--seconds", "0.001", "--csv", table)
    rows = list(csv.DictReader(table.open()))
    assert done.returncode == 1 and [(row["scheme"], row["what"]) for row in rows] == [("nonsense", "failed")]
    assert "nonsense" in rows[0]["note"]
