"""From a spec to items: everything that can fail without weights fails here."""

import contextlib
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from evalcard.backends.backend import GenerateRequest, Item
from evalcard.errors import UserError
from evalcard.modelspec import ModelSpec
from evalcard.progress import Progress, Silent
from evalcard.results.records import RowRecord, TaskRecord
from evalcard.samples import fed_tokens
from evalcard.spec import RunSpec
from evalcard.tasks.build import build
from evalcard.tasks.check import check_documents, check_grading
from evalcard.tasks.data.roots import data_roots
from evalcard.tasks.files.select import select
from evalcard.tasks.harness import HarnessTask
from evalcard.tasks.judges.thinking import opens_thinking
from evalcard.tasks.notes import gather, without_items
from evalcard.tasks.own.documents import Documents
from evalcard.tasks.prompts.decoding import in_words
from evalcard.tasks.prompts.items import items_of
from evalcard.tasks.prompts.lengths import LongPrompts, join_long
from evalcard.tasks.prompts.selection import Selection, select_items, with_items
from evalcard.tasks.prompts.tokenizer import TEMPLATE_DATE, Tokenizer, shared_tokenizer, tokenizer_source
from evalcard.tasks.scoring import Scoring, judge_of, scoring_of


@dataclass(frozen=True)
class PreparedTask:
    """A task that is ready to be answered and graded."""

    record: TaskRecord
    scoring: Scoring
    task: HarnessTask
    positions: Sequence[int]
    """The documents that are evaluated, in the task's own order."""

    @property
    def name(self) -> str:
        return self.record.name


@dataclass(frozen=True)
class Prepared:
    """What every model of the run is asked."""

    tasks: tuple[PreparedTask, ...]
    rows: tuple[RowRecord, ...]
    items: Mapping[str, tuple[Item, ...]]
    """By task; one (item, repeat) each, in document order. The same for every model, which is checked."""
    tokenizers: Mapping[tuple[str, str | None], Tokenizer]
    """By the models' tokenizer sources."""
    max_model_len: int
    """Tokens of prompt and answer together, for every model."""
    notes: tuple[str, ...]
    """What a person should know before weights load."""

    def tokenizer(self, spec: RunSpec, model: ModelSpec) -> Tokenizer:
        return self.tokenizers[tokenizer_source(spec, model)]

    @property
    def num_samples(self) -> int:
        """Answers that each model gives."""
        return sum(len(items) for items in self.items.values())

    @property
    def prompt_tokens(self) -> int:
        """Tokens that each model is fed before its first new one, shared beginnings counted each time."""
        return sum(fed_tokens(item) for items in self.items.values() for item in items)


def prepare_tasks(
    spec: RunSpec, progress: Progress | None = None
) -> tuple[list[PreparedTask], list[RowRecord], list[str]]:
    """Tasks with their documents and scoring, and their rows; enough to grade stored answers (no tokenizer, no torch).

    Raises UserError for unknown names, broken task files and missing documents.
    """
    bars: Progress = progress or Silent()
    built = build(select(spec.tasks), data_roots(spec.data_root), spec.trust_task_code)
    sizes = {task.name: len(task.docs) for task in built.tasks}
    chosen = select_items(sizes, built.rows, limit=spec.limit, limit_per_subtask=spec.limit_per_subtask, seed=spec.seed)
    notes = [*built.notes, *chosen.notes]
    prepared, empty = [], []
    with bars.step("Reading tasks", total=len(built.tasks), unit="tasks") as bar:
        for task in built.tasks:
            selection = chosen.by_task[task.name]
            if selection.positions or not task.docs:
                prepared.append(_prepare_task(task, selection, spec, notes))
            else:
                empty.append(task)
            bar.advance()
    notes += without_items([task.name for task in empty])
    rows = [with_items(row, sizes, {task.name for task in empty}) for row in built.rows]
    return prepared, [row for row in rows if row.tasks], gather(notes)


def _prepare_task(task: HarnessTask, selection: Selection, spec: RunSpec, notes: list[str]) -> PreparedTask:
    note = task.set_fewshot(spec.num_fewshot, spec.seed)
    check_documents(task, selection.positions)
    scoring = scoring_of(task, selection.positions)
    check_grading(task, scoring, selection.positions)
    notes += ([note] if note else []) + list(scoring.notes)
    if task.num_fewshot and isinstance(getattr(task.task.config, "custom_dataset", None), Documents):
        notes.append(f"{task.name}: the worked examples come from the evaluated file itself, with their answers")
    return PreparedTask(_record(task, scoring, spec, selection), scoring, task, selection.positions)


def prepare(spec: RunSpec, progress: Progress | None = None, meanwhile: Callable[[], None] = lambda: None) -> Prepared:
    """Resolve tasks, build and encode every prompt, and prove that all models read the same ones.

    meanwhile: called again and again; what it raises ends the work.

    Raises UserError, before any weights load, for all that ``prepare_tasks`` refuses, tokenizers that cannot be had or
    differ, and prompts that do not fit.
    """
    bars: Progress = progress or Silent()
    tasks, rows, notes = prepare_tasks(spec, bars)
    meanwhile()
    tokenizers = _tokenizers(spec)
    distinct = list(tokenizers.values())
    stop_ids = tuple(sorted({one for tokenizer in distinct for one in tokenizer.stop_ids}))
    if any(tokenizer.stop_ids != stop_ids for tokenizer in distinct):
        notes.append(f"the models end answers with different tokens; all of {list(stop_ids)} end the answers of each")
    max_model_len = _max_model_len(spec, distinct)
    items: dict[str, tuple[Item, ...]] = {}
    too_long: list[LongPrompts] = []
    with _without_collector(), bars.step("Building prompts", total=len(tasks), unit="tasks") as bar:
        for task in tasks:
            try:
                made = items_of(task.task, task.positions, spec, distinct, stop_ids, max_model_len)
            except LongPrompts as error:
                too_long.append(error)
            else:
                items[task.name] = made.items
                notes += made.notes
            bar.advance()
            meanwhile()
    if too_long:
        raise join_long(too_long)
    notes += [f"{one.name}: its chat template refuses a system turn, which was left out" for one in distinct
              if one.dropped_system]  # fmt: skip
    notes += [f"{one.name}: {said}" for one in distinct if (said := one.bos_note)]
    date = _template_date(spec, distinct)
    notes += [f"the chat template prints a date: it is {date} in every prompt, whenever they are made"] if date else []
    ready = tuple(_as_asked(task, items[task.name], date) for task in tasks)
    return Prepared(ready, tuple(rows), items, tokenizers, max_model_len, tuple(gather(notes)))


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Prompts are many small objects that all stay; looking for garbage among them takes a sixth of the time."""
    restore = gc.enable if gc.isenabled() else gc.disable
    gc.disable()
    try:
        yield
    finally:
        restore()


def _tokenizers(spec: RunSpec) -> dict[tuple[str, str | None], Tokenizer]:
    found: dict[tuple[str, str | None], Tokenizer] = {}
    for model in spec.models:
        source = tokenizer_source(spec, model)
        if source not in found:
            found[source] = shared_tokenizer(*source)
            if spec.chat_template and found[source].template_digest is None:
                raise UserError(f"{model.name} has no chat template; leave out --apply-chat-template, or add one.")
            found[source].check_template_args(spec.chat_template_args)
    return found


def _max_model_len(spec: RunSpec, tokenizers: Sequence[Tokenizer]) -> int:
    """One limit for all models, so that none gets longer answers: the shortest."""
    return spec.max_model_len or min(tokenizer.max_len for tokenizer in tokenizers)


def _template_date(spec: RunSpec, tokenizers: Sequence[Tokenizer]) -> str | None:
    """The day that prompts state as today, where the chat template prints one."""
    prints = spec.chat_template and any(tokenizer.prints_date for tokenizer in tokenizers)
    return f"{TEMPLATE_DATE:%Y-%m-%d}" if prints and "date_string" not in spec.chat_template_args else None


def _record(task: HarnessTask, scoring: Scoring, spec: RunSpec, selection: Selection) -> TaskRecord:
    total, selected, judge = len(task.docs), len(selection.positions), judge_of(task)
    return TaskRecord(
        name=task.name,
        source=task.source,
        version=task.version,
        metric=scoring.metric,
        filter=scoring.filter,
        category=scoring.category,
        chance=scoring.chance,
        higher_is_better=scoring.higher_is_better,
        num_fewshot=task.num_fewshot,
        repeats=1,
        decoding="scored",
        chat_template=spec.chat_template,
        items_total=total,
        items_selected=selected,
        selection=selection.text,
        item_ids=None if selected == total else [task.item_ids[position] for position in selection.positions],
        judge=judge.name if judge else None,
        stop_strings=[],
        opens_thinking=False,
        **task.hub_source,
    )


def _as_asked(task: PreparedTask, items: Sequence[Item], template_date: str | None) -> PreparedTask:
    """The record with what only the encoded items tell: repeats, decoding, how prompts end."""
    requests = [item.requests[0] for item in items if item.requests]
    written = [request for request in requests if isinstance(request, GenerateRequest)]
    found = {
        "decoding": in_words(written[0].decoding if written else None),
        "stop_strings": list(written[0].decoding.until) if written else [],
        "repeats": 1 + max((item.repeat for item in items), default=0),
        "opens_thinking": bool(written) and all(opens_thinking(request.prompt) for request in written),
        "template_date": template_date,
    }
    return replace(task, record=task.record.model_copy(update=found))
