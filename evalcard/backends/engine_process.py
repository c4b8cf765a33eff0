"""A process that holds the engine of a run, so that it loads while tasks are read and prompts are built.

The process is ``python -m evalcard.backends.engine_worker``. Calls are pickled one after the other over a socket, and
answered in their order; in between come answers and what the engine says of its progress. The process ends when this
one does, however that happens. Light: no torch, no harness.
"""

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from typing import Any

from evalcard.errors import Interrupted, UserError
from evalcard.progress import Bar, Progress

SWITCH = "EVALCARD_ENGINE_PROCESS"
"""Environment variable: 0 keeps the engine in the process of the command."""

_STOPPED_FROM_OUTSIDE = frozenset({-signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP})


class EngineFault(Exception):
    """What went wrong in the engine's process, with its own traceback; a fault of evalcard's."""


@dataclass(frozen=True, slots=True)
class Call:
    """Something asked of the process."""

    number: int
    name: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Returned:
    """The end of a call: its value, or what it raised."""

    number: int
    value: Any = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """On the way: ``item`` (number, answer) and ``say``, or of a bar ``open``, ``advance``, ``note`` and ``close``."""

    what: str
    arguments: tuple[Any, ...]


def pays() -> bool:
    """Whether a process of its own saves time: not where this one has torch already, which is most of what it loads."""
    return os.name == "posix" and "torch" not in sys.modules and os.environ.get(SWITCH, "1").strip() != "0"


class EngineProcess:
    """Starts with its first call; ends when `close` says so or the last of its users has left."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._calls = 0
        self._returned: dict[int, Returned] = {}
        self._bars: list[tuple[AbstractContextManager[Bar], Bar]] = []
        self._users: set[int] = set()
        self._joined = 0
        self.generation = 0
        """How many processes were started: what one was told dies with it."""

    @property
    def is_running(self) -> bool:
        return self._connection is not None

    @property
    def num_users(self) -> int:
        """Who may still ask."""
        return len(self._users)

    def join(self) -> int:
        """A number for one more user, who calls `leave` with it."""
        self._joined += 1
        self._users.add(self._joined)
        return self._joined

    def send(self, name: str, *arguments: Any) -> int:
        """Ask without waiting; returns the call's number."""
        if self._connection is None:
            self._start()
        assert self._connection is not None
        self._calls += 1
        try:
            self._connection.send(Call(self._calls, name, arguments))
        except OSError:
            raise self._ended() from None
        return self._calls

    def wait(self, number: int, on_item: Callable[[int, Any], None] | None = None) -> Any:
        """The value of a call, or what it raised; ``on_item(number, answer)`` takes what comes meanwhile.

        Whatever else ends the wait ends the process, since nobody would take its answers.
        """
        try:
            while number not in self._returned:
                self._take(self._receive(), on_item)
        except BaseException:
            self.close()
            raise
        returned = self._returned.pop(number)
        if returned.error is not None:
            raise returned.error
        return returned.value

    def has_returned(self, number: int) -> bool:
        """Whether a call has ended, as far as one can tell without waiting."""
        while number not in self._returned and self._connection is not None and self._connection.poll():
            self._take(self._receive(), None)
        return number in self._returned

    def leave(self, user: int) -> None:
        """One of the users needs the process no more; the last one ends it."""
        self._users.discard(user)
        if not self._users:
            self.close()

    def close(self) -> None:
        """End the process at once; a later call starts another."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        self._returned.clear()
        while self._bars:
            self._close_bar()
        if connection is not None:
            connection.close()
        if process is not None:
            process.kill()
            # Giving gigabytes back takes a while, which is nobody's to wait for.
            with contextlib.suppress(RuntimeError):  # no more threads
                threading.Thread(target=process.wait, daemon=True).start()

    def _start(self) -> None:
        ours, theirs = Pipe()
        # What this thread starts is ended by the kernel when the thread ends, and the main one lives as long as we do.
        lives_with_us = threading.current_thread() is threading.main_thread()
        arguments = [str(theirs.fileno()), str(os.getpid() if lives_with_us else 0)]
        # -P: nothing in the folder where the user happens to be may stand in for a module.
        command = [sys.executable, "-P", "-m", "evalcard.backends.engine_worker", *arguments]
        # An interrupt at the terminal is ours to handle; the process ignores it once it can.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=2, pass_fds=[theirs.fileno()], env=_environment()
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            theirs.close()
        self._connection = ours
        self.generation += 1
        atexit.register(self.close)

    def _receive(self) -> Returned | Told:
        assert self._connection is not None
        try:
            message = self._connection.recv()
        except (EOFError, OSError):
            raise self._ended() from None
        assert isinstance(message, (Returned, Told)), type(message)
        return message

    def _take(self, message: Returned | Told, on_item: Callable[[int, Any], None] | None) -> None:
        if isinstance(message, Returned):
            self._returned[message.number] = message
        elif message.what == "item":
            assert on_item is not None, message.arguments
            on_item(*message.arguments)
        elif message.what == "say":
            self._progress.say(*message.arguments)
        elif message.what == "open":
            step = self._progress.step(*message.arguments)
            self._bars.append((step, step.__enter__()))
        elif message.what == "close":
            self._close_bar()
        else:
            getattr(self._bars[-1][1], message.what)(*message.arguments)

    def _close_bar(self) -> None:
        step, _ = self._bars.pop()
        step.__exit__(None, None, None)

    def _ended(self) -> Exception:
        """What to raise where the process is gone."""
        process = self._process
        assert process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        code = process.returncode
        self.close()
        if code in _STOPPED_FROM_OUTSIDE:
            return Interrupted()
        if code == -signal.SIGKILL:
            return UserError(
                "the process that computes the answers was killed. Most often the machine ran out of memory: end other "
                "programs, or give the KV cache less with --kv-memory. What was finished is stored; the same command "
                "resumes it."
            )
        return EngineFault(f"the process that computes the answers ended with code {code}")


def _environment() -> dict[str, str]:
    """This process's, with its module path, so that the same evalcard is found."""
    paths = [path or os.getcwd() for path in sys.path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
