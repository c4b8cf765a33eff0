"""Data files -> rows with the place each came from, or splits as the data set library holds them.

Texts stay as they are spelled: a date is no time stamp, and 007 in a CSV file of one's own is no 7.
"""

import csv
import hashlib
import io
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalcard.errors import UserError

SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", ".parquet")
PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
"""Endings of files that hold a data file but are not read."""
_SHOWN = 60
_FAULTS = (OSError, ValueError, TypeError, AttributeError, RecursionError, csv.Error)
"""What readers raise for a damaged file; nesting without end is a RecursionError."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a data file."""

    place: str
    """Where it stands, for messages: ``line 7``, or ``row 7`` where rows are no lines. Counted from 1."""
    values: dict[str, Any]


def read_rows(path: Path) -> list[Row]:
    """The rows of a file named ``*.jsonl``, ``.json``, ``.csv``, ``.tsv`` or ``.parquet``; CSV cells are texts.

    Raises UserError, with file and line, for what cannot be read and for a file without rows.
    """
    assert path.suffix.lower() in SUFFIXES, path
    try:
        rows = list(_ROWS[path.suffix.lower()](path))
        if not rows:
            raise ValueError("it is empty; put in at least one row")
    except _FAULTS as error:
        raise UserError(f"cannot read the data file {path}: {_reason(error)}") from None
    return rows


def read_split(paths: Sequence[Path]) -> Any:
    """One split as an in-memory ``datasets.Dataset``. Raises UserError, with file and line, for damaged files.

    The data set builders write a cache and take longer than the rest of the preparation; rows read here are equal to
    theirs.
    """
    import datasets

    parts = []
    for path in paths:
        try:
            parts.append(_SPLITS[path.suffix](path))
        except _FAULTS as error:
            raise UserError(f"cannot read the data file {path}: {_reason(error)}") from None
    return parts[0] if len(parts) == 1 else datasets.concatenate_datasets(parts)


def count_rows(path: Path) -> int:
    """Rows of a data file; of JSON lines without reading what is in them. Raises UserError as ``read_rows`` does."""
    if path.suffix == ".jsonl":
        with path.open("rb") as file:
            return sum(1 for line in file if line.strip())
    return len(read_rows(path))


def _reason(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def text_of(path: Path) -> str:
    """The text of a UTF-8 file, without byte order mark. Raises ValueError with the line of a byte that is no UTF-8."""
    raw = path.read_bytes()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is not UTF-8 (byte 0x{raw[error.start]:02x}); save the file as UTF-8") from None


def _jsonl_rows(path: Path) -> Iterator[Row]:
    # Not str.splitlines: that also breaks at U+2028, which may stand inside a JSON string.
    lines = text_of(path).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield Row(f"line {number}", _object(line, number))


def _object(line: str, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line, object_pairs_hook=_unique)
    except _Twice as error:
        raise ValueError(f"line {number}: {error}") from None
    except ValueError as error:
        raise ValueError(f"line {number} is no JSON ({error}); it must be one object") from None
    if not isinstance(row, dict):
        raise ValueError(f"line {number} must be one JSON object, not {line.strip()[:_SHOWN]}")
    return row


class _Twice(ValueError):
    """A key that stands twice in one object; JSON's reader would take the last value and say nothing."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    names = [name for name, _ in pairs]
    twice = next(name for place, name in enumerate(names) if name in names[:place])
    values = " and ".join(repr(value)[:_SHOWN] for name, value in pairs if name == twice)
    raise _Twice(f"an object gives the key {twice!r} more than once ({values}); keep the one that is meant")


def _json_rows(path: Path) -> Iterator[Row]:
    text = text_of(path)
    rows = json.loads(text, object_pairs_hook=_unique) if text.strip() else []
    if not isinstance(rows, list):
        raise ValueError("expected a JSON array of objects; for one object a line name the file .jsonl")
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise ValueError(f"row {number} must be a JSON object, not {json.dumps(row)[:_SHOWN]}")
        yield Row(f"row {number}", row)


def _csv_rows(path: Path, delimiter: str = ",") -> Iterator[Row]:
    records = _records(io.StringIO(text_of(path), newline=""), delimiter)
    _, header = next(records, (0, []))
    names = [name.strip() for name in header]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"its header names the column {twice[0]!r} twice; give each column a name of its own")
    for line, cells in records:
        if len(cells) != len(names):
            raise ValueError(
                f"line {line} has {len(cells)} fields, but the header names {len(names)} columns "
                f"({', '.join(names)}). Put a text that holds the separator in double quotes"
            )
        yield Row(f"line {line}", dict(zip(names, cells, strict=True)))


def _records(text: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """(line on which it begins, cells) of each record that is no blank line; a quoted cell may span lines."""
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    before = csv.field_size_limit(sys.maxsize)  # a prompt may be longer than the library's 128 KiB
    try:
        begin = 1
        for cells in reader:
            if cells:
                yield begin, cells
            begin = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num} is no CSV ({error})") from None
    finally:
        csv.field_size_limit(before)


def _tsv_rows(path: Path) -> Iterator[Row]:
    return _csv_rows(path, delimiter="\t")


def _parquet_rows(path: Path) -> Iterator[Row]:
    import pyarrow.parquet  # type: ignore[import-untyped]

    for number, values in enumerate(pyarrow.parquet.read_table(path).to_pylist(), start=1):
        yield Row(f"row {number}", values)


def _split_of_rows(path: Path) -> Any:
    return dataset_of([row.values for row in _ROWS[path.suffix](path)], path)


def dataset_of(rows: list[dict[str, Any]], path: Path) -> Any:
    """An in-memory ``datasets.Dataset``; a key that some rows lack is None there.

    The fingerprint names the file: left to itself the library pickles every row for one. Raises ValueError for a
    column whose values have no common type; single values become texts instead.
    """
    import datasets
    import pyarrow

    if not rows:
        raise ValueError("it is empty; put in at least one document, or take the file away")
    keys = dict.fromkeys(key for row in rows for key in row)
    table = pyarrow.table({key: _column(key, [row.get(key) for row in rows]) for key in keys})
    state = path.stat()
    fingerprint = hashlib.sha256(f"{path.resolve()} {state.st_mtime_ns} {state.st_size}".encode()).hexdigest()[:16]
    return datasets.Dataset(datasets.table.InMemoryTable(table), fingerprint=fingerprint)


def _column(key: str, values: list[Any]) -> Any:
    import pyarrow

    try:
        return pyarrow.array(values)
    except UnicodeEncodeError:
        raise ValueError(f"the column {key!r} holds half of a surrogate pair, which is no text") from None
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, OverflowError):
        if any(isinstance(value, (list, dict)) for value in values):
            raise ValueError(f"the column {key!r} holds values of different types; give all of them one") from None
    texts = [one if one is None or isinstance(one, str) else json.dumps(one, default=str) for one in values]
    return pyarrow.array(texts)


def _split_of_csv(path: Path) -> Any:
    """Cells become numbers where a whole column holds numbers, as in the library's own reader."""
    import datasets
    import pandas

    delimiter = "\t" if path.suffix == ".tsv" else ","
    frame = pandas.read_csv(io.StringIO(text_of(path)), sep=delimiter)
    return datasets.Dataset.from_pandas(frame, preserve_index=False)


def _split_of_parquet(path: Path) -> Any:
    import datasets
    import pyarrow.parquet

    return datasets.Dataset(datasets.table.InMemoryTable(pyarrow.parquet.read_table(path)))


_ROWS = {
    ".jsonl": _jsonl_rows,
    ".json": _json_rows,
    ".csv": _csv_rows,
    ".tsv": _tsv_rows,
    ".parquet": _parquet_rows,
}
_SPLITS = {
    ".jsonl": _split_of_rows,
    ".json": _split_of_rows,
    ".csv": _split_of_csv,
    ".tsv": _split_of_csv,
    ".parquet": _split_of_parquet,
}
