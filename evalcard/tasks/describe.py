"""What a task name means here, and what a model would be sent: resolved as a run resolves it, without a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalcard.errors import UserError
from evalcard.modelspec import DEMO
from evalcard.resources import demo_model
from evalcard.results.records import ItemId, RowRecord
from evalcard.spec import RunSpec, make_spec

if TYPE_CHECKING:
    from evalcard.backends.backend import Item
    from evalcard.tasks.harness import HarnessTask
    from evalcard.tasks.prepare import PreparedTask
    from evalcard.tasks.prompts.tokenizer import Tokenizer

_NO_LIMIT = 2**31
"""Tokens: prompts are shown here, not fitted into a model."""


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """A leaf task, resolved."""

    name: str
    source: str
    """evalcard, lm_eval or file."""
    version: str
    documents: int | None
    """None where they are not here."""
    dataset: str | None
    """Hub id, or the data file's name."""
    subset: str | None
    split: str | None
    place: str | None
    """Where the documents lie on this machine."""
    num_fewshot: int
    answers: str
    """In words: letters scored, greedy, sampled with its parameters."""
    max_tokens: int | None
    """Longest answer; None where nothing is generated."""
    stop_strings: tuple[str, ...]
    repeats: int
    metric: str
    filter: str
    other_filters: tuple[str, ...]
    """Those that grade the answers too; the score is by ``filter``."""
    judge: str | None
    """What compares answers with golds; None where the task's own filters and metrics do."""
    higher_is_better: bool
    category: str
    chance: float | None
    """None where only the documents tell."""


@dataclass(frozen=True, slots=True)
class ShownItem:
    """What a model is sent for one item."""

    task: str
    item_id: ItemId
    position: int
    """Place in the task's own order, from 0."""
    prompt: str
    choices: tuple[str, ...]
    """Continuations whose log-probability is asked for; empty where the answer is generated."""
    prompt_tokens: int
    choice_tokens: tuple[int, ...]
    golds: tuple[str, ...]
    stop_strings: tuple[str, ...]
    max_tokens: int | None


@dataclass(frozen=True, slots=True)
class Described:
    rows: tuple[RowRecord, ...]
    tasks: tuple[TaskFacts, ...]
    notes: tuple[str, ...]
    items: tuple[ShownItem, ...] = ()
    tokenizer: str | None = None
    """Whose tokens are counted; None where no item is shown."""
    missing: str | None = None
    """Which documents are not here and what to do; what their tasks' files say is described without them."""

    def of(self, row: RowRecord) -> list[TaskFacts]:
        """The leaf tasks of a row."""
        return [task for task in self.tasks if task.name in row.tasks]


def describe(
    names: Sequence[str],
    *,
    check: bool = False,
    tokenizer: str | None = None,
    chat_template: bool = False,
    num_fewshot: int | None = None,
    system: str | None = None,
    data_root: str | None = None,
    trust_task_code: bool = False,
) -> Described:
    """Resolve tasks; with ``check`` also the prompts of the first, the middle and the last item of each row.

    names: as for ``--tasks``, several in one text parted by commas.
    tokenizer: a folder or Hub id; the demo model's where there is none. Raises UserError for all that a run would
    refuse before it loads weights, except prompts that are too long for a model and, without ``check``, documents that
    are not here.
    """
    from evalcard.tasks.data.roots import MissingData
    from evalcard.tasks.outline import outline
    from evalcard.tasks.prepare import prepare_tasks

    if chat_template and tokenizer is None:
        raise UserError("--apply-chat-template shows a model's own template: name the model with --tokenizer DIR.")
    spec = make_spec(
        {"baseline": DEMO, "tasks": list(names), "num_fewshot": num_fewshot, "data_root": data_root,
         "trust_task_code": trust_task_code, "chat_template": chat_template, "system": system}
    )  # fmt: skip
    try:
        tasks, rows, notes = prepare_tasks(spec)
    except MissingData:
        if check:
            raise
        return outline(spec)
    facts = tuple(facts_of(task, spec) for task in tasks)
    if not check:
        return Described(tuple(rows), facts, tuple(notes))
    loaded = _tokenizer(tokenizer, spec)
    shown = [item for row in rows for item in _shown(row, tasks, spec, loaded, notes)]
    whose = loaded.name if tokenizer else "the demo model; --tokenizer DIR takes another model's"
    return Described(tuple(rows), facts, tuple(dict.fromkeys(notes)), tuple(shown), whose)


def facts_of(task: "PreparedTask", spec: RunSpec) -> TaskFacts:
    from evalcard.tasks.data.roots import place_of
    from evalcard.tasks.own.documents import Documents
    from evalcard.tasks.prompts.decoding import decoding_of, in_words, repeats_of, with_flags

    inner, record, decoding, repeats = task.task, task.record, None, 1
    if inner.is_generated:
        decoding = decoding_of(inner.name, with_flags(inner.generation, spec), None, None, spec.seed)
        repeats, _ = repeats_of(inner.name, inner.repeats, decoding, spec)
    own = inner.task.config.custom_dataset
    is_file = isinstance(own, Documents)
    return TaskFacts(
        name=record.name,
        source=record.source,
        version=record.version,
        documents=record.items_total,
        dataset=own.path.name if is_file else inner.task.config.dataset_path,
        subset=inner.task.config.dataset_name,
        split=None if is_file else inner.task.config.test_split or inner.task.config.validation_split,
        place=str(own.path.resolve()) if is_file else place_of(getattr(inner.task, "dataset", None)),
        num_fewshot=record.num_fewshot,
        answers=in_words(decoding) if decoding else f"{_scored_part(inner)} scored by log-probability",
        max_tokens=decoding.max_tokens if decoding else None,
        stop_strings=decoding.until if decoding else (),
        repeats=repeats,
        metric=record.metric,
        filter=record.filter,
        other_filters=() if record.judge else tuple(one for one in inner.filters if one != record.filter),
        judge=record.judge,
        higher_is_better=record.higher_is_better,
        category=record.category,
        chance=record.chance,
    )


def _scored_part(task: "HarnessTask") -> str:
    if task.is_rolling:
        return "whole texts"
    return "choices" if task.is_multiple_choice else "right answers"


def _tokenizer(source: str | None, spec: RunSpec) -> "Tokenizer":
    from evalcard.tasks.prompts.tokenizer import shared_tokenizer

    loaded = shared_tokenizer(source or str(demo_model()))
    if spec.chat_template and loaded.template_digest is None:
        raise UserError(f"{loaded.name} has no chat template; leave out --apply-chat-template.")
    return loaded


def _shown(
    row: RowRecord, tasks: Sequence["PreparedTask"], spec: RunSpec, tokenizer: "Tokenizer", notes: list[str]
) -> list[ShownItem]:
    """The first, the middle and the last item of a row, in the order of its tasks."""
    from evalcard.tasks.prompts.items import items_of

    places = [(task, position) for task in tasks if task.name in row.tasks for position in task.positions]
    wanted = [places[index] for index in sorted({0, len(places) // 2, len(places) - 1})] if places else []
    shown = []
    for task in tasks:
        positions = sorted(position for owner, position in wanted if owner is task)
        if not positions:
            continue
        made = items_of(task.task, positions, spec, [tokenizer], tokenizer.stop_ids, _NO_LIMIT)
        notes += made.notes
        firsts = [item for item in made.items if item.repeat == 0]
        shown += [_show(task, place, item) for place, item in zip(positions, firsts, strict=True)]
    return shown


def _show(task: "PreparedTask", position: int, item: "Item") -> ShownItem:
    from evalcard.backends.backend import GenerateRequest, ScoreRequest

    golds, requests = golds_of(task, position), item.requests
    first = requests[0] if requests else None
    if isinstance(first, GenerateRequest):
        return ShownItem(task.name, item.item_id, position, first.prompt, (), len(first.prompt_ids), (), golds,
                         first.decoding.until, first.decoding.max_tokens)  # fmt: skip
    scored = [one for one in requests if isinstance(one, ScoreRequest)]
    texts = tuple(one.continuation for one in scored)
    tokens = tuple(len(one.continuation_ids) for one in scored)
    context = scored[0] if scored else None
    return ShownItem(task.name, item.item_id, position, context.context if context else "", texts,
                     len(context.context_ids) if context else 0, tokens, golds, (), None)  # fmt: skip


def golds_of(task: "PreparedTask", position: int) -> tuple[str, ...]:
    """The right answers as texts; an index of the choices as that choice."""
    target: Any = task.task.target(position)
    listed = target if isinstance(target, (list, tuple)) else [target]
    if task.task.is_multiple_choice:
        choices = task.task.choices(position)
        listed = [choices[one] if isinstance(one, int) and 0 <= one < len(choices) else one for one in listed]
    return tuple(str(one) for one in listed)
