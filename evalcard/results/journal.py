"""The journal of one (model, task): a line a finished sample, appended once, never rewritten, safe against kill -9."""

import contextlib
import math
import os
from pathlib import Path
from typing import IO

from evalcard.errors import UserError
from evalcard.results.files import decode_record, encode_record
from evalcard.results.records import ItemId, Sample

Address = tuple[ItemId, int]
"""(item_id, repeat): what a sample answers."""

_ADVICE = "Delete that line, and the same command computes the sample again."
_TAIL_BLOCK = 1 << 16


class Journal:
    """Append-only JSON lines, split on \\n only (a U+2028 inside an answer ends no line).

    A line counts once its newline is there. What a killed process left behind the last newline is ignored when
    reading and cut off before the next append.
    """

    def __init__(self, path: Path, writable: bool = True) -> None:
        self.path = path
        self._writable = writable
        self._file: IO[bytes] | None = None
        self._end = 0

    def append(self, sample: Sample) -> None:
        """Store one sample; it has reached the operating system when this returns.

        Raises UserError where the disk refuses; the journal then ends as it did before.
        """
        line = encode_record(_without_odd_timings(sample)) + b"\n"
        assert self._writable, f"{self.path} belongs to a run that is not locked"
        try:
            file = self._file or self._open()
            _write_fully(file, line)
        except OSError as error:
            self._undo()
            raise UserError(
                f"cannot append to {self.path}: {error.strerror or error}. All earlier answers are stored. "
                "Free space or change the permissions, then give the same command again."
            ) from None
        self._end += len(line)

    def read(self) -> dict[Address, Sample]:
        """All samples by (item_id, repeat), in the order of their first line; of several lines the last one wins.

        Raises UserError naming file and line where a complete line is damaged.
        """
        if not self.path.exists():
            return {}
        samples: dict[Address, Sample] = {}
        try:
            with open(self.path, "rb") as file:
                for number, line in enumerate(file, start=1):
                    if not line.endswith(b"\n"):
                        break
                    sample = decode_record(line, Sample, f"{self.path}, line {number},", _ADVICE)
                    samples[sample.item_id, sample.repeat] = sample
        except OSError as error:
            raise UserError(f"cannot read {self.path}: {error.strerror or error}. Make it readable.") from None
        return samples

    def close(self) -> None:
        """May be called twice; a later append opens the file again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> IO[bytes]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Unbuffered: each append is one write call, so there is nothing left to lose in this process.
        file = open(self.path, "ab", buffering=0)  # noqa: SIM115 - kept open between appends
        try:
            self._end = _end_of_last_line(self.path)
            file.truncate(self._end)
        except OSError:
            file.close()
            raise
        self._file = file
        return file

    def _undo(self) -> None:
        """Take back a line that was written in part."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # the next append cuts it off
                self._file.truncate(self._end)
            self.close()


def _without_odd_timings(sample: Sample) -> Sample:
    """Timings are a backend's word; one that is no number is left out rather than stored as a null."""
    if all(map(math.isfinite, sample.timings.values())):
        return sample
    timings = {name: seconds for name, seconds in sample.timings.items() if math.isfinite(seconds)}
    return sample.model_copy(update={"timings": timings})


def _write_fully(file: IO[bytes], line: bytes) -> None:
    """A raw write may take only part of a line, for instance when the disk is nearly full."""
    rest = memoryview(line)
    while rest:
        rest = rest[file.write(rest) :]


def _end_of_last_line(path: Path) -> int:
    """Offset just behind the last newline, 0 where there is none."""
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - _TAIL_BLOCK)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
    return 0
