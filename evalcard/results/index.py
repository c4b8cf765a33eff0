"""Answers of earlier runs by key, so that an item answered once is not paid for again."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from evalcard.errors import UserError
from evalcard.results.files import decode_record
from evalcard.results.records import Sample
from evalcard.results.runs import REFERENCE
from evalcard.results.store import SAMPLES

# A quote inside a JSON string is escaped, so an unescaped "key": is the field itself. Our own lines begin with it.
_KEY = re.compile(rb'(?<!\\)"key":\s*"([^"\\]+)"')
_HEAD = 256


class AnswerIndex:
    """Where each answer's line begins; a line is parsed only when it is asked for."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        """One line for each file or answer that could not be used."""
        self._paths: list[Path] = []
        self._places: dict[bytes, tuple[int, int]] = {}
        self._open: tuple[int, IO[bytes]] | None = None

    @classmethod
    def scan(cls, roots: Iterable[Path], skip: Path | None = None) -> "AnswerIndex":
        """Read all journals of the runs below ``roots`` (results roots or single runs), but those of run ``skip``."""
        index = cls()
        skipped = skip.resolve() if skip is not None else None
        for run in _runs_below(roots, index.warnings):
            if run.resolve() != skipped:
                for path in sorted((run / SAMPLES).glob("*/*.jsonl")):
                    index._add(path)
        return index

    def __len__(self) -> int:
        return len(self._places)

    def lookup(self, key: str) -> Sample | None:
        """The stored answer with this key; None where there is none, or it is an error or damaged."""
        place = self._places.get(key.encode())
        if place is None:
            return None
        file_number, offset = place
        path = self._paths[file_number]
        try:
            file = self._file(file_number)
            file.seek(offset)
            sample = decode_record(file.readline(), Sample, str(path), "It is not reused.")
        except (OSError, UserError) as error:
            self.warnings.append(str(error))
            return None
        # An error is no answer: asking again may succeed, for instance with more memory.
        return sample if sample.key == key and sample.finish != "error" else None

    def close(self) -> None:
        """May be called twice; a later lookup opens files again."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _add(self, path: Path) -> None:
        number = len(self._paths)
        self._paths.append(path)
        offset = 0
        try:
            with open(path, "rb") as file:
                for line in file:
                    match = _KEY.search(line, 0, _HEAD) or _KEY.search(line)
                    if match and line.endswith(b"\n"):
                        self._places[match[1]] = (number, offset)
                    offset += len(line)
        except OSError as error:
            self.warnings.append(f"cannot read {path}: {error.strerror or error}. Its answers are not reused.")

    def _file(self, number: int) -> IO[bytes]:
        """Lookups come task by task, so the last file is nearly always the next one too."""
        if self._open is None or self._open[0] != number:
            self.close()
            self._open = (number, open(self._paths[number], "rb"))  # noqa: SIM115 - kept open for the next
        return self._open[1]


def _runs_below(roots: Iterable[Path], warnings: list[str]) -> Iterator[Path]:
    """Each folder with a samples folder, once: the roots themselves and what is directly below them."""
    seen: set[Path] = set()
    for root in map(Path, roots):
        try:
            below = sorted(path for path in root.expanduser().iterdir() if path.name != REFERENCE)
        except FileNotFoundError:
            continue  # a results root that is yet to be made
        except OSError as error:
            warnings.append(f"cannot read {root}: {error.strerror or error}. Its answers are not reused.")
            continue
        for path in (root.expanduser(), *below):
            if path.resolve() not in seen and (path / SAMPLES).is_dir():
                seen.add(path.resolve())
                yield path
