"""One line of CSV for each row or average and compressed model: unrounded, for a spreadsheet or a data frame."""

import csv
import io
import re
from collections.abc import Iterator

from evalcard.card.paths import without_paths
from evalcard.card.tables import ordered_rows, tasks_of, total_of
from evalcard.compare.averages import AVERAGE
from evalcard.results.compared import ComparedRow, Comparison, CompressedScore
from evalcard.results.records import ModelRecord, RunRecord

COLUMNS = (
    "run", "scope", "row", "category", "metric", "filter", "higher_is_better", "items", "items_total",
    "stopped_early", "repeats", "shots",
    "baseline_model", "baseline_score", "baseline_stderr", "model", "scheme", "score", "stderr", "recovery",
    "recovery_low", "recovery_high", "confidence", "difference", "difference_low", "difference_high", "lost", "gained",
    "mcnemar_p", "reason",
)  # fmt: skip
"""As docs/importing.md explains them. Scores, recoveries and differences are fractions; what was not measured is empty,
and so is an upper end that there is none of. scope: task, average or overall."""

_FORMULA = re.compile(r"^[\s'\"]*[=+\-@]|^[\t\r]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")

Cell = str | int | float | bool | None


def csv_lines(run: RunRecord, comparison: Comparison) -> str:
    """With a head; lines end in CR LF, as RFC 4180 has it, and what holds commas, quotes or line ends is quoted.

    A run without a compressed model has one line a row, with the baseline alone.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for row in ordered_rows(comparison):
        for values in _of_row(run, comparison, row):
            assert values.keys() == set(COLUMNS), set(COLUMNS) ^ values.keys()
            writer.writerow([_cell(values[name]) for name in COLUMNS])
    return text.getvalue()


def _of_row(run: RunRecord, comparison: Comparison, row: ComparedRow) -> Iterator[dict[str, Cell]]:
    tasks = [] if row.metric == AVERAGE else tasks_of(run, row)
    shared: dict[str, Cell] = {
        "run": run.name,
        "scope": "overall" if row == comparison.overall else "average" if row.metric == AVERAGE else "task",
        "row": row.task,
        "category": row.category,
        "metric": row.metric,
        "filter": _one(task.filter for task in tasks),
        "higher_is_better": row.higher_is_better,
        "items": row.n if tasks else None,
        "items_total": total_of(run, row) if tasks else None,
        "repeats": _one(task.repeats for task in tasks),
        "shots": _one(task.num_fewshot for task in tasks),
        "baseline_model": _name(run.models[0]) if run.models else None,
        "baseline_score": row.baseline.score,
        "baseline_stderr": row.baseline.stderr,
        "confidence": comparison.confidence,
    }
    models = {model.slug: model for model in run.models}
    for one in row.compressed:
        yield shared | _of_model(models.get(one.model), one)
    if not row.compressed:
        yield dict.fromkeys(COLUMNS) | shared | {"stopped_early": False}


def _of_model(model: ModelRecord | None, one: CompressedScore) -> dict[str, Cell]:
    recovery, difference = one.recovery, one.difference
    used = {} if one.sequential is None else {"items": one.sequential.used, "items_total": one.sequential.items}
    return used | {
        "stopped_early": one.sequential is not None,
        "model": _name(model) if model is not None else one.model,
        "scheme": one.scheme,
        "score": one.score,
        "stderr": one.stderr,
        "recovery": _share(recovery.value if recovery else None),
        "recovery_low": _share(recovery.low if recovery else None),
        "recovery_high": _share(recovery.high if recovery else None),
        "difference": difference.value if difference else None,
        "difference_low": difference.low if difference else None,
        "difference_high": difference.high if difference else None,
        "lost": one.lost,
        "gained": one.gained,
        "mcnemar_p": one.mcnemar_p,
        "reason": one.reason,
    }


def _name(model: ModelRecord) -> str:
    return without_paths(model.hub_id or model.name)


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _one(values: Iterator[Cell]) -> Cell:
    """What all leaf tasks of a row share; several are named together."""
    told = list(dict.fromkeys(values))
    return told[0] if len(told) == 1 else " / ".join(map(str, told)) or None


def _cell(value: Cell) -> str:
    """Numbers in Python's shortest exact form. Text that a spreadsheet would run as a formula gets an apostrophe before
    it, which makes it text there."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    text = _CONTROL.sub("\ufffd", without_paths(value))
    return f"'{text}" if _FORMULA.match(text) else text
