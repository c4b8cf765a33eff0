"""May two stored results be compared? Other settings, items or prompts are refused, each with what differs."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evalcard.errors import ComparisonRefused
from evalcard.results.journal import Address
from evalcard.results.records import RowRecord, Sample, TaskRecord
from evalcard.results.stored import StoredModel

_SHOWN = 3
"""Tasks or items that a message names."""
_SEED = re.compile(r", seed (\d+)")
_FACTS = (
    ("the task's version", lambda task: _number_or_text(task.version)),
    ("metric", lambda task: f"{task.metric} ({task.filter})"),
    ("judge", lambda task: task.judge or "the task's own grading"),
    ("direction", lambda task: "higher is better" if task.higher_is_better else "lower is better"),
    ("worked examples", lambda task: task.num_fewshot),
    ("answers an item", lambda task: task.repeats),
    ("decoding", lambda task: _SEED.sub("", task.decoding)),
    ("chat template", lambda task: "applied" if task.chat_template else "none"),
)
_OWN_FACTS = (
    ("stop strings", lambda task: ", ".join(map(repr, task.stop_strings)) or None),
    ("date in the chat template", lambda task: task.template_date),
)
"""Known of our own runs alone, and not of all of them."""

Samples = Mapping[Address, Sample]


def refuse_other_settings(tasks: Iterable[str], baseline: StoredModel, compressed: StoredModel) -> None:
    """Raises ComparisonRefused where tasks were asked or graded in another way; the seed of sampling may differ."""
    facts = _FACTS + (_OWN_FACTS if baseline.prompts == compressed.prompts == "ids" else ())
    by_task = {name: _differences(baseline.tasks[name], compressed.tasks[name], facts) for name in tasks}
    told = [f"{name}: {'; '.join(found)}" for name, found in by_task.items() if found]
    if told:
        raise ComparisonRefused(
            f"{title(baseline)} and {title(compressed)} were not evaluated alike: {_listed(told, '. ')}. "
            "Evaluate both in the same way, or leave these tasks out by naming others with --task."
        )


def refuse_other_rules(rows: Sequence[tuple[RowRecord, RowRecord]], common_items: bool) -> None:
    """Raises ComparisonRefused for rows of one name that pool tasks by another rule, or other tasks."""
    for ours, theirs in rows:
        if ours.rule != theirs.rule:
            raise ComparisonRefused(
                f"the row {ours.name} weighs its tasks by another rule in each result: {ours.rule} against "
                f"{theirs.rule}. Evaluate both with the same task files."
            )
        only = sorted(set(ours.tasks) ^ set(theirs.tasks))
        if only and not common_items:
            raise ComparisonRefused(
                f"the row {ours.name} is made of other tasks in each result; only one has: {_listed(only)}. "
                "--common-items compares what both answered."
            )


def refuse_other_items(task: str, ours: Samples, theirs: Samples, names: tuple[str, str]) -> None:
    """Raises ComparisonRefused where the same id stands for another document."""
    others = [at for at in ours.keys() & theirs.keys() if ours[at].item_hash != theirs[at].item_hash]
    if others:
        raise ComparisonRefused(
            f"task {task}: {_counted(others, ours, theirs)} were asked about other documents in {names[0]} than in "
            f"{names[1]} (their hashes differ). Only answers to the same items can be compared; evaluate both with the "
            "same data."
        )


def refuse_other_prompts(task: str, ours: Samples, theirs: Samples, names: tuple[str, str]) -> None:
    """Raises ComparisonRefused where the same document was asked in other words, or other tokens."""
    others = [at for at in ours.keys() & theirs.keys() if ours[at].prompt_hash != theirs[at].prompt_hash]
    if others:
        raise ComparisonRefused(
            f"task {task}: {_counted(others, ours, theirs)} had other prompts in {names[0]} than in {names[1]}. "
            "Evaluate both with the same tokenizer, chat template, worked examples and system message."
        )


def refuse_other_limits(task: str, ours: Samples, theirs: Samples, names: tuple[str, str]) -> None:
    """Raises ComparisonRefused where the token limit ended an answer earlier than the other's went on.

    The prompts must be the same: then both had the same room. One token more is allowed for, as a stop token counts
    with some backends.
    """
    for at in ours.keys() & theirs.keys():
        one, other = sorted((ours[at], theirs[at]), key=lambda sample: sample.output_tokens)
        if one.finish == "length" and other.output_tokens > one.output_tokens + 1 > 1:
            raise ComparisonRefused(
                f"task {task}, item {at[0]}: of {names[0]} and {names[1]} one ended an answer at its limit after "
                f"{one.output_tokens} tokens, while the other's goes on to {other.output_tokens}. Evaluate both with "
                "the same --max-new-tokens and --max-model-len."
            )


def refuse_other_subsets(answered: Mapping[str, tuple[Samples, Samples]], names: tuple[str, str]) -> None:
    """Raises ComparisonRefused where one result has answers that the other lacks; ``answered`` is by task."""
    told = []
    for task, (ours, theirs) in answered.items():
        shared = len(ours.keys() & theirs.keys())
        if max(len(ours), len(theirs)) > shared:
            told.append(f"{task}: {len(ours)} answers against {len(theirs)}, {shared} of them to the same items")
    if told:
        raise ComparisonRefused(
            f"{names[0]} and {names[1]} answered different items. {_listed(told, '. ')}. "
            "--common-items compares what both answered."
        )


def refuse_incomplete(models: Iterable[StoredModel]) -> None:
    """Raises ComparisonRefused for a run that did not end."""
    for model in models:
        if not model.is_complete:
            raise ComparisonRefused(
                f"{title(model)} is incomplete. Give its `evalcard run` command again, or compare what both answered "
                "with --common-items."
            )


def title(model: StoredModel) -> str:
    """Where it comes from, in the middle of a sentence: without what an importer adds about files it passed over."""
    return model.origin.partition(";")[0]


def seeds_of(task: TaskRecord, model: StoredModel) -> set[int]:
    """The seed of a sampled task; empty where nothing was drawn, or it is not known."""
    if not task.decoding.startswith("sampled"):
        return set()
    found = _SEED.search(task.decoding)
    stated = int(found[1]) if found else model.seed
    return set() if stated is None else {stated}


def _differences(ours: TaskRecord, theirs: TaskRecord, facts: Sequence[tuple[str, Any]]) -> list[str]:
    """What is not known of one of them cannot differ."""
    stated = [(name, fact(ours), fact(theirs)) for name, fact in facts]
    return [f"{name} {one} against {other}" for name, one, other in stated if None not in (one, other) and one != other]


def _number_or_text(version: str) -> float | str:
    """Harnesses write the same version as 3 or 3.0."""
    try:
        return float(version)
    except ValueError:
        return version


def _counted(others: Sequence[Address], ours: Samples, theirs: Samples) -> str:
    shared = dict.fromkeys(item for item, repeat in ours if (item, repeat) in theirs)
    different = set(item for item, _ in others)
    named = [str(item) for item in shared if item in different]
    return f"{len(named)} of {len(shared)} items ({_listed(named)})"


def _listed(texts: Sequence[str], between: str = ", ") -> str:
    more = f"{between if between != '. ' else ' '}and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return between.join(texts[:_SHOWN]) + more
