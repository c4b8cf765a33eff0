"""kill -9 in the middle of a run, three times; the resumed run equals an uninterrupted one."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

ITEMS = 60


def command(out: Path) -> list[str]:
    return [sys.executable, "-m", "evalcard", "run", "--tasks", "demo_words,demo_maths", "--limit-per-subtask",
            str(ITEMS), "--out", str(out), "--threads", "1", "--quiet"]  # fmt: skip


def answers(out: Path) -> dict[tuple, tuple]:
    """Everything a run says, by model, task and item."""
    found = {}
    for path in out.glob("*/samples/*/*.jsonl"):
        for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
            sample = json.loads(line)
            address = (path.parent.name, path.stem, sample["item_id"], sample["repeat"])
            found[address] = (sample["key"], sample["text"], sample["token_ids"], sample["choices"], sample["finish"])
    return found


def count_lines(out: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in out.glob("*/samples/*/*.jsonl"))


def scores(out: Path) -> dict:
    (path,) = out.glob("*/comparison.json")
    return json.loads(path.read_text())


def run_and_kill_after(out: Path, lines: int) -> int:
    """Start a run, kill it once ``lines`` more answers are stored; returns the number of stored answers."""
    goal = count_lines(out) + lines
    process = subprocess.Popen(command(out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while process.poll() is None and count_lines(out) < goal:
        assert time.monotonic() < deadline, "the run makes no progress"
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return count_lines(out)


def test_three_kills_change_nothing(tmp_path: Path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run(command(whole), check=True, stdout=subprocess.DEVNULL, env=os.environ)
    expected = answers(whole)
    assert len(expected) == 3 * 2 * ITEMS
    picks = random.Random(os.getpid())
    stored = 0
    for _ in range(3):
        before = stored
        stored = run_and_kill_after(broken, picks.randint(1, 70))
        assert stored >= before, "a stored answer was lost"
        assert stored < len(expected), "the run ended before it was killed"
    subprocess.run(command(broken), check=True, stdout=subprocess.DEVNULL)
    assert answers(broken) == expected
    assert scores(broken)["tasks"] == scores(whole)["tasks"]
    (record,) = broken.glob("*/run.json")
    reused = sum(step["reused"] for step in json.loads(record.read_text())["progress"])
    assert reused >= stored, (reused, stored)
