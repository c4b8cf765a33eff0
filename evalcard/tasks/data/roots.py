"""Documents of a task: from folders of data files first, from the Hub (or its cache) otherwise.

A data root holds ROOT/<dataset id>/[<subset>/]<split>.{jsonl,json,csv,tsv,parquet}, split files also in the Hub's
sharded spelling (test-00000-of-00001.parquet).
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalcard.errors import UserError
from evalcard.resources import task_files
from evalcard.tasks.data.hub import first_line, hub_or_cache, is_asked_of_the_hub, local_only, why_missing
from evalcard.tasks.data.readers import read_split
from evalcard.tasks.data.splitfiles import SPLIT_FILE, refuse_two_forms, refuse_unread, unread

_SHOWN_SUBSETS = 3


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
        splits = _splits_in(root / dataset_id, subset)
        if splits:
            if "dev" in splits:
                splits.setdefault("validation", splits["dev"])
            return splits
    return {}


def _splits_in(folder: Path, subset: str | None) -> dict[str, tuple[Path, ...]]:
    """In the subset's folder, else the data set's; in ``data`` below it where a download of the Hub's files has them.

    A file with the subset's name is its one split, which the Hub calls train.
    """
    if subset and (folder / subset).is_dir():
        folder = folder / subset
    splits = _split_files(folder) or _split_files(folder / "data")
    return {"train": splits[subset]} if subset and subset in splits and folder.name != subset else splits


def _split_files(folder: Path) -> dict[str, tuple[Path, ...]]:
    splits: dict[str, tuple[Path, ...]] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if match := SPLIT_FILE.fullmatch(path.name):
            splits[match["split"]] = (*splits.get(match["split"], ()), path)
    return splits


@dataclass(frozen=True, slots=True)
class Lack:
    """Documents of one task that cannot be had."""

    task: str
    dataset_id: str
    subset: str | None
    why: str


class MissingData(UserError):
    """Data sets that lie in no data root and that the Hub (or its cache) does not give; one message for all."""

    def __init__(self, lacks: Sequence[Lack], roots: Sequence[Path], asked: Sequence[str] = ()):
        self.lacks = tuple(lacks)
        self.roots = tuple(roots)
        names = tuple(asked) or tuple(dict.fromkeys(lack.task for lack in lacks))
        super().__init__(_missing_message(self.lacks, self.roots, names))

    @property
    def dataset_ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(lack.dataset_id for lack in self.lacks))


def join_missing(errors: Sequence[MissingData], asked: Sequence[str] = ()) -> MissingData:
    """All that is missing in one error, so that it can be fetched in one go.

    asked: names whose data sets are to be fetched, such as the group of many tasks; the tasks' own where not given.
    """
    assert errors
    roots = dict.fromkeys(root for error in errors for root in error.roots)
    return MissingData([lack for error in errors for lack in error.lacks], tuple(roots), asked)


def _missing_message(lacks: Sequence[Lack], roots: Sequence[Path], names: Sequence[str]) -> str:
    """One line for each data set and reason, then what to do."""
    groups: dict[tuple[str, str], list[Lack]] = {}
    for lack in lacks:
        groups.setdefault((lack.dataset_id, lack.why), []).append(lack)
    lines = [_missing_line(dataset_id, why, group) for (dataset_id, why), group in groups.items()]
    first = lacks[0].dataset_id
    shown = ",".join(names[:_SHOWN_SUBSETS]) + (",..." if len(names) > _SHOWN_SUBSETS else "")
    return (
        f"{'; '.join(lines)}. Looked in the data roots {', '.join(map(str, roots))} and in the Hub's cache. Put the "
        f"files at ROOT/{first}/[subset/]<split>.jsonl and give --data-root ROOT, or fetch them once while online: "
        f"evalcard tasks --prefetch {shown}"
    )


def _missing_line(dataset_id: str, why: str, lacks: Sequence[Lack]) -> str:
    subsets = [lack.subset for lack in lacks if lack.subset]
    if len(subsets) > _SHOWN_SUBSETS:
        named = f" ({len(subsets)} subsets: {', '.join(subsets[:_SHOWN_SUBSETS])}, ...)"
    else:
        named = f" (subset {', '.join(subsets)})" if subsets else ""
    tasks = list(dict.fromkeys(lack.task for lack in lacks))
    who = f"task {tasks[0]}" if len(tasks) == 1 else f"{len(tasks)} tasks from {tasks[0]} on"
    return f"{who}: data set {dataset_id}{named} is missing; {why}"


class LocalSplits(Mapping[str, Any]):
    """Splits by name, each a ``datasets.Dataset`` that is read when it is first asked for."""

    def __init__(self, dataset_id: str, files: dict[str, tuple[Path, ...]]):
        self._dataset_id = dataset_id
        self._files = files
        self._read: dict[str, Any] = {}

    def __getitem__(self, split: str) -> Any:
        if split not in self._files:
            raise UserError(
                f"data set {self._dataset_id} has no split {split!r} in {self.folder}; it has "
                f"{', '.join(self._files)}. Add {split}.jsonl there, or take the folder out of the data root."
                f"{''.join(f' ({path.name} lies there but is not read.)' for path in unread(self.folder))}"
            )
        if split not in self._read:
            refuse_two_forms(self._dataset_id, split, self._files[split])
            self._read[split] = read_split(self._files[split])
        return self._read[split]

    def __contains__(self, split: object) -> bool:
        return split in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    @property
    def folder(self) -> Path:
        """Where the files lie."""
        return next(iter(self._files.values()))[0].parent


class RootedData:
    """Mixin before one of the harness's task classes: documents come from ``data_roots`` where they are found there."""

    data_roots: tuple[Path, ...] = ()
    config: Any
    DATASET_PATH: str | None
    DATASET_NAME: str | None

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Set ``self.dataset``. Raises MissingData where the documents cannot be had."""
        if callable(self.config.custom_dataset) or self.DATASET_PATH is None:
            super().download(dataset_kwargs, **kwargs)  # type: ignore[misc]
            return
        files = find_splits(self.data_roots, self.DATASET_PATH, self.DATASET_NAME)
        if files:
            self.dataset = LocalSplits(self.DATASET_PATH, files)
            return
        refuse_unread(self.data_roots, self.DATASET_PATH, self.DATASET_NAME)
        if not is_asked_of_the_hub(self.DATASET_PATH, dataset_kwargs):
            self._download_local(dataset_kwargs, kwargs)
            return
        try:
            with hub_or_cache():
                super().download(dataset_kwargs, **kwargs)  # type: ignore[misc]
        except Exception as error:  # the Hub client fails in many types; each means that there are no documents
            why = why_missing(self.DATASET_PATH, error)
            lack = Lack(self.config.task, self.DATASET_PATH, self.DATASET_NAME, why)
            raise MissingData([lack], self.data_roots) from error

    def _download_local(self, dataset_kwargs: dict[str, Any] | None, kwargs: dict[str, Any]) -> None:
        try:
            with local_only():
                super().download(dataset_kwargs, **kwargs)  # type: ignore[misc]
        except Exception as error:  # as above, but for files
            raise UserError(
                f"task {self.config.task}: its documents cannot be read ({self.DATASET_PATH}: {first_line(error)}). "
                "Correct 'dataset_path' and 'dataset_kwargs' in the task's file, or the files they name."
            ) from error

    @property
    def eval_docs(self) -> Any:
        """The documents that are evaluated, processed once: a task that shuffles must not be asked twice."""
        if not hasattr(self, "_eval_docs"):
            self._eval_docs = super().eval_docs  # type: ignore[misc]
        return self._eval_docs


def place_of(dataset: Any) -> str | None:
    """The folder in which a task's documents lie, the file where they are one; None where they come from no file."""
    if isinstance(dataset, LocalSplits):
        return str(dataset.folder)
    for split in dataset.values() if isinstance(dataset, Mapping) else ():
        for file in getattr(split, "cache_files", None) or ():
            return str(Path(file["filename"]).parent)
    return None
