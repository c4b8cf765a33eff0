"""Files that CI reads, at paths of the user's: checked before the gate judges, written after its word is stored."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evalcard.errors import UserError
from evalcard.results.files import is_file, write_whole
from evalcard.results.store import OWNED, RUN_FILE

if TYPE_CHECKING:
    from evalcard.gate.verdict import GateVerdict
    from evalcard.results.compared import Comparison
    from evalcard.results.records import RunRecord


@dataclass(frozen=True, slots=True)
class GateOutputs:
    """Where ``evalcard gate`` tells CI its word."""

    junit: Path | None
    """Replaced."""
    summary: Path | None
    """Appended to, as the steps of a GitHub job share one file."""
    fails_inconclusive: bool

    def check(self) -> None:
        """Raise UserError for a path that cannot be written, before anything is judged."""
        check_writable(self.junit, "--junit")
        check_writable(self.summary, "--summary")

    def write(self, verdict: "GateVerdict", run: "RunRecord", comparison: "Comparison") -> UserError | None:
        """The error to end with, once the verdict is printed too, where a file cannot be written after all."""
        from evalcard.card.gate_outputs import job_summary, junit_xml

        faults = []
        if self.junit is not None:
            text = junit_xml(verdict, run, comparison, fails_inconclusive=self.fails_inconclusive)
            faults.append(_fault(_replace, self.junit, text))
        if self.summary is not None:
            faults.append(_fault(_append, self.summary, job_summary(verdict, run, comparison)))
        if not any(faults):
            return None
        return UserError(f"the outcome is {verdict.outcome}, which is stored; but {' '.join(filter(None, faults))}")


def check_writable(path: Path | None, option: str) -> None:
    """Raise UserError where ``path`` could not be written, as far as that can be told without writing."""
    if path is None:
        return
    _check_name(path, option)
    if path.is_dir():
        raise UserError(f"{option} {path} is a folder; give the path of a file.")
    if not path.parent.is_dir():
        raise UserError(f"there is no folder {path.parent} for {option} {path}. Make it, or give another path.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UserError(f"{option} {path} cannot be written: permission denied. Give a path that can be written.")


def check_apart(outputs: Mapping[str, Path | None], run: Path, gate_file: Path | None) -> None:
    """Raise UserError where an output would be written over another one, over the gate file, or over a file that
    evalcard keeps in this run or another. By option; a device or a pipe may be given as often as one likes.

    --write-gate may name the gate file: it is there to be kept up to date, and its history stays.
    """
    kept = {identity for path in _owned(run) if (identity := _identity(path))}
    taken: dict[Path | tuple[int, int], str] = {}
    if gate_file is not None:
        taken = dict.fromkeys(_names(gate_file), "--gate-file")
    for option, path in outputs.items():
        if path is None or (path.exists() and not path.is_file()):
            continue
        if _lies_in_a_run(path.resolve()) or _identity(path) in kept:
            raise UserError(f"{option} {path} is a file that evalcard keeps in a run. Give another path.")
        for name in _names(path):
            other = taken.get(name)
            if other not in (None, option) and (other, option) != ("--gate-file", "--write-gate"):
                raise UserError(f"{option} {path} is the file of {other} as well. Give each a file of its own.")
            taken[name] = option


def _names(path: Path) -> list[Path | tuple[int, int]]:
    """What tells a file apart: where its links lead, and which file of the disk it is, if it is one."""
    identity = _identity(path)
    return [path.resolve(), *([identity] if identity else [])]


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _lies_in_a_run(path: Path) -> bool:
    folders = [folder for folder in path.parents if is_file(folder / RUN_FILE)]
    return any(path.relative_to(folder).parts[0] in OWNED for folder in folders)


def _owned(run: Path) -> Iterator[Path]:
    """Files of a run that another name on the disk may lead to."""
    for name in OWNED:
        yield from (run / name).rglob("*") if (run / name).is_dir() else [run / name]


def _check_name(path: Path, option: str) -> None:
    """A path of the user's may be too long to be one, or a link that leads back to itself."""
    try:
        path.resolve()
        path.stat()
    except FileNotFoundError:
        return
    except (OSError, RuntimeError) as error:
        said = getattr(error, "strerror", None) or error
        raise UserError(f"{option} {str(path)[:200]} cannot be written: {said}. Give another path.") from None


def _fault(write: Callable[[Path, bytes], None], path: Path, text: str) -> str | None:
    """What kept the text from being written, so that one file does not cost the other; None where nothing did."""
    try:
        # A command line may hold bytes that are no text.
        write(path, text.encode("utf-8", "replace"))
    except UserError as error:
        return str(error)
    except OSError as error:
        return f"cannot write {path}: {error.strerror or error}."
    return None


def _replace(path: Path, content: bytes) -> None:
    """A link, a pipe or a device is written through: renaming onto /dev/stdout would take it from the machine."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        path.write_bytes(content)
    else:
        write_whole(path, content)


def _append(path: Path, content: bytes) -> None:
    with open(path, "ab") as file:
        file.write(content)
