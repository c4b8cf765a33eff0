"""Is this comparison to be trusted? Findings for the card and the gate.

A blocker leaves nothing to judge; over a warning the gate does not say PASS; a note is worth knowing.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from evalcard.compare.pairing import Answered, Answers
from evalcard.compare.recovery import baseline_fault
from evalcard.compare.rows import RowScores
from evalcard.results.compared import Finding
from evalcard.results.records import ModelRecord, RunRecord, TaskRecord

Severity = Literal["note", "warning", "blocker"]

TRUNCATED_WARNING = 0.05
"""Share of answers that the token limit may have cost their score."""
NO_ANSWER_NOTE, NO_ANSWER_WARNING = 0.05, 0.20
"""Shares of answers in which the task's filter found nothing. Weak models do miss the form, so some is normal."""
STOPPED_WARNING = 0.50
"""Share of answers that a stop string ended before the task's filter found an answer in them."""
STRONG_BASELINE, ERROR_GROWTH = 0.90, 2.0
"""From this score on, a growth of the error rate by this factor is said, as recovery hides it."""


def examine(run: RunRecord, answers: Mapping[str, Mapping[str, Answers]], rows: Sequence[RowScores]) -> list[Finding]:
    """All findings, blockers first; within a severity in the order of models and rows."""
    found: list[Finding] = []
    tasks = {task.name: task for task in run.tasks}
    for model in run.models:
        given = answers.get(model.slug, {})
        for record in run.rows:
            expected = sum(tasks[name].items_selected * tasks[name].repeats for name in record.tasks)
            pooled = [answer for name in record.tasks for answer in given.get(name, {}).values()]
            stops = dict.fromkeys(stop for name in record.tasks for stop in tasks[name].stop_strings)
            found += _of_answers(model, record.name, expected, pooled, list(stops))
    for row in rows:
        found += _of_row(row)
    found += _of_prompts(run, answers)
    found += _of_run(run, tasks)
    order = {"blocker": 0, "warning": 1, "note": 2}
    return sorted(found, key=lambda finding: order[finding.severity])


def _of_answers(
    model: ModelRecord, row: str, expected: int, answers: Sequence[Answered], stops: Sequence[str]
) -> Iterator[Finding]:
    """Completeness, failures, truncation and unread answers of one model on one row."""
    where = f"{row}, {model.slug}"
    # What touches the baseline touches every comparison with it.
    slug = model.slug if model.role == "compressed" else None

    def finding(severity: Severity, text: str, advice: str) -> Finding:
        return Finding(finding=text, severity=severity, where=where, advice=advice, model=slug)

    n = len(answers)
    if n < expected:
        yield finding("blocker", f"{n} of {expected} answers are there and graded.", _RESUME)
    if n == 0:
        return
    failed = sum(answer.outcome == "error" or answer.finish == "error" for answer in answers)
    if failed:
        yield finding("blocker", f"{_share(failed, n)} of answers failed.", _FAILED)
    cut = [answer for answer in answers if answer.finish == "length"]
    if cut:
        missed = sum(answer.outcome != "correct" for answer in cut)
        severity: Severity = "warning" if missed / n >= TRUNCATED_WARNING else "note"
        yield finding(severity, f"{_share(len(cut), n)} of answers hit the token limit, {missed} not right.", _LIMIT)
    unread = [answer for answer in answers if answer.outcome == "no_answer"]
    stopped = sum(answer.finish == "stop_string" for answer in unread)
    if stopped / n >= STOPPED_WARNING:
        named = f" ({', '.join(map(repr, stops))})" if stops else ""
        text = f"In {_share(stopped, n)} of replies a stop string{named} came before any answer was found."
        yield finding("warning", text, _STOPPED)
    elif len(unread) / n >= NO_ANSWER_NOTE:
        severity = "warning" if len(unread) / n >= NO_ANSWER_WARNING else "note"
        yield finding(severity, f"No answer was found in {_share(len(unread), n)} of replies.", _UNREAD)


def _of_row(row: RowScores) -> Iterator[Finding]:
    """A baseline too weak to divide by, answers on one side only, and errors that grew behind a high score."""
    name = row.record.name
    fault = baseline_fault(row.baseline, row.chance, row.higher_is_better)
    if fault:
        yield Finding(finding=f"No recovery: {fault}.", severity="blocker", where=name, advice=_WEAK)
    for slug, mine in row.compressed.items():
        where = f"{name}, {slug}"
        if mine.one_sided:
            text = f"{mine.one_sided} answers are there for one of the two models only."
            yield Finding(finding=text, severity="blocker", where=where, advice=_RESUME, model=slug)
        before, after = 1 - float(row.baseline.score), 1 - float(mine.score.score)
        strong = row.higher_is_better and STRONG_BASELINE <= float(row.baseline.score) < 1
        if strong and mine.recovered.value is not None and after >= ERROR_GROWTH * before:
            text = f"The error rate grew from {100 * before:.2f} % to {100 * after:.2f} %, {after / before:.1f} times."
            yield Finding(finding=text, severity="note", where=where, advice=_ERRORS, model=slug)


def _of_prompts(run: RunRecord, answers: Mapping[str, Mapping[str, Answers]]) -> Iterator[Finding]:
    """Worked examples that were left out; every model read the same prompts."""
    given = answers.get(run.models[0].slug, {})
    for task in run.tasks:
        kept = {item: answer.shots for (item, _), answer in given.get(task.name, {}).items()}
        fewer = [shots for shots in kept.values() if shots is not None]
        if fewer:
            counts = str(min(fewer)) if len(set(fewer)) == 1 else f"{min(fewer)} to {max(fewer)}"
            text = f"{_share(len(fewer), len(kept))} of prompts hold {counts} of {task.num_fewshot} worked examples."
            yield Finding(finding=text, severity="note", where=task.name, advice=_SHOTS)


def _of_run(run: RunRecord, tasks: Mapping[str, TaskRecord]) -> Iterator[Finding]:
    """Subsets, documents that changed since they were answered, and a model that was compared with itself."""
    for record in run.rows:
        selected = sum(tasks[name].items_selected for name in record.tasks)
        total = record.total(tasks[name] for name in record.tasks)
        if selected < total:
            how = " / ".join(dict.fromkeys(tasks[name].selection for name in record.tasks))
            text = f"A subset of {selected} of {total} items was evaluated ({how})."
            yield Finding(finding=text, severity="note", where=record.name, advice=_SUBSET)
    for name, changed in (run.rescored.changed_items if run.rescored else {}).items():
        part = f"{len(changed)} of {tasks[name].items_selected}"
        text = f"The documents of {part} items changed after they were answered; what they say now is what counts."
        yield Finding(finding=text, severity="note", where=name, advice=_CHANGED)
    baseline = run.models[0]
    for model in run.models[1:]:
        same = (model.weights_digest, model.scheme) == (baseline.weights_digest, baseline.scheme)
        if same and model.weights_digest is not None:
            text = "The weights are those of the baseline: a model is compared with itself."
            yield Finding(finding=text, severity="note", where=model.slug, advice=_ITSELF, model=model.slug)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} % ({part} of {whole})"


_RESUME = "Give the same command again; it goes on where it stopped."
_FAILED = "Look at the samples with finish 'error': the logits were not finite, or the backend refused the request."
_LIMIT = "Raise the limit with --max-new-tokens; a cut answer says little about the model."
_UNREAD = "Read some of these replies; a missing chat template or a wrong stop string is the usual cause."
_STOPPED = "Look at its 'until' strings with `evalcard tasks NAME --check`: one that occurs in reasoning cuts it short."
_SHOTS = "The others would not have fitted; scores with all examples are other scores."
_WEAK = "Use an easier task or more items; a ratio over such a baseline says nothing."
_ERRORS = "On a task this easy look at the errors as well as at recovery."
_SUBSET = "Do not set it beside scores of the full task."
_CHANGED = "Make sure that only right answers were corrected: what was said to another question proves nothing."
_ITSELF = "Check that the compressed model is the one you meant."
