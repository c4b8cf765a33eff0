"""Stored answers -> verdicts, each answer by itself: by the task's own filters and metrics, or by its judge.

A generated answer is first cut at the task's stop strings, then its thinking is taken out. Needs no torch.
"""

import functools
import math
import numbers
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalcard.results.records import ItemScore, Outcome, Sample, Verdict
from evalcard.tasks.judges.judge import Answer, Judge
from evalcard.tasks.judges.thinking import without_thinking
from evalcard.tasks.scoring import Scoring, judge_of

if TYPE_CHECKING:
    from evalcard.tasks.harness import HarnessTask
    from evalcard.tasks.measures import Metric

_SHOWN_ANSWER = 500
"""Characters of an answer that no filter looked into; the whole text is in the sample."""
_GOLDS = " | "
"""Between several right answers, as a verdict shows them."""


@dataclass(frozen=True, slots=True)
class _Reply:
    """A sample that is ready to be graded."""

    sample: Sample
    position: int
    responses: list[Any] | None
    """What the harness would have been given by the model; None where there is no answer to judge."""
    is_thought: bool = False
    """Whether all of it is thinking that never came to an end; it is then graded as an empty text."""


def grade(
    task: "HarnessTask", scoring: Scoring, samples: Sequence[Sample], opens_thinking: bool = False
) -> list[Verdict]:
    """One verdict for each sample, in the same order.

    opens_thinking: whether the prompts end inside a thinking block, so that answers begin in one. An answer whose
    thinking never ends says nothing: truncated where the token limit cut it, else no answer.
    Raises UserError where a filter or ``process_results`` fails, KeyError for an item that the task does not have.
    """
    replies = [_reply(task, sample, opens_thinking) for sample in samples]
    answered = [reply for reply in replies if reply.responses is not None]
    judge = judge_of(task)
    graded = _by_judge(task, judge, scoring, answered) if judge else _by_harness(task, scoring, answered)
    verdicts = [next(graded) if reply.responses is not None else _error_verdict(task, reply) for reply in replies]
    assert next(graded, None) is None, ("more verdicts than answers", task.name, len(answered))
    return verdicts


def _reply(task: "HarnessTask", sample: Sample, opens_thinking: bool) -> _Reply:
    position = task.position(sample.item_id)
    if sample.finish == "error" or any(choice.logprob is None for choice in sample.choices or ()):
        return _Reply(sample, position, None)
    if sample.choices is None:
        assert sample.text is not None, (sample.task, sample.item_id)
        text = cut_at_stops(sample.text, task.generation.get("until"))
        said = without_thinking(text, opens_thinking)
        # Filters see the white space around an answer, as they do in the harness, unless thinking came off with it.
        said = text if said == text.strip() else said
        return _Reply(sample, position, ["" if said is None else said], is_thought=said is None)
    if task.is_rolling:
        return _Reply(sample, position, [sum(choice.logprob or 0.0 for choice in sample.choices)])
    return _Reply(sample, position, [(choice.logprob, choice.is_greedy) for choice in sample.choices])


def cut_at_stops(text: str, until: Any) -> str:
    """``text`` up to the first of the stop strings, which not every backend takes off; a scalar is one string."""
    stops = [until] if isinstance(until, str) else until or ()
    places = [place for stop in stops if stop and (place := text.find(stop)) >= 0]
    return text[: min(places)] if places else text


def _by_judge(task: "HarnessTask", judge: Judge, scoring: Scoring, replies: Sequence[_Reply]) -> Iterator[Verdict]:
    golds = functools.cache(lambda position: tuple(task.golds(position)))
    choices = functools.cache(lambda position: _num_choices(task, position))
    read = [reply for reply in replies if not reply.is_thought]
    asked = [Answer(_only(reply), golds(reply.position), choices(reply.position)) for reply in read]
    judgements = judge.judge(asked)
    assert len(judgements) == len(asked), (task.name, judge.name, len(judgements), len(asked))
    found = iter(judgements)
    for reply in replies:
        judgement = None if reply.is_thought else next(found)
        value = 1.0 if judgement is not None and judgement.is_right else 0.0
        extracted = judgement.extracted[:_SHOWN_ANSWER] if judgement and judgement.extracted is not None else None
        yield Verdict(
            item_id=reply.sample.item_id,
            repeat=reply.sample.repeat,
            extracted=extracted,
            target=_GOLDS.join(golds(reply.position)),
            outcome=_outcome(value, scoring, reply, extracted),
            scores=[ItemScore(metric=scoring.metric, filter=scoring.filter, value=value)],
        )


def _by_harness(task: "HarnessTask", scoring: Scoring, replies: Sequence[_Reply]) -> Iterator[Verdict]:
    results = task.grade([(reply.position, reply.responses or []) for reply in replies])
    fallbacks = task.fallbacks(scoring.filter)
    metrics = {metric.name: metric for metric in task.metrics}
    for reply, result in zip(replies, results, strict=True):
        scores = [
            ItemScore(metric=name, filter=filter_name, value=_item_value(metrics.get(name), value, reply))
            for filter_name, (_, values) in result.items()
            for name, value in values.items()
        ]
        extracted = _extracted(task, scoring, reply, result[scoring.filter][0], fallbacks)
        primary = next((s.value for s in scores if (s.metric, s.filter) == (scoring.metric, scoring.filter)), None)
        yield Verdict(
            item_id=reply.sample.item_id,
            repeat=reply.sample.repeat,
            extracted=extracted,
            target=_GOLDS.join(task.golds(reply.position)),
            outcome=_outcome(primary, scoring, reply, extracted),
            scores=scores,
        )


def _outcome(value: float | None, scoring: Scoring, reply: _Reply, extracted: str | None) -> Outcome:
    """A graded metric counts as correct at its best value only; scored answers always answer."""
    is_best = value is not None and (value >= 1 if scoring.higher_is_better else value <= 0)
    if is_best and not reply.is_thought:
        return "correct"
    if reply.sample.finish == "length":
        return "truncated"
    is_unanswered = extracted is None and reply.sample.choices is None
    return "no_answer" if is_unanswered or value is None else "wrong"


def _error_verdict(task: "HarnessTask", reply: _Reply) -> Verdict:
    return Verdict(
        item_id=reply.sample.item_id,
        repeat=reply.sample.repeat,
        extracted=None,
        target=_GOLDS.join(task.golds(reply.position)),
        outcome="error",
        scores=[],
    )


def _item_value(metric: "Metric | None", value: Any, reply: _Reply) -> float | None:
    """None where the metric is not a mean over items; 0 for thinking without an answer, whatever an empty text gets."""
    if metric is not None and not metric.is_mean:
        return None
    number = _number(value)
    earns_nothing = reply.is_thought and (metric is None or metric.higher_is_better)
    return 0.0 if number is not None and earns_nothing else number


def _number(value: Any) -> float | None:
    """A metric's value for one item; None for what is no number by itself, such as a (gold, prediction) pair."""
    if isinstance(value, numbers.Real):  # bool and numpy's scalars are Real, too
        number = float(value)
        return number if math.isfinite(number) else None
    if hasattr(value, "item") and getattr(value, "size", 0) == 1:
        return _number(value.item())
    return None


def _extracted(task: "HarnessTask", scoring: Scoring, reply: _Reply, found: Any, fallbacks: set[Any]) -> str | None:
    if reply.sample.choices is not None:
        return _chosen(task, scoring, reply)
    return None if reply.is_thought else _text(found, fallbacks)


def _text(found: Any, fallbacks: set[Any]) -> str | None:
    """What the filter extracted; None where it gave its fallback or nothing."""
    if isinstance(found, (list, tuple)):
        found = found[0] if found else ""
    text = str(found).strip()
    return None if not text or found in fallbacks else text[:_SHOWN_ANSWER]


def _chosen(task: "HarnessTask", scoring: Scoring, reply: _Reply) -> str | None:
    """The choice the model prefers, by the measure of the primary metric; None where there was nothing to choose."""
    if not task.is_multiple_choice:
        return None
    choices, scored = task.choices(reply.position), reply.sample.choices or []
    lengths: Mapping[str, list[float]] = {
        "acc_norm": [len(choice) for choice in choices],
        "acc_bytes": [len(choice.encode()) for choice in choices],
    }
    divisors = lengths.get(scoring.metric, [1.0] * len(choices))
    ranked = [(one.logprob or 0.0) / (size or 1) for one, size in zip(scored, divisors, strict=False)]
    return choices[max(range(len(ranked)), key=ranked.__getitem__)] if ranked else None


def _only(reply: _Reply) -> str:
    assert reply.responses is not None and len(reply.responses) == 1, (reply.sample.task, reply.sample.item_id)
    return str(reply.responses[0])


def _num_choices(task: "HarnessTask", position: int) -> int | None:
    """By ``doc_to_choice``, else the document's own ``choices``, which its prompt lists by letter."""
    if getattr(task.task.config, "doc_to_choice", None) is not None:
        return len(task.choices(position))
    choices = task.docs[position].get("choices")
    return len(choices) if isinstance(choices, list) else None
