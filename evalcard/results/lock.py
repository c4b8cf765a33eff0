"""One process a run folder: a lock file, and a note beside it that says who holds it."""

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, SoftFileLock, Timeout

from evalcard.errors import UserError

LOCK_FILE = ".lock"
CARDS_LOCK_FILE = ".lock.cards"
PUBLISH_LOCK_FILE = ".lock.publish"
OWNER_FILE = ".lock.owner"
"""A file of its own: taking the lock may empty the lock file, also for a process that does not get it."""


@contextlib.contextmanager
def file_lock(path: Path, seconds: float = 10.0) -> Iterator[None]:
    """For the time of reading a file of the user's and writing it again: nobody else does so meanwhile.

    A file beside it that goes away again, as it lies among the user's own. Raises UserError where another process has
    it for longer than ``seconds``, or it cannot be made.
    """
    beside = path.with_name(f".{path.name[:40]}.lock")
    lock = SoftFileLock(beside, timeout=seconds)
    try:
        lock.acquire()
    except Timeout:
        raise UserError(
            f"{path} is being written by another process. Give the command again; if there is none, remove {beside}."
        ) from None
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}. Give a path that can be written.") from None
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def cards_lock(folder: Path, seconds: float = 60.0) -> Iterator[None]:
    """For the time of rendering a run's cards and keeping what they are rendered with: nobody else does so meanwhile,
    so that all files of them are of one rendering. Whoever holds it may enter it again.

    Apart from the run's own lock, as cards may be written while the run goes on. Where no lock can be made nothing is
    locked: if the folder cannot be written at all, the first file tells. Raises UserError where another process has it
    for longer than ``seconds``.
    """
    said = f"the cards of {folder} are being written by another process. Give the command again when it is done."
    with _beside(folder / CARDS_LOCK_FILE, seconds, said):
        yield


@contextlib.contextmanager
def publish_lock(folder: Path, seconds: float = 60.0) -> Iterator[None]:
    """From looking at the Hub to the commit: another ``evalcard publish`` of this run's folder looks afterwards, and so
    finds what this one opened. Locks and raises as ``cards_lock`` does."""
    said = (
        f"{folder} is being published by another process, which may be waiting for an answer at its terminal. Give the "
        "command again when it is done."
    )
    with _beside(folder / PUBLISH_LOCK_FILE, seconds, said):
        yield


@contextlib.contextmanager
def _beside(path: Path, seconds: float, said: str) -> Iterator[None]:
    """Hold a lock file that stays; UserError ``said`` where another process does so for longer than ``seconds``."""
    lock = FileLock(path, timeout=seconds, is_singleton=True)
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(lock)
        except Timeout:
            raise UserError(said) from None
        except (OSError, NotImplementedError):
            pass
        yield


class RunLock:
    """Held from ``acquire`` to ``release``; the operating system frees it when the process dies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = FileLock(folder / LOCK_FILE, timeout=0)

    def acquire(self) -> None:
        """Raises UserError naming the process that holds the run, or saying why the folder cannot be written."""
        try:
            self._lock.acquire()
        except Timeout:
            raise UserError(
                f"the run {self._folder} is being worked on by {self._owner()}. "
                "Wait for it or stop it; finished answers are stored, and the same command goes on from there."
            ) from None
        (self._folder / OWNER_FILE).write_text(json.dumps(_myself()), encoding="utf-8")

    def release(self) -> None:
        """May be called twice."""
        if self._lock.is_locked:
            (self._folder / OWNER_FILE).unlink(missing_ok=True)
            self._lock.release()

    def _owner(self) -> str:
        try:
            owner = json.loads((self._folder / OWNER_FILE).read_text(encoding="utf-8"))
            return f"process {owner['pid']} on {owner['host']} since {owner['since']}"
        except (OSError, ValueError, KeyError, TypeError):
            return "another process"


def _myself() -> dict[str, str | int]:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
