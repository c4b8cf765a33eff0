"""Scores that model cards state, beside what was measured: far away means another prompt, or a broken load.

published_scores.json holds the figures of such cards by model, task and number of worked examples.
"""

import functools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from evalcard.compare.health.finding import Severity
from evalcard.compare.measures import Measures
from evalcard.compare.recovery import RowScore
from evalcard.compare.rows import RowScores
from evalcard.results.compared import Finding
from evalcard.results.records import ModelRecord, RunRecord

NOTE, WARNING = 0.02, 0.05
"""Distances of two scores, as fractions, that are said; both only beyond this many standard errors:"""
MIN_ERRORS = 3.0


class Published(NamedTuple):
    """One score of one card."""

    model: str
    """Hub id."""
    task: str
    """Row it is of."""
    shots: int
    metric: str | None
    """None where the task has one metric only."""
    filter: str | None
    score: float
    """A fraction."""
    card: str
    """Hub id of the model in whose card it stands."""


def about_published(run: RunRecord, rows: Sequence[RowScores]) -> Iterator[Finding]:
    """Every model whose Hub id, task and worked examples match; where cards disagree, the nearest score counts."""
    shots = {record.name: {task.num_fewshot for task in run.tasks if task.name in record.tasks} for record in run.rows}
    for row in rows:
        name = row.record.name
        for model in run.models:
            stated = [one for one in _of_model(run, model) if one.task == name and shots[name] == {one.shots}]
            measured = [(one, found) for one in stated if (found := _measured(row, model, one)) is not None]
            if measured:
                one, (score, stderr) = min(measured, key=lambda pair: abs(pair[1][0] - pair[0].score))
                yield from _held_against(row, model, one, score, stderr)


def _held_against(
    row: RowScores, model: ModelRecord, stated: Published, score: float, stderr: float
) -> Iterator[Finding]:
    distance = abs(score - stated.score)
    if distance <= NOTE or distance <= MIN_ERRORS * stderr:
        return
    severity: Severity = "warning" if distance > WARNING else "note"
    text = (
        f"Published {100 * stated.score:.1f} ({stated.shots}-shot, in the card of {stated.card}), measured "
        f"{100 * score:.1f} ± {100 * stderr:.1f}."
    )
    yield Finding(
        finding=text,
        severity=severity,
        where=f"{row.record.name}, {model.slug}",
        advice=_FAR if severity == "warning" else _OFF,
        model=model.slug if model.role == "compressed" else None,
        row=row.record.name,
    )


def _measured(row: RowScores, model: ModelRecord, stated: Published) -> tuple[float, float] | None:
    """(score, standard error) of the measure that was published; None where it was not taken."""
    found = _of_row(row, model)
    if found is None:
        return None
    score, measures = found
    if stated.metric in (None, row.metric) and (stated.filter is None or not _is_other_filter(stated, measures)):
        return None if score.stderr is None else (float(score.score), score.stderr)
    for other in measures.others:
        if other.metric == stated.metric and stated.filter in (None, other.filter) and 0 <= other.score <= 1:
            # Its own spread is not kept; that of right and wrong answers is the largest it can be.
            return other.score, math.sqrt(other.score * (1 - other.score) / max(score.n - 1, 1))
    return None


def _is_other_filter(stated: Published, measures: Measures) -> bool:
    """Whether the published filter is among the row's other measures, so that its score is not the row's own."""
    return any((other.metric, other.filter) == (stated.metric, stated.filter) for other in measures.others)


def _of_row(row: RowScores, model: ModelRecord) -> tuple[RowScore, Measures] | None:
    if model.role == "baseline":
        return row.baseline, row.baseline_measures
    mine = row.compressed.get(model.slug)
    return None if mine is None else (mine.score, mine.measures)


def _of_model(run: RunRecord, model: ModelRecord) -> list[Published]:
    """What is known of a model as it is on the Hub; one that was quantized on the fly is another."""
    if model.scheme is not None:
        return []
    stated_base = run.resolved.get("base_model") if model.role == "baseline" else None
    hub_id = model.hub_id or (stated_base if isinstance(stated_base, str) else None)
    names, scores = _scores()
    return scores.get(_one_name(hub_id, names), []) if hub_id else []


@functools.cache
def _scores() -> tuple[Mapping[str, str], Mapping[str, list[Published]]]:
    """(former name -> present name, name -> scores), names in lower case."""
    stored = json.loads(Path(__file__).with_name("published_scores.json").read_text(encoding="utf-8"))
    names = {old.lower(): new.lower() for old, new in stored["renamed"].items()}
    scores: dict[str, list[Published]] = {}
    for entry in stored["scores"]:
        one = Published(**entry)
        scores.setdefault(_one_name(one.model, names), []).append(one)
    return names, scores


def _one_name(hub_id: str, names: Mapping[str, str]) -> str:
    return names.get(hub_id.lower(), hub_id.lower())


_FAR = "Check the prompts, the chat template and the token limit against that card; a broken load looks like this, too."
_OFF = "Prompts or versions differ a little, as they often do; for a comparison within this run it hardly matters."
