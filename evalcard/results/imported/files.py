"""Files of strangers, read within bounds: JSON, lines of JSON, and what lies in a folder."""

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evalcard.errors import UserError

MAX_JSON = 1 << 30
"""Bytes of a JSON file, or of a member of a log, that is read."""
MAX_LINE = 1 << 26
"""Bytes of one line of samples."""
_MAX_DEPTH = 16
_SHOWN_NAMES, _SHOWN_NAME = 5, 80
_MAX_FILES = 50_000


def read_json(path: Path, limit: int = MAX_JSON) -> dict[str, Any]:
    """Raises UserError for what cannot be read, is larger than ``limit`` bytes or is no JSON object."""
    try:
        with open(path, "rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise UserError(
            f"cannot read {path}: {error.strerror or error}. Name the file or folder that the harness wrote."
        ) from None
    if len(content) > limit:
        raise UserError(f"{path} has more than {limit >> 20} MiB, which is no results file that evalcard reads.")
    return parse_object(content, str(path))


def parse_object(content: bytes, where: str) -> dict[str, Any]:
    """Raises UserError naming ``where`` for text that is no JSON object."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise damaged(where, str(error)) from None
    if not isinstance(data, dict):
        raise damaged(where, f"it holds {type(data).__name__}, not an object")
    return data


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place for messages, object) of each line that is not blank; only a newline parts lines, as JSON escapes it.

    Raises UserError with file and line for a line that is damaged.
    """
    try:
        with open(path, "rb") as file:
            number = 0
            while line := file.readline(MAX_LINE + 1):
                number += 1
                place = f"{path}, line {number},"
                if len(line) > MAX_LINE:
                    raise damaged(place, f"it is longer than {MAX_LINE >> 20} MiB")
                if line.strip():
                    yield place, parse_object(line, place)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}.") from None


def listed_short(names: Sequence[str]) -> str:
    """The first of some names that a file of strangers gives, each as far as a message can hold it."""
    shown = [name if len(name) <= _SHOWN_NAME else f"{name[:_SHOWN_NAME]}..." for name in names[:_SHOWN_NAMES]]
    return ", ".join(shown) + (" and more" if len(names) > _SHOWN_NAMES else "")


def damaged(where: str, why: str) -> UserError:
    return UserError(f"{where} is damaged: {why}. Copy the file anew, or evaluate again.")


@contextlib.contextmanager
def laid_out(path: Path, writer: str) -> Iterator[None]:
    """Whatever has another shape than the harness gives it is the file's fault: a UserError that names it."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError) as error:
        why = " ".join(str(error).split())[:200]
        raise UserError(
            f"{path} is not laid out as {writer} does it ({type(error).__name__}: {why}). If that harness wrote it "
            "untouched, evalcard does not know this version of it."
        ) from error


def files_below(folder: Path, endings: tuple[str, ...]) -> Iterator[Path]:
    """Files in ``folder`` and below whose names end so, by path; hidden ones and links to folders are left alone."""
    seen = 0
    for place, folders, names in os.walk(folder):
        depth = len(Path(place).relative_to(folder).parts)
        folders[:] = sorted(name for name in folders if not name.startswith(".")) if depth < _MAX_DEPTH else []
        for name in sorted(names):
            seen += 1
            if seen > _MAX_FILES:
                return
            if name.endswith(endings) and not name.startswith("."):
                yield Path(place) / name
