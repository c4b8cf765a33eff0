"""What stored runs tell of rows that are about to be run: the baseline's score, and how many items flip.

Light and forgiving: a record that is damaged, or of a newer evalcard, is as if it were not there, and so is a figure
that cannot be what it is said to be.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from evalcard.compare.plans import ASSUMED_FLIPS
from evalcard.compare.recovery import Values, score_row
from evalcard.errors import UserError
from evalcard.results.compared import ComparedRow, Comparison, CompressedScore
from evalcard.results.records import ModelRecord, RowRecord, RunRecord, TaskRecord
from evalcard.results.runs import run_folders
from evalcard.results.store import RUN_FILE, RunFolder

_UNREADABLE = (UserError, RecursionError)
"""The latter is what JSON of too many brackets makes of its reader."""
_ROUNDING = 1e-9
"""Relative, of sums of graded scores."""


class Known(NamedTuple):
    """A fraction, and the run that tells it."""

    value: float
    run: str


@dataclass(frozen=True, slots=True)
class Prior:
    """What is known of one row."""

    score: Known | None = None
    """The baseline's."""
    flips: Known | None = None
    """Share of the items that flip; None where no run tells, or ASSUMED_FLIPS is the largest over the models."""


@dataclass(frozen=True, slots=True)
class Sought:
    """Models that are about to be run."""

    baseline: str
    """Weights digest."""
    compressed: Sequence[tuple[str | None, str | None]] = field(default_factory=tuple)
    """(weights digest, scheme) of each."""


class _Weight(NamedTuple):
    """Orders what several runs tell: the same prompts, then more items, then the later run."""

    has_same_prompts: bool
    items: int
    created: str


class _Stored(NamedTuple):
    """A run of the same baseline."""

    folder: RunFolder
    run: RunRecord
    baseline: ModelRecord


def find_priors(
    roots: Iterable[Path], rows: Sequence[RowRecord], tasks: Sequence[TaskRecord], sought: Sought
) -> dict[str, Prior]:
    """By row, what runs below ``roots`` (results roots or single runs) with the same baseline tell.

    A comparison is read before any verdicts: it has the scores already. Verdicts are those of runs that were not
    finished, and read only for rows that no comparison has.
    """
    stored = list(_same_baseline(roots, sought.baseline))
    compared = [(one, comparison) for one in stored if (comparison := _comparison(one.folder)) is not None]
    now = {task.name: task for task in tasks}
    priors = {}
    for row in rows:
        found = [
            (_weigh(one.run, there.n, row, now), one.run, there)
            for one, comparison in compared
            for there in comparison.tasks
            if there.task == row.name and there.n >= 1 and _is_same_row(one.run, row, now)
        ]
        found.sort(key=lambda one: one[0], reverse=True)
        scores = (Known(there.baseline.score, run.name) for _, run, there in found if _is_share(there.baseline.score))
        score = next(scores, None) or _graded(stored, row, now)
        priors[row.name] = Prior(score, _largest([(run, there) for _, run, there in found], sought))
    return priors


def _same_baseline(roots: Iterable[Path], digest: str) -> Iterator[_Stored]:
    """Readable runs, each once, the latest first."""
    found: dict[Path, _Stored] = {}
    for root in roots:
        for folder in _folders(root.expanduser()):
            try:
                run = folder.read_run()
            except _UNREADABLE:
                continue
            baseline = next((model for model in run.models if model.role == "baseline"), None)
            if baseline is not None and baseline.weights_digest == digest:
                found[folder.path.resolve()] = _Stored(folder, run, baseline)
    return iter(sorted(found.values(), key=lambda one: one.run.created, reverse=True))


def _folders(root: Path) -> Iterator[RunFolder]:
    try:
        if (root / RUN_FILE).is_file():
            yield RunFolder(root)
        yield from run_folders(root)
    except OSError:
        return  # a root that cannot be listed; the run itself will say so where it matters


def _comparison(folder: RunFolder) -> Comparison | None:
    try:
        return folder.read_comparison()
    except _UNREADABLE:
        return None


def _is_share(value: float) -> bool:
    """Not so for NaN, either."""
    return 0 <= value <= 1


def _is_same_row(run: RunRecord, row: RowRecord, now: Mapping[str, TaskRecord]) -> bool:
    """Whether the run has the row, scored by the same rule from the same tasks, as far as both have them."""
    there = next((one for one in run.rows if one.name == row.name and one.rule == row.rule), None)
    if there is None:
        return False
    then = {task.name: task for task in run.tasks}
    shared = [(then[name], now[name]) for name in there.tasks if name in then and name in row.tasks]
    return bool(shared) and all(
        (one.version, one.metric, one.filter) == (other.version, other.metric, other.filter) for one, other in shared
    )


def _weigh(run: RunRecord, items: int, row: RowRecord, now: Mapping[str, TaskRecord]) -> _Weight:
    same = all(_prompting(now[task.name]) == _prompting(task) for task in run.tasks if task.name in row.tasks)
    return _Weight(same, items, run.created)


def _prompting(task: TaskRecord) -> tuple[object, ...]:
    return task.num_fewshot, task.chat_template, task.decoding, task.repeats


def _largest(found: Sequence[tuple[RunRecord, ComparedRow]], sought: Sought) -> Known | None:
    """The largest flip rate over the compressed models; one of which no run tells counts as assumed."""
    rates = [_flips_of(found, digest, scheme) for digest, scheme in sought.compressed]
    known = [rate for rate in rates if rate is not None]
    if not known:
        return None
    largest = max(known)
    return largest if len(known) == len(rates) or largest.value >= ASSUMED_FLIPS else None


def _flips_of(found: Sequence[tuple[RunRecord, ComparedRow]], digest: str | None, scheme: str | None) -> Known | None:
    """From the weightiest run: of the very model, else of another with its scheme."""
    for is_it in (
        lambda model: digest is not None and model.weights_digest == digest,
        lambda model: scheme is not None and model.scheme == scheme,
    ):
        for run, row in found:
            slugs = {model.slug for model in run.models if model.role == "compressed" and is_it(model)}
            for score in row.compressed:
                if score.model in slugs and (rate := _flip_rate(row, score)) is not None:
                    return Known(rate, run.name)
    return None


def _flip_rate(row: ComparedRow, score: CompressedScore) -> float | None:
    """Flips, or for graded scores and several answers the mass that changed, over items; never less than one flip's
    worth, as none among few items is not none at all."""
    paired = score.paired
    if paired is not None and paired.lost is not None and paired.gained is not None:
        return _rate_of(paired.lost, paired.gained, paired.n)
    if score.lost is None or score.gained is None or score.pass_at:
        return None
    return _rate_of(score.lost, score.gained, row.n)


def _rate_of(lost: float, gained: float, n: int) -> float | None:
    """None for what no items come to."""
    is_possible = n >= 1 and lost >= 0 and gained >= 0 and lost + gained <= n * (1 + _ROUNDING)
    return min(max(lost + gained, 1.0) / n, 1.0) if is_possible else None


def _graded(stored: Sequence[_Stored], row: RowRecord, now: Mapping[str, TaskRecord]) -> Known | None:
    """The score by the verdicts of the latest run that has all of the row's; read only where no comparison tells."""
    for one in stored:
        if _is_same_row(one.run, row, now):
            values = [_values(one, now[name]) for name in row.tasks]
            score = score_row(row.rule, [each for each in values if each]) if all(values) else None
            if score is not None and 0 <= score.score <= 1:
                return Known(float(score.score), one.run.name)
    return None


def _values(stored: _Stored, task: TaskRecord) -> Values:
    """Empty where the task was not graded there, its verdicts are damaged, or they are no shares."""
    if not stored.folder.has_verdicts(stored.baseline.slug, task.name):
        return {}
    try:
        verdicts = stored.folder.read_verdicts(stored.baseline.slug, task.name)
    except _UNREADABLE:
        return {}
    scores = {
        (verdict.item_id, verdict.repeat): score.value
        for verdict in verdicts
        for score in verdict.scores
        if (score.metric, score.filter) == (task.metric, task.filter) and score.value is not None
    }
    if not all(map(_is_share, scores.values())):
        return {}
    return {address: Fraction(value) for address, value in scores.items()}
