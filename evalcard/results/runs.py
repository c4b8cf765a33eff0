"""Which run is meant: ``latest``, a name under the results root, or a folder."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from evalcard.errors import ComparisonRefused, UserError
from evalcard.results.files import exists, is_file, unreadable
from evalcard.results.records import ModelRecord, RunRecord
from evalcard.results.store import RUN_FILE, RunFolder

LATEST = "latest"
REFERENCE = "reference"
"""Committed runs below the results root: neither latest nor reused."""
_LISTED = 10


def find_run(out: Path, which: str = LATEST) -> RunFolder:
    """The run folder, for reading, without its lock; raises UserError listing the runs that exist."""
    out = Path(out).expanduser()
    if which == LATEST:
        return _latest(out)
    for path in (out / which, Path(which).expanduser()):
        if is_file(path / RUN_FILE):
            return RunFolder(path)
        _refuse_closed(path)
    raise UserError(f"there is no run {which!r} in {out} and no such run folder. {_existing(out)}")


def _refuse_closed(path: Path) -> None:
    """Raises UserError for a folder that may not be looked into: what is in it is not known to be missing."""
    try:
        (path / RUN_FILE).stat()
    except PermissionError as error:
        raise unreadable(path, error, "") from None
    except OSError:
        pass


def run_folders(out: Path) -> Iterator[RunFolder]:
    """All runs directly below ``out`` but the committed reference runs, by name."""
    if not exists(out) or not out.is_dir():
        return
    for path in sorted(out.iterdir()):
        if path.name != REFERENCE and is_file(path / RUN_FILE):
            yield RunFolder(path)


_SIZES = ("bits_per_weight", "weight_bytes", "num_parameters")


def known_models(roots: Iterable[Path]) -> list[ModelRecord]:
    """Every model of every readable run below ``roots``, as its run.json tells it."""
    return [model for root in roots for _, run in _readable(Path(root).expanduser()) for model in run.models]


def with_known_sizes(model: ModelRecord, known: Iterable[ModelRecord]) -> ModelRecord:
    """``model`` with the sizes of one that has the same weights (the digest covers the scheme); else as it is."""
    for one in known:
        if one.weight_bytes is not None and one.weights_digest == model.weights_digest is not None:
            return model.model_copy(update={name: getattr(one, name) for name in _SIZES})
    return model


def _latest(out: Path) -> RunFolder:
    runs = list(_readable(out))
    complete = [(run.finished, folder) for folder, run in runs if run.finished is not None]
    if not complete and runs:
        raise ComparisonRefused(
            f"there is no complete run in {out}. Give the `evalcard run` command of one again: what was finished is "
            f"stored. {_existing(out)}"
        )
    if not complete:
        raise UserError(f"there is no complete run in {out}. {_existing(out)}")
    return max(complete, key=lambda pair: pair[0])[1]


def newer_incomplete(out: Path) -> str | None:
    """Name of the newest incomplete run that was begun, or went on, after the one that ``latest`` is; None where there
    is none, and where no run is complete."""
    runs = list(_readable(Path(out).expanduser()))
    complete = [run for _, run in runs if run.finished is not None]
    if not complete:
        return None
    latest = max(complete, key=lambda run: run.finished or "")
    newer = [
        (run.created, folder.name)
        for folder, run in runs
        if run.finished is None and (run.created > latest.created or _written(folder) > (latest.finished or ""))
    ]
    return max(newer)[1] if newer else None


def _written(folder: RunFolder) -> str:
    """When its record was, which a run that goes on does anew; its date of creation stays."""
    when = datetime.fromtimestamp((folder.path / RUN_FILE).stat().st_mtime, UTC)
    return when.isoformat(timespec="seconds")


def _readable(out: Path) -> Iterator[tuple[RunFolder, RunRecord]]:
    for folder in run_folders(out):
        try:
            yield folder, folder.read_run()
        except UserError:
            continue  # one damaged or newer run must not hide the others; naming it reads it and says why


def _existing(out: Path) -> str:
    runs = sorted(_readable(out), key=lambda pair: pair[1].created, reverse=True)
    if not runs:
        return "It holds no runs; make one with `evalcard run`, or give the results root with --out."
    states = [f"{folder.name} ({'complete' if run.finished else 'incomplete'})" for folder, run in runs[:_LISTED]]
    more = f" and {len(runs) - _LISTED} more" if len(runs) > _LISTED else ""
    return f"Runs there, newest first: {', '.join(states)}{more}."
