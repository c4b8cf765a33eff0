"""What one model's answers look like: complete, failed, cut, unread, empty, looping."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from evalcard.compare.health.finding import Severity, share
from evalcard.compare.pairing import Answered, Answers
from evalcard.results.compared import Finding
from evalcard.results.records import ModelRecord, RunRecord

TRUNCATED_WARNING = 0.05
"""Share of answers that the token limit may have cost their score."""
NO_ANSWER_NOTE, NO_ANSWER_WARNING = 0.05, 0.20
"""Shares of answers in which the task's filter found nothing. Weak models do miss the form, so some is normal."""
STOPPED_WARNING = 0.50
"""Share of answers that a stop string ended before the task's filter found an answer in them."""
BROKEN_NOTE, BROKEN_WARNING = 0.01, 0.05
"""Shares of answers that are empty, or that end in a loop."""

Put = Callable[[Severity, str, str], Finding]
"""(severity, text, advice) of one model on one row."""


def about_answers(run: RunRecord, model: ModelRecord, given: Mapping[str, Answers]) -> Iterator[Finding]:
    """One model, row by row. Where an answer failed on one row and was looked into on another, that is said."""
    tasks = {task.name: task for task in run.tasks}
    faults = [answer.fault for answers in given.values() for answer in answers.values() if answer.fault]
    for record in run.rows:
        expected = sum(tasks[name].items_selected * tasks[name].repeats for name in record.tasks)
        answers = [answer for name in record.tasks for answer in given.get(name, {}).values()]
        stops = list(dict.fromkeys(stop for name in record.tasks for stop in tasks[name].stop_strings))
        put = _putter(model, record.name)
        if len(answers) < expected:
            yield put("blocker", f"{len(answers)} of {expected} answers are there and graded.", RESUME)
        if answers:
            yield from _failed(answers, faults, put)
            yield from _cut(answers, put)
            yield from _untold(answers, put)
            yield from _unread(answers, stops, put)
            yield from _broken(answers, put)


def _putter(model: ModelRecord, row: str) -> Put:
    # What touches the baseline touches every comparison with it.
    slug = model.slug if model.role == "compressed" else None

    def put(severity: Severity, text: str, advice: str) -> Finding:
        where = f"{row}, {model.slug}"
        return Finding(finding=text, severity=severity, where=where, advice=advice, model=slug, row=row)

    return put


def _failed(answers: Sequence[Answered], known: Sequence[str], put: Put) -> Iterator[Finding]:
    failed = [answer for answer in answers if answer.outcome == "error" or answer.finish == "error"]
    if not failed:
        return
    own = dict.fromkeys(answer.fault for answer in failed if answer.fault)
    said = f"{share(len(failed), len(answers))} of answers failed"
    if own:
        yield put("blocker", f"{said}: {'; '.join(own)}.", _OVERFLOW)
    elif known:
        yield put("blocker", f"{said}; of this model's other failures one was looked into: {known[0]}.", _OVERFLOW)
    else:
        yield put("blocker", f"{said}.", _FAILED)


def _cut(answers: Sequence[Answered], put: Put) -> Iterator[Finding]:
    cut = [answer for answer in answers if answer.finish == "length"]
    if cut:
        n, missed = len(answers), sum(answer.outcome != "correct" for answer in cut)
        severity: Severity = "warning" if missed / n >= TRUNCATED_WARNING else "note"
        yield put(severity, f"{share(len(cut), n)} of answers hit the token limit, {missed} not right.", _LIMIT)


def _untold(answers: Sequence[Answered], put: Put) -> Iterator[Finding]:
    """That nothing was found is not said of a check that could not be made."""
    untold = sum(answer.finish == "not_told" for answer in answers)
    if untold:
        text = f"How {share(untold, len(answers))} of answers ended is not told: whether the token limit cut any could "
        yield put("note", f"{text}not be checked.", _UNTOLD)


def _unread(answers: Sequence[Answered], stops: Sequence[str], put: Put) -> Iterator[Finding]:
    n = len(answers)
    unread = [answer for answer in answers if answer.outcome == "no_answer"]
    stopped = sum(answer.finish == "stop_string" for answer in unread)
    if stopped / n >= STOPPED_WARNING:
        named = f" ({', '.join(map(repr, stops))})" if stops else ""
        text = f"In {share(stopped, n)} of replies a stop string{named} came before any answer was found."
        yield put("warning", text, _STOPPED)
    elif len(unread) / n >= NO_ANSWER_NOTE:
        severity: Severity = "warning" if len(unread) / n >= NO_ANSWER_WARNING else "note"
        yield put(severity, f"No answer was found in {share(len(unread), n)} of replies.", _UNREAD)


def _broken(answers: Sequence[Answered], put: Put) -> Iterator[Finding]:
    """Answers that say nothing, or the same without end."""
    n = len(answers)
    empty, loops = sum(answer.is_empty for answer in answers), sum(answer.is_loop for answer in answers)
    for count, said, advice in ((empty, "are empty", _EMPTY), (loops, "end in a loop", _LOOP)):
        if count / n >= BROKEN_NOTE:
            severity: Severity = "warning" if count / n >= BROKEN_WARNING else "note"
            yield put(severity, f"{share(count, n)} of answers {said}.", advice)


RESUME = "Give the same command again; it goes on where it stopped."
_FAILED = "Look at the samples with finish 'error': the logits were not finite, or the backend refused the request."
_OVERFLOW = (
    "Values overflow there. Evaluate with --dtype float32, or bfloat16; if that fails too, the weights are broken."
)
_LIMIT = "Raise the limit with --max-new-tokens; a cut answer says little about the model."
_UNTOLD = "Answers that were cut count as wrong or without an answer. `evalcard run` stores how each one ended."
_UNREAD = "Read some of these replies; a missing chat template or a wrong stop string is the usual cause."
_STOPPED = "Look at its 'until' strings with `evalcard tasks NAME --check`: one that occurs in reasoning cuts it short."
_EMPTY = "The model stopped at once: look at the prompt's end, the chat template and the stop strings."
_LOOP = "Read some of them; a broken load or lost accuracy makes models loop, and so does greedy decoding of some."
