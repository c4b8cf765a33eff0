"""Stored answers -> verdicts, by the task's own filters and metrics, each answer by itself. Needs no torch."""

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalcard.results.records import ItemScore, Outcome, Sample, Verdict

if TYPE_CHECKING:
    from evalcard.tasks.harness import HarnessTask

_SHOWN_ANSWER = 500
"""Characters of an answer that no filter looked into; the whole text is in the sample."""
_CATEGORIES = (
    (("demo_knowledge", "mmlu", "arc_", "gpqa", "triviaqa", "nq_open", "openbookqa", "sciq"), "Knowledge"),
    (("demo_maths", "demo_words", "gsm", "math", "minerva_math", "hendrycks_math", "aime", "mgsm", "asdiv"), "Maths"),
    (("hellaswag", "winogrande", "piqa", "boolq", "commonsense_qa", "copa", "social_iqa"), "Commonsense"),
    (("bbh", "musr", "drop", "logiqa", "leaderboard_bbh"), "Reasoning"),
    (("ifeval", "leaderboard_ifeval"), "Instruction following"),
    (("wikitext", "lambada", "pile", "c4", "paloma"), "Language modelling"),
    (("truthfulqa",), "Truthfulness"),
    (("humaneval", "mbpp"), "Code"),
)


@dataclass(frozen=True, slots=True)
class Scoring:
    """What a task is judged by."""

    metric: str
    filter: str
    is_mean: bool
    """Whether the task's score is the mean of its items' values; without that there is no recovery."""
    higher_is_better: bool
    category: str
    chance: float
    notes: tuple[str, ...] = ()


def scoring_of(task: "HarnessTask", item_ids: Sequence[int]) -> Scoring:
    """The primary metric and filter: what the task's group pools by, else the first; category and chance level."""
    wanted_metric, wanted_filter = task.preferred
    metrics, filters = task.metrics, task.filters
    assert metrics and filters, (task.name, metrics, filters, task.skipped_filters)
    means = [metric for metric in metrics if metric.is_mean]
    primary = next((m for m in metrics if m.name == wanted_metric), (means or metrics)[0])
    notes = []
    if not primary.is_mean:
        notes.append(f"{task.name}: {primary.name} is no mean over items, so its answers are stored but not compared")
    elif primary is not metrics[0] and wanted_metric is None:
        notes.append(f"{task.name}: judged by {primary.name}; {metrics[0].name} is no mean over items")
    if task.skipped_filters:
        notes.append(f"{task.name}: {', '.join(task.skipped_filters)} need several answers at once and are left out")
    stated = task.metadata.get("evalcard") or {}
    chance = stated.get("chance")
    return Scoring(
        primary.name,
        wanted_filter if wanted_filter in filters else filters[0],
        primary.is_mean,
        primary.higher_is_better,
        str(stated.get("category") or category_of(task.name)),
        float(chance) if chance is not None else _chance(task, item_ids),
        tuple(notes),
    )


def category_of(name: str) -> str:
    """Category by the beginning of a task's name; Other where nothing fits."""
    bare = name.rsplit("::", 1)[-1].lower()
    return next((category for starts, category in _CATEGORIES if bare.startswith(starts)), "Other")


def _chance(task: "HarnessTask", item_ids: Sequence[int]) -> float:
    """Mean of 1/choices over the items for multiple choice, else 0."""
    if not task.is_multiple_choice or not item_ids:
        return 0.0
    counts = [len(task.choices(item_id)) for item_id in item_ids]
    return sum(1 / count for count in counts if count) / len(counts)


def grade(task: "HarnessTask", scoring: Scoring, samples: Sequence[Sample]) -> list[Verdict]:
    """One verdict for each sample, in the same order."""
    judged = [(int(sample.item_id), responses) for sample in samples if (responses := _responses(task, sample))]
    results = iter(task.grade(judged))
    fallbacks = {name: task.fallbacks(name) for name in task.filters}
    means = {metric.name: metric.is_mean for metric in task.metrics}
    return [
        _verdict(task, scoring, sample, next(results), fallbacks, means)
        if _responses(task, sample)
        else _error_verdict(task, sample)
        for sample in samples
    ]


def _responses(task: "HarnessTask", sample: Sample) -> list[Any] | None:
    """What the harness would have been given by the model; None where there is no answer to judge."""
    if sample.finish == "error":
        return None
    if sample.choices is None:
        assert sample.text is not None, (sample.task, sample.item_id)
        return [sample.text]
    if any(choice.logprob is None for choice in sample.choices):
        return None
    if task.is_rolling:
        return [sum(choice.logprob or 0.0 for choice in sample.choices)]
    return [(choice.logprob, choice.is_greedy) for choice in sample.choices]


def _verdict(
    task: "HarnessTask",
    scoring: Scoring,
    sample: Sample,
    result: dict[str, tuple[Any, dict[str, Any]]],
    fallbacks: dict[str, set[Any]],
    means: dict[str, bool],
) -> Verdict:
    scores = [
        ItemScore(metric=name, filter=filter_name, value=_number(value) if means.get(name, True) else None)
        for filter_name, (_, values) in result.items()
        for name, value in values.items()
    ]
    found = result[scoring.filter][0]
    if sample.choices is not None:
        extracted = _chosen(task, scoring, sample)
        is_unanswered = False
    else:
        extracted = _text(found, fallbacks[scoring.filter])
        is_unanswered = extracted is None
    value = next((s.value for s in scores if (s.metric, s.filter) == (scoring.metric, scoring.filter)), None)
    return Verdict(
        item_id=sample.item_id,
        repeat=sample.repeat,
        extracted=extracted,
        target=_target(task, int(sample.item_id)),
        outcome=_outcome(value, scoring, is_unanswered, sample),
        scores=scores,
    )


def _outcome(value: float | None, scoring: Scoring, is_unanswered: bool, sample: Sample) -> Outcome:
    """A graded metric counts as correct at its best value only."""
    if value is not None and (value >= 1 if scoring.higher_is_better else value <= 0):
        return "correct"
    if sample.finish == "length":
        return "truncated"
    return "no_answer" if is_unanswered or value is None else "wrong"


def _error_verdict(task: "HarnessTask", sample: Sample) -> Verdict:
    target = _target(task, int(sample.item_id))
    return Verdict(
        item_id=sample.item_id, repeat=sample.repeat, extracted=None, target=target, outcome="error", scores=[]
    )


def _number(value: Any) -> float | None:
    """A metric's value for one item; None for what is no number by itself, such as a (gold, prediction) pair."""
    if isinstance(value, numbers.Real):  # bool and numpy's scalars are Real, too
        number = float(value)
        return number if math.isfinite(number) else None
    if hasattr(value, "item") and getattr(value, "size", 0) == 1:
        return _number(value.item())
    return None


def _text(found: Any, fallbacks: set[Any]) -> str | None:
    """What the filter extracted; None where it gave its fallback or nothing."""
    if isinstance(found, (list, tuple)):
        found = found[0] if found else ""
    text = str(found).strip()
    return None if not text or found in fallbacks else text[:_SHOWN_ANSWER]


def _chosen(task: "HarnessTask", scoring: Scoring, sample: Sample) -> str | None:
    """The choice the model prefers, by the measure of the primary metric; None where there was nothing to choose."""
    if not task.is_multiple_choice:
        return None
    choices, scored = task.choices(int(sample.item_id)), sample.choices or []
    lengths: dict[str, list[float]] = {
        "acc_norm": [len(choice) for choice in choices],
        "acc_bytes": [len(choice.encode()) for choice in choices],
    }
    divisors = lengths.get(scoring.metric, [1.0] * len(choices))
    ranked = [(one.logprob or 0.0) / (size or 1) for one, size in zip(scored, divisors, strict=False)]
    return choices[max(range(len(ranked)), key=ranked.__getitem__)] if ranked else None


def _target(task: "HarnessTask", item_id: int) -> str:
    target = task.target(item_id)
    if task.is_multiple_choice and isinstance(target, int) and not isinstance(target, bool):
        choices = task.choices(item_id)
        return choices[target] if 0 <= target < len(choices) else str(target)
    return str(target)
