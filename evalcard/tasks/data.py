"""Documents of a task: from folders of data files first, from the Hub (or its cache) otherwise.

A data root holds ROOT/<dataset id>/[<subset>/]<split>.{jsonl,json,csv,parquet}, split files also in the Hub's sharded
spelling (test-00000-of-00001.parquet).
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalcard.errors import UserError
from evalcard.resources import task_files

_SPLIT_FILE = re.compile(r"(?P<split>[A-Za-z0-9_.]+?)(?:-\d{5}-of-\d{5})?\.(?:jsonl|json|csv|parquet)")
_OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")


def data_roots(given: str | None) -> tuple[Path, ...]:
    """Roots in the order they are tried: ``--data-root``, EVALCARD_DATA_ROOT (several, by os.pathsep), our own.

    Raises UserError for a root that is no folder.
    """
    named = [given] if given else []
    named += [part for part in os.environ.get("EVALCARD_DATA_ROOT", "").split(os.pathsep) if part]
    roots = [Path(part).expanduser() for part in named]
    for root in roots:
        if not root.is_dir():
            raise UserError(f"the data root {root} is no folder. Give one that holds <dataset id>/<split>.jsonl.")
    return (*roots, task_files() / "data")


def find_splits(roots: Sequence[Path], dataset_id: str, subset: str | None) -> dict[str, tuple[Path, ...]]:
    """Files of each split in the first root that has the data set; empty where none has it.

    ``dev`` also serves as ``validation`` where that is missing.
    """
    for root in roots:
        folder = root / dataset_id
        if subset and (folder / subset).is_dir():
            folder = folder / subset
        splits: dict[str, tuple[Path, ...]] = {}
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            if match := _SPLIT_FILE.fullmatch(path.name):
                splits[match["split"]] = (*splits.get(match["split"], ()), path)
        if splits:
            if "dev" in splits:
                splits.setdefault("validation", splits["dev"])
            return splits
    return {}


class LocalSplits(Mapping[str, Any]):
    """Splits by name, each a ``datasets.Dataset`` that is read when it is first asked for."""

    def __init__(self, dataset_id: str, files: dict[str, tuple[Path, ...]]):
        self._dataset_id = dataset_id
        self._files = files
        self._read: dict[str, Any] = {}

    def __getitem__(self, split: str) -> Any:
        if split not in self._files:
            raise UserError(
                f"data set {self._dataset_id} has no split {split!r} in {self._folder}; it has "
                f"{', '.join(self._files)}. Add {split}.jsonl there, or take the folder out of the data root."
            )
        if split not in self._read:
            self._read[split] = read_split(self._files[split])
        return self._read[split]

    def __contains__(self, split: object) -> bool:
        return split in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    @property
    def _folder(self) -> Path:
        return next(iter(self._files.values()))[0].parent


def read_split(paths: Sequence[Path]) -> Any:
    """One split as an in-memory ``datasets.Dataset``.

    The data set builders write a cache and take longer than the rest of the preparation; rows read here are equal to
    theirs.
    """
    import datasets

    parts = []
    for path in paths:
        try:
            parts.append(_READERS[path.suffix](path))
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise UserError(f"cannot read the data file {path}: {error}") from None
    return parts[0] if len(parts) == 1 else datasets.concatenate_datasets(parts)


def _read_jsonl(path: Path) -> Any:
    # Split on \n only: str.splitlines also breaks at U+2028, which may stand inside a JSON string.
    lines = path.read_text(encoding="utf-8-sig").split("\n")
    return _dataset([_row(line, number) for number, line in enumerate(lines, start=1) if line.strip()], path)


def _row(line: str, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ValueError(f"line {number} is no JSON ({error}); it must be one object") from None
    if not isinstance(row, dict):
        raise ValueError(f"line {number} must be one JSON object, not {line.strip()[:60]}")
    return row


def _read_json(path: Path) -> Any:
    text = path.read_text(encoding="utf-8-sig")
    rows = json.loads(text) if text.strip() else []
    if not isinstance(rows, list):
        raise ValueError("expected a JSON array of objects; for one object a line name the file .jsonl")
    wrong = [place for place, row in enumerate(rows, start=1) if not isinstance(row, dict)]
    if wrong:
        raise ValueError(f"row {wrong[0]} must be a JSON object, not {json.dumps(rows[wrong[0] - 1])[:60]}")
    return _dataset(rows, path)


def _dataset(rows: list[dict[str, Any]], path: Path) -> Any:
    """The fingerprint names the file; left to itself the library pickles every row for one."""
    import datasets
    import pyarrow  # type: ignore[import-untyped]

    if not rows:
        raise ValueError("it is empty; put in at least one document, or take the file away")
    keys = dict.fromkeys(key for row in rows for key in row)
    table = pyarrow.table({key: [row.get(key) for row in rows] for key in keys})
    state = path.stat()
    fingerprint = hashlib.sha256(f"{path.resolve()} {state.st_mtime_ns} {state.st_size}".encode()).hexdigest()[:16]
    return datasets.Dataset(datasets.table.InMemoryTable(table), fingerprint=fingerprint)


def _read_csv(path: Path) -> Any:
    import datasets
    import pandas

    return datasets.Dataset.from_pandas(pandas.read_csv(path), preserve_index=False)


def _read_parquet(path: Path) -> Any:
    import datasets
    import pyarrow.parquet  # type: ignore[import-untyped]

    return datasets.Dataset(datasets.table.InMemoryTable(pyarrow.parquet.read_table(path)))


_READERS = {".jsonl": _read_jsonl, ".json": _read_json, ".csv": _read_csv, ".parquet": _read_parquet}


class RootedData:
    """Mixin before one of the harness's task classes: documents come from ``data_roots`` where they are found there."""

    data_roots: tuple[Path, ...] = ()
    config: Any
    DATASET_PATH: str | None
    DATASET_NAME: str | None

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Set ``self.dataset``. Raises UserError where the documents cannot be had."""
        if callable(self.config.custom_dataset) or self.DATASET_PATH is None:
            super().download(dataset_kwargs, **kwargs)  # type: ignore[misc]
            return
        files = find_splits(self.data_roots, self.DATASET_PATH, self.DATASET_NAME)
        if files:
            self.dataset = LocalSplits(self.DATASET_PATH, files)
            return
        try:
            super().download(dataset_kwargs, **kwargs)  # type: ignore[misc]
        except Exception as error:  # the Hub client fails in many types; each means that there are no documents
            raise UserError(self._missing(error)) from error

    @property
    def eval_docs(self) -> Any:
        """The documents that are evaluated, processed once: a task that shuffles must not be asked twice."""
        if not hasattr(self, "_eval_docs"):
            self._eval_docs = super().eval_docs  # type: ignore[misc]
        return self._eval_docs

    def _missing(self, error: Exception) -> str:
        subset = f" (subset {self.DATASET_NAME})" if self.DATASET_NAME else ""
        offline = [name for name in _OFFLINE if os.environ.get(name, "").upper() in {"1", "TRUE", "YES", "ON"}]
        where = f"the Hub was not asked ({offline[0]} is set)" if offline else f"the Hub said: {_first_line(error)}"
        roots = ", ".join(str(root) for root in self.data_roots)
        gated = " It is gated: accept its terms on its Hub page and set HF_TOKEN." if "gated" in str(error) else ""
        return (
            f"task {self.config.task}: data set {self.DATASET_PATH}{subset} is in no data root ({roots}) and not in "
            f"the Hub's cache; {where}.{gated} Put its files at ROOT/{self.DATASET_PATH}/[subset/]<split>.jsonl and "
            f"give --data-root ROOT, or run the same command once while online."
        )


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).strip().split("\n")[0][:300]
