"""Files that CI reads, at paths of the user's: checked before the gate judges, written after its word is stored."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evalcard.errors import UserError
from evalcard.results.files import write_whole

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

    def write(self, verdict: "GateVerdict", run: "RunRecord", comparison: "Comparison") -> None:
        """Raises UserError, with the outcome in its words, where a file cannot be written after all."""
        from evalcard.card.gate_outputs import job_summary, junit_xml

        faults = []
        if self.junit is not None:
            text = junit_xml(verdict, run, comparison, fails_inconclusive=self.fails_inconclusive)
            faults.append(_fault(_replace, self.junit, text))
        if self.summary is not None:
            faults.append(_fault(_append, self.summary, job_summary(verdict, run, comparison)))
        if any(faults):
            raise UserError(f"the outcome is {verdict.outcome}, which is stored; but {' '.join(filter(None, faults))}")


def check_writable(path: Path | None, option: str) -> None:
    """Raise UserError where ``path`` could not be written, as far as that can be told without writing."""
    if path is None:
        return
    if path.is_dir():
        raise UserError(f"{option} {path} is a folder; give the path of a file.")
    if not path.parent.is_dir():
        raise UserError(f"there is no folder {path.parent} for {option} {path}. Make it, or give another path.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UserError(f"{option} {path} cannot be written: permission denied. Give a path that can be written.")


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
