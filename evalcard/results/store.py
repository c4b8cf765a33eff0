"""A run's folder: journals of answers, verdicts, records and cards. The one place that knows the layout."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType

from evalcard.errors import UserError
from evalcard.results.compared import Comparison
from evalcard.results.consistency import check_run
from evalcard.results.files import decode_record, encode, encode_record, read_record, safe_name, unreadable, write_whole
from evalcard.results.journal import Journal
from evalcard.results.lock import CARDS_LOCK_FILE, LOCK_FILE, OWNER_FILE, PUBLISH_LOCK_FILE, RunLock
from evalcard.results.records import SCHEMA, ItemId, RunRecord, Sample, Verdict

RUN_FILE = "run.json"
COMPARISON_FILE = "comparison.json"
SAMPLES = "samples"
VERDICTS = "verdicts"
QUESTIONS_FILE = "questions.json"
Questions = Mapping[str, Mapping[ItemId, str]]
OWNED = (
    RUN_FILE, COMPARISON_FILE, QUESTIONS_FILE, SAMPLES, VERDICTS, "README.md", "card.json", "report.html", "models",
    LOCK_FILE, OWNER_FILE, CARDS_LOCK_FILE, PUBLISH_LOCK_FILE,
)  # fmt: skip
"""What evalcard itself reads and writes in a run's folder, cards as well; anything else there is the user's."""


class RunFolder:
    """One run on disk. Made by ``open`` it holds the run's lock; made by ``runs.find_run`` it holds none.

    Whole files are replaced in one step and may be written either way; journals are appended to under the lock.
    """

    def __init__(self, path: Path, lock: RunLock | None = None) -> None:
        self.path = path
        self._lock = lock
        self._journals: dict[Path, Journal] = {}

    @classmethod
    def open(cls, out: Path, name: str) -> "RunFolder":
        """Create or resume ``<out>/<name>/`` and lock it.

        Raises UserError where another process holds the run or the folder cannot be written, before any work.
        """
        path = Path(out).expanduser() / safe_name(name)
        return cls.locked(path, "Give a folder that can be written and locked with --out.")

    @classmethod
    def locked(cls, path: Path, advice: str) -> "RunFolder":
        """The folder ``path`` with its lock; what makes that impossible is a UserError that ends with ``advice``."""
        lock = RunLock(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except (OSError, NotImplementedError) as error:  # the latter: a file system without locks
            reason = getattr(error, "strerror", None) or error
            raise UserError(f"cannot write results to {path}: {reason}. {advice}") from None
        return cls(path, lock)

    @property
    def name(self) -> str:
        return self.path.name

    def journal(self, slug: str, task: str) -> Journal:
        """The answers of one model to one task; the same object each time. Only a locked run may be appended to."""
        path = self.path / SAMPLES / safe_name(slug) / f"{safe_name(task)}.jsonl"
        return self._journals.setdefault(path, Journal(path, writable=self._lock is not None))

    def write_verdicts(self, slug: str, task: str, verdicts: Iterable[Verdict]) -> None:
        """Replace all verdicts of one model on one task."""
        lines = [encode_record(verdict) + b"\n" for verdict in verdicts]
        write_whole(self._verdicts_path(slug, task), b"".join(lines))

    def write_samples(self, slug: str, task: str, samples: Iterable[Sample]) -> None:
        """Replace all answers of one model to one task: those of other results, which no journal grew."""
        lines = [encode_record(sample) + b"\n" for sample in samples]
        write_whole(self.path / SAMPLES / safe_name(slug) / f"{safe_name(task)}.jsonl", b"".join(lines))

    def write_questions(self, questions: Questions) -> None:
        """Replace what was asked, by task and item, where no task file can tell it again."""
        told = {task: [[item, text] for item, text in by_item.items()] for task, by_item in questions.items()}
        write_whole(self.path / QUESTIONS_FILE, encode({"schema": SCHEMA, "questions": told}) + b"\n")

    def read_questions(self) -> dict[str, dict[ItemId, str]]:
        """Empty where there are none, or none that can be read: nothing is measured by them."""
        try:
            told = json.loads((self.path / QUESTIONS_FILE).read_bytes())["questions"]
            return {str(task): {item: str(text) for item, text in pairs} for task, pairs in told.items()}
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
            return {}

    def has_verdicts(self, slug: str, task: str) -> bool:
        return self._verdicts_path(slug, task).exists()

    def read_verdicts(self, slug: str, task: str) -> list[Verdict]:
        """Raises UserError where the task was never graded or a line is damaged."""
        path = self._verdicts_path(slug, task)
        advice = "Give the `evalcard run` command again: it grades the stored answers."
        try:
            lines = path.read_bytes().split(b"\n")
        except OSError as error:
            raise unreadable(path, error, advice) from None
        places = [(line, f"{path}, line {number},") for number, line in enumerate(lines, start=1) if line]
        return [decode_record(line, Verdict, place, advice) for line, place in places]

    def answer_digests(self, run: RunRecord) -> dict[str, str]:
        """sha256 of every file of answers and of verdicts that there is, by its path in the folder, with slashes."""
        places = [
            f"{kind}/{safe_name(model.slug)}/{safe_name(task.name)}.jsonl"
            for model in run.models
            for task in run.tasks
            for kind in (SAMPLES, VERDICTS)
        ]
        found = {place: _digest_of(self.path / place) for place in places}
        return {place: digest for place, digest in found.items() if digest is not None}

    def write_run(self, run: RunRecord) -> None:
        write_whole(self.path / RUN_FILE, encode_record(run, indent=1) + b"\n")

    def read_run(self) -> RunRecord:
        """Raises UserError where there is none, it is damaged, does not agree with itself, or a newer evalcard wrote
        it."""
        path = self.path / RUN_FILE
        run = read_record(path, RunRecord, "Give the `evalcard run` command again to make it.")
        check_run(run, str(path))
        return run

    def write_comparison(self, comparison: Comparison) -> None:
        write_whole(self.path / COMPARISON_FILE, encode_record(comparison, indent=1) + b"\n")

    def read_comparison(self) -> Comparison:
        """Raises UserError where there is none, it is damaged, or a newer evalcard wrote it."""
        advice = "Give the `evalcard run` command again: stored answers are kept."
        return read_record(self.path / COMPARISON_FILE, Comparison, advice)

    def write_text(self, relative: str, text: str) -> Path:
        """Write a file below the run, with \\n line ends; returns its path."""
        return self.write_bytes(relative, text.encode("utf-8"))

    def write_bytes(self, relative: str, content: bytes) -> Path:
        """Write a file below the run; returns its path."""
        path = self.path / relative
        assert path.resolve().is_relative_to(self.path.resolve()), (self.path, relative)
        write_whole(path, content)
        return path

    def close(self) -> None:
        """Close the journals and let the lock go; may be called twice."""
        for journal in self._journals.values():
            journal.close()
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _verdicts_path(self, slug: str, task: str) -> Path:
        return self.path / VERDICTS / safe_name(slug) / f"{safe_name(task)}.jsonl"


def _digest_of(path: Path) -> str | None:
    """None where there is no such file. Raises UserError where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}. Make it readable.") from None
