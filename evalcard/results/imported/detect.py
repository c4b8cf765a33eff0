"""Which harness wrote a file or folder: by what is in it, never by its name alone."""

import codecs
import json
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evalcard.errors import UserError
from evalcard.results.imported.files import MAX_LINE, damaged, files_below, read_json
from evalcard.results.store import RUN_FILE

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""JSON of an editor that writes no UTF-8; a log of inspect of this kind is known by all of it, not by its head."""
_UNREADABLE = (OSError, UserError, ValueError, RecursionError, NotImplementedError, zipfile.BadZipFile)
_SHOWN_FAULT = 300
Kind = Literal["lm_eval", "lighteval", "inspect"]
Role = Literal["results", "samples"]

_ENDINGS = (".json", ".eval", ".jsonl", ".parquet")
_MAX_RESULTS = 1 << 28
"""Bytes of a JSON file that is looked into as a whole. A log of inspect is known by its head."""
_HEAD, _MAX_FOOTER = 1 << 12, 1 << 26
_LOG_HEAD = re.compile(rb'^\s*\{\s*"(version|status|eval)"\s*:.*"(eval|eval_id|run_id|task_id)"\s*:', re.DOTALL)
_KEYS: dict[Kind, set[str]] = {
    "lm_eval": {"results", "configs", "versions"},
    "lighteval": {"config_general", "config_tasks", "results"},
    "inspect": {"eval", "plan", "status"},
}
_ALSO_LM_EVAL = frozenset({"configs", "versions", "n-shot", "n-samples", "higher_is_better", "lm_eval_version"})
"""Of what it writes beside its results; others' tables are called otherwise."""
_NAMES = re.compile(r"((results|samples_.+|details_.+)_\d{4}-\d\d-\d\dT.*\.(json|jsonl|parquet)|.+\.eval)", re.DOTALL)
"""As harnesses name their files."""
_SAMPLE_KEYS = {"doc_id", "doc", "arguments", "resps"}


@dataclass(frozen=True, slots=True)
class Found:
    """A file of another harness."""

    kind: Kind
    role: Role
    """results: its scores and settings (for inspect its answers, too); samples: one task's answers."""
    path: Path


def is_foreign(path: Path) -> bool:
    """Whether another harness wrote this file, or something in this folder; False for a run of evalcard's."""
    return kind_of(path) is not None


def kind_of(path: Path) -> Kind | None:
    """The harness; None where it is none that is known, and for what is not there. Of several the first by path."""
    found = next(found_in(path), None)
    return found.kind if found else None


def found_in(path: Path) -> Iterator[Found]:
    """Files of other harnesses: ``path`` itself, or those below it, by path."""
    path = Path(path).expanduser()
    if path.is_file():
        files: Iterator[Path] = iter([path])
    elif path.is_dir() and not (path / RUN_FILE).is_file():
        files = files_below(path, _ENDINGS)
    else:
        return
    for file in files:
        found = _identify(file)
        if found is not None:
            yield found


def stray_in(path: Path, found: Sequence[Found]) -> dict[Path, str]:
    """Files below ``path`` that bear a harness's name and count for nothing -> why: damaged ones, and samples without
    the results of their date. ``found`` is what ``found_in`` tells."""
    if not path.is_dir():
        return {}
    known, dates = {one.path for one in found}, {_date(one.path) for one in found if one.role == "results"}
    strays = {file: "it cannot be read" for file in files_below(path, _ENDINGS)
              if file not in known and _NAMES.fullmatch(file.name)}  # fmt: skip
    alone = {one.path: "there are no results of its date" for one in found
             if one.role == "samples" and dates and _date(one.path) not in dates}  # fmt: skip
    return strays | alone


def _date(path: Path) -> str:
    return path.stem.rpartition("_")[2]


def refuse_damaged(path: Path) -> None:
    """Raises UserError with what is wrong for a file that a harness may have written and that cannot be read.

    For what was named itself and holds no result: of a folder, files that are called as a harness calls its own.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        for file in files_below(path, (".json",)):
            if _NAMES.fullmatch(file.name):
                refuse_damaged(file)
    if not path.is_file() or path.suffix not in _ENDINGS:
        return
    if path.stat().st_size == 0:
        raise damaged(str(path), "it is empty")
    try:
        if _look_into(path) is None and path.suffix == ".json":
            _refuse_parts(path)
    except UserError:
        raise
    except _UNREADABLE as error:
        raise damaged(str(path), " ".join(str(error).split())[:_SHOWN_FAULT] or type(error).__name__) from None


def _refuse_parts(path: Path) -> None:
    """Raises UserError for a results file of lm-eval of which a table is gone."""
    keys = set(read_json(path)) if path.stat().st_size <= _MAX_RESULTS else set()
    if "results" in keys and keys & _ALSO_LM_EVAL:
        raise UserError(lacks(str(path), sorted(_KEYS["lm_eval"] - keys)))


def lacks(where: str, tables: Sequence[str]) -> str:
    """What is said of a results file without these."""
    names = " and ".join(f"'{name}'" for name in tables)
    return (
        f"{where} has no {names}, which every lm_eval writes beside 'results' and which say what was measured: likely "
        "it was cut down to its scores, by hand or by what passed it on. Name the file as lm_eval wrote it, with its "
        "samples beside it."
    )


def _identify(path: Path) -> Found | None:
    """Anything unreadable is none of them: a folder may hold any other files, too."""
    try:
        return _look_into(path)
    except _UNREADABLE:
        return None


def _look_into(path: Path) -> Found | None:
    with open(path, "rb") as file:
        head = file.read(_HEAD)
    if head.startswith(b"PK\x03\x04"):
        return Found("inspect", "results", path) if _is_log_archive(path) else None
    if head.startswith(b"PAR1"):
        return Found("lighteval", "samples", path) if _is_details(path) else None
    if head.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"{") or head.startswith(_UTF16):
        return _identify_json(path, head)
    return None


def _identify_json(path: Path, head: bytes) -> Found | None:
    if path.suffix == ".jsonl":
        with open(path, "rb") as file:
            first = json.loads(file.readline(MAX_LINE))
        is_sample = isinstance(first, dict) and set(first) >= _SAMPLE_KEYS
        return Found("lm_eval", "samples", path) if is_sample else None
    if _LOG_HEAD.match(head):
        return Found("inspect", "results", path)
    if path.stat().st_size > _MAX_RESULTS:
        return None
    keys = set(read_json(path))
    return next((Found(kind, "results", path) for kind, wanted in _KEYS.items() if keys >= wanted), None)


def _is_log_archive(path: Path) -> bool:
    with zipfile.ZipFile(path) as archive:
        return not {"header.json", "_journal/start.json"}.isdisjoint(archive.namelist())


def _is_details(path: Path) -> bool:
    """Column names stand in a parquet file's footer, whose length is in the 8 bytes at the end."""
    with open(path, "rb") as file:
        file.seek(-8, 2)
        end = file.tell()
        length = int.from_bytes(file.read(4), "little")
        if not 0 < length <= min(end, _MAX_FOOTER):
            return False
        file.seek(end - length)
        footer = file.read(length)
    return all(name in footer for name in (b"model_response", b"metric", b"doc"))
