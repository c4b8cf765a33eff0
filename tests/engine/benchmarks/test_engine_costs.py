"""The benchmarks of the engine's own cost work: their tables hold every row, and a bar that is not met fails them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).parents[3] / "engine" / "benchmarks"


def benchmark(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / script), "--threads", "1", *arguments]
    return subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=120, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=1024,
    )  # fmt: skip
    where = tmp_path_factory.mktemp("tiny")
    LlamaForCausalLM(config).save_pretrained(where)
    return where


def test_a_table_of_parts_of_a_step(folder: Path) -> None:
    few = ("--new-tokens", "6", "--prompt-tokens", "9", "--cpu-time")
    done = benchmark("overhead.py", "--model", str(folder), "--sequences", "1,3", *few)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if re.match(r" +\d", line)]
    assert [(row[0], row[1]) for row in rows] == [(n, how) for n in "13" for how in ("greedy", "sampled")]
    for *parts, whole, outside in [[float(cell.rstrip("%")) for cell in row[2:]] for row in rows]:
        model = parts[3]
        assert all(part >= 0 for part in parts) and 0 < model < whole
        assert sum(parts) == pytest.approx(whole, rel=0.3) and outside == pytest.approx(
            100 * (1 - model / whole), abs=9
        )


def test_a_share_that_is_too_large_fails(folder: Path) -> None:
    """A model of one small layer takes less time than what surrounds it."""
    few = ("--new-tokens", "6", "--prompt-tokens", "9", "--cpu-time")
    done = benchmark("overhead.py", "--model", str(folder), "--sequences", "64", *few)
    assert done.returncode == 1 and "at 64 sequences: not met" in done.stdout, done.stdout + done.stderr


def test_growth_by_items_prompts_and_concurrency() -> None:
    done = benchmark("scaling.py", "--items", "10,40", "--queued", "500", "--queued-tokens", "50")
    tables = done.stdout.split("\n\n")[:]
    assert [re.findall(r"^ +(\d+) ", table, re.MULTILINE) for table in tables[:4]] == [
        ["10", "40"], ["10", "40"], ["256", "1024", "4096"], ["16", "64", "256"],
    ], done.stdout + done.stderr  # fmt: skip
    assert "500 requests of 50 tokens" in tables[4] and "queued in under 60 s and 4 GB: met" in tables[4]
    assert done.returncode == ("NOT MET" in done.stdout), done.stdout


def test_whole_runs_of_a_model(folder: Path) -> None:
    done = benchmark("scaling.py", "--model", str(folder), "--items", "4,8")
    assert done.stdout.count("time per item grows by") == 1 and "requests of" not in done.stdout, done.stderr
    assert done.returncode == ("NOT MET" in done.stdout)
