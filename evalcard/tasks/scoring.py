"""What a task is judged by: its primary metric and filter or its judge, its category, and the score of guessing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalcard.results.records import DEFAULT_CATEGORY

if TYPE_CHECKING:
    from evalcard.tasks.harness import HarnessTask
    from evalcard.tasks.judges.judge import Judge
    from evalcard.tasks.measures import Metric

JUDGED_METRIC = "exact_match"
"""Name of a judge's verdict where the task's own first metric is no share of right answers."""
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
    """The judge's name where a judge stands in for the task's filters."""
    is_mean: bool
    """Whether the task's score is the mean of its items' values; without that there is no recovery."""
    higher_is_better: bool
    category: str
    chance: float
    notes: tuple[str, ...] = ()


def scoring_of(task: "HarnessTask", positions: Sequence[int]) -> Scoring:
    """By the task's judge where it has one; else by what the task's group pools by, or its first mean over items.

    positions: places, in the task's document order, of the items that are evaluated; chance is taken over them.
    """
    stated = task.settings
    category = str(stated.get("category") or category_of(task.name))
    chance = float(stated["chance"]) if stated.get("chance") is not None else _chance(task, positions)
    judge = judge_of(task)
    if judge is not None:
        return Scoring(_judged_metric(task), judge.name, True, True, category, chance)
    wanted_metric, wanted_filter = task.preferred
    metrics, filters = task.metrics, task.filters
    assert metrics and filters, (task.name, metrics, filters, task.skipped_filters)
    means = [metric for metric in metrics if metric.is_mean]
    primary = next((m for m in metrics if m.name == wanted_metric), (means or metrics)[0])
    return Scoring(
        primary.name,
        wanted_filter if wanted_filter in filters else filters[0],
        primary.is_mean,
        primary.higher_is_better,
        category,
        chance,
        _notes(task, primary, metrics[0]),
    )


def judge_of(task: "HarnessTask") -> "Judge | None":
    """What reads the task's answers instead of its filters; None for scored tasks, which have no text to read."""
    return task.judge if task.task.OUTPUT_TYPE == "generate_until" else None


def category_of(name: str) -> str:
    """Category by the beginning of a task's name; Other where nothing fits."""
    bare = name.rsplit("::", 1)[-1].lower()
    return next((category for starts, category in _CATEGORIES if bare.startswith(starts)), DEFAULT_CATEGORY)


def _judged_metric(task: "HarnessTask") -> str:
    first = next(iter(task.metrics), None)
    return first.name if first is not None and first.is_mean and first.higher_is_better else JUDGED_METRIC


def _notes(task: "HarnessTask", primary: "Metric", first: "Metric") -> tuple[str, ...]:
    notes = []
    if not primary.is_mean:
        notes.append(f"{task.name}: {primary.name} is no mean over items, so its answers are stored but not compared")
    elif primary is not first and task.preferred[0] is None:
        notes.append(f"{task.name}: judged by {primary.name}; {first.name} is no mean over items")
    if task.skipped_filters:
        notes.append(f"{task.name}: {', '.join(task.skipped_filters)} need several answers at once and are left out")
    return tuple(notes)


def _chance(task: "HarnessTask", positions: Sequence[int]) -> float:
    """Mean of 1/choices over the items for multiple choice, else 0."""
    if not task.is_multiple_choice or not positions:
        return 0.0
    counts = [len(task.choices(position)) for position in positions]
    return sum(1 / count for count in counts if count) / len(counts)
