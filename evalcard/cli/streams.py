"""Standard output that ends no command: a reader that went away is let go, and what cannot be printed is told after."""

import errno
import io
import sys
from collections.abc import Sequence
from typing import Any

_JUDGES = "gate"
"""Whose exit code is its answer, with or without the words that go with it."""


class _Patient(io.FileIO):
    """Takes whatever is written. click and rich would end the process with 1, the code of a failed gate, at the first
    write that fails, and the interpreter with 120 at its exit."""

    fault: OSError | None = None

    def write(self, content: Any) -> int:
        if self.fault is None:
            try:
                return super().write(content)
            except OSError as error:
                self.fault = error
        return len(content)


def guard_streams() -> None:
    """Put patient streams in the place of stdout and stderr, where these are the process's own."""
    for name in ("stdout", "stderr"):
        old = getattr(sys, name)
        if isinstance(old, io.TextIOWrapper):
            old.flush()
            raw = _Patient(old.fileno(), "wb", closefd=False)
            guarded = io.TextIOWrapper(
                io.BufferedWriter(raw), encoding=old.encoding, errors=old.errors, line_buffering=old.line_buffering
            )
            setattr(sys, name, guarded)


def printed(code: int, args: Sequence[str]) -> int:
    """The exit code, once all is printed. Where it could not be, though somebody was there to read it, that is said;
    the word of a gate stands, and nothing else is done that is not printed."""
    fault = _fault(sys.stdout)
    _fault(sys.stderr)
    if fault is None or fault.errno in (errno.EPIPE, errno.EINVAL):  # the latter: a closed pipe on Windows
        return code
    left = code if code or args[:1] == [_JUDGES] else 2
    print(
        f"Error: cannot print to standard output: {fault.strerror or fault}. Free space or print elsewhere; what the "
        f"command stores is stored. Exit code {left}.",
        file=sys.stderr,
        flush=True,
    )
    return left


def _fault(stream: object) -> OSError | None:
    if not isinstance(stream, io.TextIOWrapper):
        return None
    stream.flush()
    raw = getattr(stream.buffer, "raw", None)
    return raw.fault if isinstance(raw, _Patient) else None
