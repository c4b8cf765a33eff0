"""The benchmark of schemes works, on a model that takes no time; its figures mean nothing here, its bytes do."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[3] / "engine" / "benchmarks" / "schemes.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=120, hidden_size=128, intermediate_size=192, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256,
    )  # fmt: skip
    where = tmp_path_factory.mktemp("tiny")
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(where)
    return where


def benchmark(*arguments: str) -> subprocess.CompletedProcess[str]:
    small = ("--prompt-tokens", "40,21", "--linear-rows", "33", "--rounds", "2", "--threads", "1")
    command = [sys.executable, str(SCRIPT), *arguments, *small]
    return subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True)


def test_rows_of_a_small_model(folder: Path, tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    for schemes in ("w8a8,w4a16", "nf4"):
        done = benchmark(str(folder), "--schemes", schemes, "--csv", str(table))
        assert done.returncode == 0, done.stdout + done.stderr
    rows = list(csv.DictReader(table.open()))
    packed, expanded = "packed (as asked)", "expanded (as asked)"
    assert [(row["scheme"], row["weights"]) for row in rows] == [
        ("w8a8", "packed (int8 products)"), ("w4a16", packed), ("w4a16", expanded), ("nf4", packed), ("nf4", expanded),
    ]  # fmt: skip
    weights = 2 * (128 * 128 * 2 + 128 * 64 * 2 + 3 * 128 * 192)
    shares = [float(row["share_of_bf16"]) for row in rows]
    assert shares[2] == shares[4] == 2.0 and max(shares[1], shares[3]) <= 0.35 and 0.5 <= shares[0] < 0.53
    assert int(rows[2]["linear_bytes"]) == 4 * weights
    speeds = [float(value) for row in rows for name, value in row.items() if name.endswith(("_ratio", "tokens_s"))]
    assert len(speeds) == 5 * 7 and all(value > 0 for value in speeds)
    assert str(folder) not in table.read_text()


def test_rows_of_another_kind_are_not_mixed_in(folder: Path, tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("date,what\n1,2\n")
    done = benchmark(str(folder), "--schemes", "w8a8", "--weights", "packed", "--csv", str(table))
    assert done.returncode != 0 and "holds other columns (date, what" in done.stderr
    assert table.read_text() == "date,what\n1,2\n"
