"""The tables of a card: one a category, every cell a string, every dash with its reason."""

import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from evalcard.card import numbers
from evalcard.card.paths import without_paths
from evalcard.compare.averages import AVERAGE
from evalcard.compare.published import Match, PublishedRow, check_row
from evalcard.results.compared import OVERALL, ComparedRow, Comparison, CompressedScore
from evalcard.results.records import RunRecord, TaskRecord


@dataclass(frozen=True, slots=True)
class RowView:
    """One line of a table; ``mark`` points to the note that explains a dash."""

    task: str
    detail: str
    items: str
    baseline: str
    compressed: str
    recovery: str
    interval: str
    """Of the recovery, in percent; empty where there is none."""
    lost: str
    gained: str
    p_value: str
    mark: str = ""


@dataclass(frozen=True, slots=True)
class TableView:
    """One category: its rows, and their average where there are two or more."""

    category: str
    rows: tuple[RowView, ...]
    average: RowView | None
    average_of: tuple[str, ...]
    """The rows that enter the average."""
    notes: tuple[tuple[str, str], ...]
    """(mark, reason), in the order of the rows."""


def categories(comparison: Comparison) -> list[str]:
    """In the order of their first rows."""
    return list(dict.fromkeys(row.category for row in comparison.tasks))


def average_of(comparison: Comparison, category: str) -> ComparedRow | None:
    return next((row for row in comparison.averages if row.category == category), None)


def score_of(row: ComparedRow, slug: str) -> CompressedScore | None:
    """One compressed model's score on a row; None where it has none."""
    return next((score for score in row.compressed if score.model == slug), None)


def tasks_of(run: RunRecord, row: ComparedRow) -> list[TaskRecord]:
    """The leaf tasks of a row, or of all rows of an average."""
    leaves = {record.name: record.tasks for record in run.rows}
    names = {leaf for name in row.tasks for leaf in leaves.get(name, [name])}
    return [task for task in run.tasks if task.name in names]


def total_of(run: RunRecord, row: ComparedRow) -> int:
    """Items of the whole row, evaluated or not."""
    tasks = tasks_of(run, row)
    record = next((one for one in run.rows if one.name == row.task), None)
    return record.total(tasks) if record else sum(task.items_total for task in tasks)


def is_percent(run: RunRecord, row: ComparedRow) -> bool:
    """Scores where higher is better are shares; others (perplexity, error counts) are shown as they are."""
    return all(task.higher_is_better for task in tasks_of(run, row))


def ordered_rows(comparison: Comparison) -> list[ComparedRow]:
    """Each category's rows, then its average; last the average of all."""
    rows: list[ComparedRow] = []
    for category in categories(comparison):
        rows += [row for row in comparison.tasks if row.category == category]
        rows += [row for row in comparison.averages if row.category == category]
    return rows if comparison.overall is None else [*rows, comparison.overall]


def row_title(comparison: Comparison, row: ComparedRow) -> str:
    """``gsm8k``, ``average of knowledge``, ``overall average``."""
    if row == comparison.overall:
        return f"{OVERALL} average"
    return f"average of {row.category}" if row.metric == AVERAGE else row.task


def table_view(run: RunRecord, comparison: Comparison, category: str, slug: str) -> TableView:
    """One compressed model beside the baseline, on all rows of a category."""
    rows = [row for row in comparison.tasks if row.category == category]
    average = average_of(comparison, category)
    reasons: dict[str, str] = {}
    views = tuple(_marked(row_view(run, row, slug), score_of(row, slug), reasons) for row in rows)
    average_view = None
    if average is not None:
        average_view = _marked(row_view(run, average, slug), score_of(average, slug), reasons)
    notes = tuple((mark, reason) for reason, mark in reasons.items())
    return TableView(category, views, average_view, tuple(average.tasks) if average else (), notes)


def overall_view(run: RunRecord, comparison: Comparison, slug: str) -> TableView | None:
    """The average over all rows, where there is one."""
    if comparison.overall is None:
        return None
    reasons: dict[str, str] = {}
    row = comparison.overall
    view = _marked(row_view(run, row, slug), score_of(row, slug), reasons)
    notes = tuple((mark, reason) for reason, mark in reasons.items())
    return TableView(row.category, (), view, tuple(row.tasks), notes)


def row_view(run: RunRecord, row: ComparedRow, slug: str) -> RowView:
    """All cells of one row; an average has neither details nor items of its own."""
    percent = is_percent(run, row)
    score = score_of(row, slug)
    recovery = score.recovery.value if score is not None and score.recovery is not None else None
    is_average = row.metric == AVERAGE
    view = RowView(
        task=row.task,
        detail="" if is_average else _detail(run, row),
        items="" if is_average else _items(run, row, score),
        baseline=numbers.score(row.baseline.score, row.baseline.stderr, percent),
        compressed=numbers.DASH if score is None else numbers.score(score.score, score.stderr, percent),
        recovery=numbers.recovery(recovery),
        interval=interval_of(score),
        lost=numbers.count(score.lost if score else None),
        gained=numbers.count(score.gained if score else None),
        p_value=numbers.p_value(score.mcnemar_p if score else None),
    )
    if recovery is not None:
        _check_printed(view, percent)
    return view


def interval_of(score: CompressedScore | None) -> str:
    """The interval of a recovery, as it is printed; empty where there is none."""
    known = score.recovery if score is not None else None
    return numbers.interval(known.low, known.high) if known else ""


def shots(tasks: Sequence[TaskRecord]) -> str:
    return _joined(f"{task.num_fewshot}-shot" for task in tasks)


def metric(tasks: Sequence[TaskRecord]) -> str:
    """The primary metric with its filter; the harness's ``none`` is no filter."""
    return _joined(task.metric if task.filter == "none" else f"{task.metric}, {task.filter}" for task in tasks)


def _check_printed(view: "RowView", higher_is_better: bool) -> None:
    """A recovery that contradicts its printed scores is our error, and must not reach a card."""
    baseline, compressed = (text.split()[0] for text in (view.baseline, view.compressed))
    row = PublishedRow(view.task, baseline, compressed, view.recovery.split()[0], higher_is_better)
    assert isinstance(check_row(row), Match), view


def _joined(values: Iterable[str]) -> str:
    return " / ".join(dict.fromkeys(values))


def _detail(run: RunRecord, row: ComparedRow) -> str:
    """Shots, metric and filter, and the direction where it is not the usual one."""
    tasks = tasks_of(run, row)
    direction = "" if is_percent(run, row) else ", lower is better"
    return f"{shots(tasks)}, {metric(tasks)}{direction}"


def _items(run: RunRecord, row: ComparedRow, score: CompressedScore | None) -> str:
    """``40 of 200``, and ``30 × 64`` where each item was answered several times."""
    used, total = row.n, total_of(run, row)
    if score is not None and score.sequential is not None:
        used, total = score.sequential.used, score.sequential.items
    items = str(used) if used == total else f"{used} of {total}"
    repeats = {task.repeats for task in tasks_of(run, row)}
    return items if repeats == {1} else f"{items} × {' / '.join(map(str, sorted(repeats)))}"


def _marked(view: RowView, score: CompressedScore | None, reasons: dict[str, str]) -> RowView:
    """Give a dash its letter; equal reasons share one."""
    if score is not None and score.recovery is not None:
        return view
    reason = without_paths(score.reason or "not stated") if score is not None else "the model has no answers here"
    mark = reasons.setdefault(reason, _letter(len(reasons)))
    return replace(view, mark=mark)


def _letter(number: int) -> str:
    """a, b, ... z, aa, ab, ..."""
    letters = string.ascii_lowercase
    return letters[number] if number < 26 else _letter(number // 26 - 1) + letters[number % 26]
