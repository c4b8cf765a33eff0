"""One process a run folder: a lock file, and a note beside it that says who holds it."""

import json
import os
import socket
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from evalcard.errors import UserError

LOCK_FILE = ".lock"
OWNER_FILE = ".lock.owner"
"""A file of its own: taking the lock may empty the lock file, also for a process that does not get it."""


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
