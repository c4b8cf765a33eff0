"""Worker processes that compare answers with a hard limit on time and memory. Light: the standard library only.

A worker is ``python -m evalcard.tasks.judges.worker``: one JSON line in, one out. Its limit is counted in its own CPU
seconds, which the kernel enforces by ending it, so a verdict does not depend on what else the machine does; the wall
clock only backs that up. A worker that its question ended (its time, its memory) is one lost question, and the next
gets a new worker. One that was ended from outside says nothing about its question, which is asked again.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Literal, Self

from evalcard.errors import UserError

WorkerKind = Literal["math", "regex"]
CPU_LIMIT_S = 4.5
"""CPU seconds for one question: under 5 s with what it costs to end the worker."""
_WALL_FACTOR = 10
_START_LIMIT_S = 180.0
_MOST_WORKERS = 4
_RETRIES = 2
_EXIT_LIMIT_S = 10.0
_OWN_DEATHS = frozenset(
    -getattr(signal, name)
    for name in ("SIGPROF", "SIGXCPU", "SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE", "SIGILL")
    if hasattr(signal, name)
)
"""How a question ends its own worker: by the CPU limit, or where C code meets the memory limit or its stack's end."""


class WorkerPool:
    """Up to four workers of one kind, started when first asked; a context that ends them."""

    def __init__(self, kind: WorkerKind, cpu_limit_s: float = CPU_LIMIT_S):
        assert cpu_limit_s > 0, cpu_limit_s
        self._size = min(_MOST_WORKERS, os.cpu_count() or 1)
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._workers = [_Worker(kind, cpu_limit_s) for _ in range(self._size)]
        for worker in self._workers:
            self._idle.put(worker)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the workers; the pool may be asked again and starts new ones."""
        for worker in self._workers:
            worker.end()

    def ask(self, questions: Sequence[Mapping[str, Any]]) -> list[Any]:
        """One result for each question, in order; None where it met a limit.

        Raises UserError where no worker can start at all, or where one question's workers keep being killed.
        """
        if not questions:
            return []
        size = min(self._size, len(questions))
        with ThreadPoolExecutor(size, thread_name_prefix="judge") as threads:
            try:
                return list(threads.map(self._ask_one, questions))
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                self.close()  # whoever still waits for an answer finds its worker gone
                raise

    def _ask_one(self, question: Mapping[str, Any]) -> Any:
        worker = self._idle.get()
        try:
            return worker.ask(question)
        finally:
            self._idle.put(worker)


class _Worker:
    """One process, started when asked and again after it was ended."""

    def __init__(self, kind: WorkerKind, cpu_limit_s: float):
        self._kind, self._cpu_limit_s = kind, cpu_limit_s
        self._process: subprocess.Popen[str] | None = None
        self._is_overdue = False

    def ask(self, question: Mapping[str, Any]) -> Any:
        for _ in range(1 + _RETRIES):
            if self._process is None or self._process.poll() is not None:
                self.end()
                self._start()
            process = self._process
            answer = self._exchange(json.dumps(question), self._cpu_limit_s * _WALL_FACTOR)
            if answer is not None:
                return json.loads(answer)["result"]
            if self._process is not process or self._is_own_death():  # another thread ended it: nobody waits any more
                self.end()
                return None
            self.end()
        raise UserError(
            f"The process that compares answers ({self._kind}) was killed {1 + _RETRIES} times over one answer, not by "
            f"its own limits of time and memory. It has to live until it has compared them. Most often the machine "
            f"runs out of memory: end other programs or give this one more, then run the command again."
        )

    def _is_own_death(self) -> bool:
        """Whether the process was ended by what it was asked, as by its limits, rather than from outside."""
        process = self._process
        assert process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_EXIT_LIMIT_S)
        return self._is_overdue or process.returncode in _OWN_DEATHS

    def _start(self) -> None:
        # -P: nothing in the folder where the user happens to be may stand in for a module.
        module = "evalcard.tasks.judges.worker"
        command = [sys.executable, "-P", "-m", module, self._kind, str(self._cpu_limit_s)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="ascii",
            errors="replace",
            env=_environment(),
            start_new_session=True,  # an interrupt at the terminal is the parent's to handle
        )
        ready = self._exchange(None, _START_LIMIT_S)
        if ready is None:
            error = self._error()
            self.end()
            raise UserError(
                f"The process that compares answers ({self._kind}) did not start. Is math-verify installed for "
                f"{sys.executable}?\n{error}"
            )

    def _exchange(self, line: str | None, wall_limit_s: float) -> str | None:
        """Send a line (None sends nothing) and read one; None where the process ends before it answers."""
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        self._is_overdue = False
        timer = threading.Timer(wall_limit_s, self._kill_overdue, (process,))
        timer.daemon = True
        timer.start()
        try:
            if line is not None:
                process.stdin.write(line + "\n")
                process.stdin.flush()
            answer = process.stdout.readline()
        except (BrokenPipeError, ValueError):  # it died, or was ended by another thread
            return None
        finally:
            timer.cancel()
        return answer if answer.endswith("\n") else None

    def _kill_overdue(self, process: subprocess.Popen[str]) -> None:
        self._is_overdue = True
        process.kill()

    def _error(self) -> str:
        """The last of what a process that failed to start wrote."""
        process = self._process
        assert process is not None and process.stderr is not None
        process.kill()
        return process.stderr.read()[-2000:]

    def end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _environment() -> dict[str, str]:
    """The parent's, with its module path, so that a worker finds the evalcard that started it; one thread each."""
    paths = [path or os.getcwd() for path in sys.path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
