"""Every answer of a run as columns of numbers and short strings; long texts stand in pools (pool.py).

The page's script reads these columns (templates/report/store.js); change both together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evalcard.card import numbers
from evalcard.card.labels import model_labels
from evalcard.card.paths import without_paths
from evalcard.card.report.asked import Asked
from evalcard.card.report.pool import Pool, starts_of
from evalcard.compare.choices import alternatives, gold_of, pick_of, rounded
from evalcard.compare.flips import Direction, flipped
from evalcard.results.journal import Address
from evalcard.results.records import Finish, Outcome, RunRecord, Sample, TaskRecord, Verdict
from evalcard.results.stored import StoredModel

_SNIPPET = 90
"""Characters of a question in the list."""
_OUTCOMES: dict[Outcome, str] = {"correct": "c", "wrong": "w", "no_answer": "n", "truncated": "t", "error": "e"}
_FINISHES: dict[Finish, str] = {"stop": "s", "stop_string": "x", "length": "l", "error": "e", "not_told": "u"}
_CHANGES: dict[Direction, str] = {"lost": "l", "gained": "g"}
_NONE = "-"

Graded = Mapping[Address, tuple[Sample, Verdict]]


@dataclass
class Texts:
    """Where long strings go: ``told`` is searched, ``prompts`` are only shown."""

    told: Pool = field(default_factory=Pool)
    prompts: Pool = field(default_factory=Pool)


def item_parts(run: RunRecord, models: Sequence[StoredModel], asked: Asked) -> list[Any]:
    """[columns, block of told texts, ..., block of prompts, ...], each ready to be JSON.

    models: the baseline first. An item stands there once for each repeat, in the order of the run's tasks and of their
    documents; items that only some models answered are there too.
    """
    texts = Texts()
    changes = [_changes(run, models[0], model) for model in models[1:]]
    rows, listed = [], []
    for number, task in enumerate(run.tasks):
        graded = [_graded(model, task.name) for model in models]
        addresses = list(dict.fromkeys(address for of_model in graded for address in of_model))
        listed.append((task, len(addresses)))
        rows += [_row(texts, number, task, address, graded, changes, asked) for address in addresses]
    told, prompts = texts.told.blocks(), texts.prompts.blocks()
    columns = {
        "models": _models(run, models),
        "tasks": [_task(task, count) for task, count in listed],
        "rows": _groups(run),
        "columns": {name: [row[name] for row in rows] for name in _COLUMNS},
        "told": starts_of(told),
        "prompts": starts_of(prompts),
    }
    return [columns, *told, *prompts]


_COLUMNS = ("task", "id", "repeat", "snippet", "question", "prompt", "gold", "choices", "right", "change", "answers")


def _models(run: RunRecord, models: Sequence[StoredModel]) -> list[dict[str, str]]:
    labels = model_labels(run.models)
    return [{"slug": one.model.slug, "label": without_paths(labels[one.model.slug])} for one in models]


def _task(task: TaskRecord, count: int) -> dict[str, Any]:
    """What the detail of an item says of its task."""
    metric = task.metric if task.filter == "none" else f"{task.metric}, {task.filter}"
    return {"name": task.name, "items": count, "metric": metric, "repeats": task.repeats, "shots": task.num_fewshot}


def _groups(run: RunRecord) -> list[dict[str, Any]]:
    """Rows of several tasks, which can be chosen as one."""
    numbers_of = {task.name: number for number, task in enumerate(run.tasks)}
    return [
        {"name": row.name, "tasks": [numbers_of[name] for name in row.tasks if name in numbers_of]}
        for row in run.rows
        if len(row.tasks) > 1
    ]


def _graded(model: StoredModel, task: str) -> Graded:
    """In the order of the verdicts, which is that of the documents."""
    samples = {(one.item_id, one.repeat): one for one in model.samples.get(task, ())}
    graded = {(one.item_id, one.repeat): one for one in model.verdicts.get(task, ())}
    return {address: (samples[address], verdict) for address, verdict in graded.items() if address in samples}


def _changes(run: RunRecord, baseline: StoredModel, model: StoredModel) -> dict[tuple[str, Address], str]:
    """(task, address) -> lost or gained, as the tables count them: where scores are not 0 or 1 nothing flips."""
    return {
        (flip.task, (flip.item_id, flip.repeat)): _CHANGES[flip.direction]
        for row in run.rows
        for flip in flipped(baseline, model, row.name) or ()
    }


def _row(
    texts: Texts,
    number: int,
    task: TaskRecord,
    address: Address,
    graded: Sequence[Graded],
    changes: Sequence[Mapping[tuple[str, Address], str]],
    asked: Asked,
) -> dict[str, Any]:
    """One item of the list, by the names of the columns."""
    item_id, repeat = address
    answers = [of_model.get(address) for of_model in graded]
    first = next(one for one in answers if one is not None)
    question = asked.questions.get(task.name, {}).get(item_id)
    options = alternatives(*first)
    return {
        "task": number,
        "id": item_id,
        "repeat": repeat,
        "snippet": " ".join((question or "").split())[:_SNIPPET],
        "question": texts.told.add(question),
        "prompt": _prompt(texts, asked.prompts.get(task.name, {}).get(item_id, ()), question),
        "gold": texts.told.add(first[1].target),
        "choices": [texts.told.add(option.text) for option in options],
        "right": gold_of(options, first[1]),
        "change": "".join(of_model.get((task.name, address), _change(answers[0], other))
                          for of_model, other in zip(changes, answers[1:], strict=True)),
        "answers": [None if one is None else _answer(texts, *one) for one in answers],
    }  # fmt: skip


def _prompt(texts: Texts, parts: Sequence[str], question: str | None) -> list[int | str | None]:
    """Numbers of the prompt's parts, with ``q`` where the question stands, which need not be stored again."""
    head, sign, tail = parts[-1].rpartition(question) if parts and question else ("", "", "")
    if not sign:
        return [texts.prompts.add(part) for part in parts]
    before = [texts.prompts.add(part) for part in (*parts[:-1], head) if part]
    return [*before, "q", *([texts.prompts.add(tail)] if tail else [])]


def _change(ours: tuple[Sample, Verdict] | None, theirs: tuple[Sample, Verdict] | None) -> str:
    """Of an answer that did not flip: ``s`` the same, ``d`` another one; ``-`` where one of the two is missing."""
    if ours is None or theirs is None:
        return _NONE
    if ours[0].choices is None or theirs[0].choices is None:
        return "s" if ours[0].text == theirs[0].text else "d"
    picks = [pick_of(alternatives(*one), one[1]) for one in (ours, theirs)]
    return "s" if picks[0] == picks[1] else "d"


def _answer(texts: Texts, sample: Sample, verdict: Verdict) -> list[Any]:
    """[outcome and finish, tokens, text, extracted, scores, fault, log-probabilities, pick]."""
    options = alternatives(sample, verdict)
    fault = without_paths(sample.fault) if sample.fault else None
    return [
        _OUTCOMES[verdict.outcome] + _FINISHES[sample.finish],
        sample.output_tokens,
        texts.told.add(sample.text),
        texts.told.add(verdict.extracted),
        texts.told.add(_scores(verdict)),
        texts.told.add(fault),
        rounded(options) if options else 0,
        pick_of(options, verdict),
    ]


def _scores(verdict: Verdict) -> str:
    """Every metric of the answer, as it is shown."""
    told = []
    for score in verdict.scores:
        name = score.metric if score.filter == "none" else f"{score.metric}, {score.filter}"
        value = numbers.DASH if score.value is None else f"{score.value:g}"
        told.append(f"{name}: {value}")
    return "; ".join(told)
