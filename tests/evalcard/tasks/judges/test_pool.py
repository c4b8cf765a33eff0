"""Workers: limits, deaths, threads, ends."""

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evalcard.errors import UserError
from evalcard.tasks.judges import pool as pool_module
from evalcard.tasks.judges.pool import WorkerPool

SLOW = {"pattern": "^(a+)+$", "text": "a" * 60 + "b"}


def question(text: str) -> dict[str, str]:
    return {"pattern": ".+", "text": text}


def test_answers_come_in_the_order_of_the_questions():
    with WorkerPool("regex") as pool:
        assert pool.ask([question(str(number)) for number in range(200)]) == [str(number) for number in range(200)]


def test_a_question_over_its_limit_costs_only_itself():
    with WorkerPool("regex", cpu_limit_s=0.3) as pool:
        asked = [question("1"), SLOW, question("2"), SLOW, SLOW, question("3")]
        assert pool.ask(asked) == ["1", None, "2", None, None, "3"]


def test_time_between_questions_does_not_count():
    with WorkerPool("regex", cpu_limit_s=0.3) as pool:
        for _ in range(12):  # each takes about 0.1 s; together they are over the limit
            assert pool.ask([{"pattern": "^(a+)+$", "text": "a" * 20 + "b"}] * 3) == [None] * 3
            assert pool.ask([question("1")]) == ["1"]


def test_the_wall_clock_backs_the_limit_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pool_module, "_WALL_FACTOR", 0.02)
    with WorkerPool("regex", cpu_limit_s=25) as pool:
        assert pool.ask([SLOW, question("1")]) == [None, "1"]


def test_a_worker_that_was_killed_is_replaced():
    with WorkerPool("regex") as pool:
        pool.ask([question("1")] * 8)
        for worker in pool._workers:
            if worker._process is not None:
                worker._process.kill()
        assert pool.ask([question("1")] * 8) == ["1"] * 8
        assert pool.ask([question("2")] * 8) == ["2"] * 8


def kill_when_asked(monkeypatch: pytest.MonkeyPatch, times: int, number: signal.Signals) -> list[int]:
    """The first so many exchanges find their worker killed from outside while it works."""
    killed: list[int] = []
    exchange = pool_module._Worker._exchange

    def exchange_and_kill(worker: pool_module._Worker, line: str | None, wall_limit_s: float) -> str | None:
        process = worker._process
        if line is not None and len(killed) < times and process is not None:
            killed.append(process.pid)
            threading.Timer(0.1, os.kill, (process.pid, number)).start()
            line = json.dumps(SLOW)
        return exchange(worker, line, wall_limit_s)

    monkeypatch.setattr(pool_module._Worker, "_exchange", exchange_and_kill)
    return killed


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_question_whose_worker_was_killed_from_outside_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals
):
    killed = kill_when_asked(monkeypatch, 2, number)
    with WorkerPool("regex") as pool:
        assert pool.ask([question("1")]) == ["1"]
    assert len(set(killed)) == 2


def test_workers_that_keep_being_killed_are_no_verdict(monkeypatch: pytest.MonkeyPatch):
    killed = kill_when_asked(monkeypatch, 99, signal.SIGKILL)
    with WorkerPool("regex") as pool, pytest.raises(UserError, match="(?s)was killed 3 times.*memory"):
        pool.ask([question("1")])
    assert len(set(killed)) == 3


def test_nothing_starts_before_it_is_asked_and_nothing_stays():
    with WorkerPool("regex") as pool:
        assert all(worker._process is None for worker in pool._workers)
        assert pool.ask([]) == []
        assert all(worker._process is None for worker in pool._workers)
        pool.ask([question("1")])
        processes = [worker._process for worker in pool._workers if worker._process is not None]
        assert len(processes) == 1
    assert processes[0].poll() is not None


def test_a_pool_serves_several_threads():
    with WorkerPool("regex") as pool, ThreadPoolExecutor(3) as threads:
        parts = threads.map(lambda part: pool.ask([question(f"{part}-{n}") for n in range(20)]), range(3))
        assert list(parts) == [[f"{part}-{n}" for n in range(20)] for part in range(3)]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("judge")]


def test_a_worker_that_cannot_start_is_the_users_to_mend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    broken = tmp_path / "math_verify"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise ImportError('no math here')", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with WorkerPool("math") as pool, pytest.raises(UserError, match="(?s)math-verify installed.*no math here"):
        pool.ask([{"gold": "1", "answer": "2"}])


def test_a_worker_finds_what_the_parent_finds_and_nothing_of_the_current_folder(tmp_path: Path):
    (tmp_path / "json.py").write_text("raise ImportError('not this one')", encoding="utf-8")
    code = (
        "import sys; sys.path = [path for path in sys.path if path];"
        "from evalcard.tasks.judges.pool import WorkerPool;"
        "pool = WorkerPool('regex'); print(pool.ask([{'pattern': '.', 'text': 'x'}])); pool.close()"
    )
    root = Path(pool_module.__file__).parents[3]
    # An empty entry would be the current folder, under its full name.
    places = [str(root), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("['x']\n", "")
