"""From a spec to items: everything that can fail without weights fails here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from evalcard.backends.backend import GenerateRequest, Item
from evalcard.errors import UserError
from evalcard.progress import Progress, Silent
from evalcard.results.records import RowRecord, TaskRecord
from evalcard.samples import prompt_tokens
from evalcard.spec import ModelSpec, RunSpec
from evalcard.tasks.build import build
from evalcard.tasks.check import check_documents, check_grading
from evalcard.tasks.data import data_roots
from evalcard.tasks.decoding import in_words
from evalcard.tasks.files import select
from evalcard.tasks.grade import Scoring, scoring_of
from evalcard.tasks.harness import Chat, HarnessTask
from evalcard.tasks.prompts import Encoded, Limits, encode_items, require_equal_prompts
from evalcard.tasks.tokenizer import Tokenizer, shared_tokenizer, tokenizer_source

_SHOWN_TASKS = 3


@dataclass(frozen=True)
class PreparedTask:
    """A task that is ready to be answered and graded."""

    record: TaskRecord
    scoring: Scoring
    task: HarnessTask

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
    limits: Limits
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
        """Tokens of all prompts (for scored items: contexts and continuations), each counted in full."""
        return sum(prompt_tokens(item) for items in self.items.values() for item in items)


def prepare_tasks(
    spec: RunSpec, progress: Progress | None = None
) -> tuple[list[PreparedTask], list[RowRecord], list[str]]:
    """Tasks with their documents and scoring, and their rows; enough to grade stored answers (no tokenizer, no torch).

    Raises UserError for unknown names, broken task files and missing documents.
    """
    bars: Progress = progress or Silent()
    built = build(select(spec.tasks), data_roots(spec.data_root))
    notes = list(built.notes)
    prepared = []
    with bars.step("Reading tasks", total=len(built.tasks), unit="tasks") as bar:
        for task in built.tasks:
            note = task.set_fewshot(spec.num_fewshot, spec.seed)
            selected = min(spec.limit_per_subtask or len(task.docs), len(task.docs))
            check_documents(task, range(selected))
            scoring = scoring_of(task, range(selected))
            check_grading(task, scoring, range(selected))
            notes += ([note] if note else []) + list(scoring.notes)
            prepared.append(PreparedTask(_record(task, scoring, spec, selected), scoring, task))
            bar.advance()
    return prepared, list(built.rows), gather(notes)


def prepare(spec: RunSpec, progress: Progress | None = None) -> Prepared:
    """Resolve tasks, build and encode every prompt, and prove that all models read the same ones.

    Raises UserError, before any weights load, for all that ``prepare_tasks`` refuses, tokenizers that cannot be had or
    differ, and prompts that do not fit.
    """
    bars: Progress = progress or Silent()
    tasks, rows, notes = prepare_tasks(spec, bars)
    tokenizers = _tokenizers(spec)
    distinct = list(tokenizers.values())
    stop_ids = tuple(sorted({one for tokenizer in distinct for one in tokenizer.stop_ids}))
    if any(tokenizer.stop_ids != stop_ids for tokenizer in distinct):
        notes.append(f"the models end answers with different tokens; all of {list(stop_ids)} end the answers of each")
    limits = Limits(_max_model_len(spec, distinct), spec.max_new_tokens)
    encoded = {}
    with bars.step("Building prompts", total=len(tasks), unit="tasks") as bar:
        for task in tasks:
            encoded[task.name] = _encode(spec, task, tokenizers, stop_ids, limits)
            notes += encoded[task.name].notes
            bar.advance()
    notes += [f"{one.name}: its chat template refuses a system turn, which was left out" for one in distinct
              if one.dropped_system]  # fmt: skip
    items = {name: one.items for name, one in encoded.items()}
    ready = tuple(_with_decoding(task, items[task.name]) for task in tasks)
    return Prepared(ready, tuple(rows), items, tokenizers, limits, tuple(gather(notes)))


def gather(notes: Sequence[str]) -> list[str]:
    """Notes ``<task>: <text>`` with one text become one note: a group may have dozens of tasks."""
    tasks: dict[str, list[str]] = {}
    for note in dict.fromkeys(notes):
        task, colon, text = note.partition(": ")
        tasks.setdefault(text if colon else note, []).append(task if colon else "")
    gathered = []
    for text, names in tasks.items():
        more = f" and {len(names) - _SHOWN_TASKS} more" if len(names) > _SHOWN_TASKS else ""
        shown = ", ".join(names[:_SHOWN_TASKS]) + more
        gathered.append(f"{shown}: {text}" if shown else text)
    return gathered


def _tokenizers(spec: RunSpec) -> dict[tuple[str, str | None], Tokenizer]:
    found: dict[tuple[str, str | None], Tokenizer] = {}
    for model in spec.models:
        source = tokenizer_source(spec, model)
        if source not in found:
            found[source] = shared_tokenizer(*source)
            if spec.chat_template and found[source].template_digest is None:
                raise UserError(f"{model.name} has no chat template; leave out --apply-chat-template, or add one.")
    return found


def _max_model_len(spec: RunSpec, tokenizers: Sequence[Tokenizer]) -> int:
    """One limit for all models, so that none gets longer answers: the shortest."""
    return spec.max_model_len or min(tokenizer.max_len for tokenizer in tokenizers)


def _encode(
    spec: RunSpec,
    task: PreparedTask,
    tokenizers: Mapping[tuple[str, str | None], Tokenizer],
    stop_ids: tuple[int, ...],
    limits: Limits,
) -> Encoded:
    """Items by the first model's tokenizer; one that does the same work needs no second encoding."""
    first, encoded = None, None
    for tokenizer in tokenizers.values():
        if first is not None and _is_same(spec, first, tokenizer):
            continue
        chat = Chat(tokenizer.render_chat if spec.chat_template else None, spec.fewshot_as_multiturn, spec.system)
        own = encode_items(
            task.name,
            task.task.prompts(task.record.items_selected, chat),
            task.task.docs,
            task.task.generation,
            tokenizer,
            limits,
            task.task.repeats,
            spec.seed,
            stop_ids,
        )
        if first is None or encoded is None:
            first, encoded = tokenizer, own
        else:
            require_equal_prompts(encoded.items, own.items, first.name, tokenizer.name, first, tokenizer)
    assert encoded is not None, "a run has at least one model"
    return encoded


def _is_same(spec: RunSpec, one: Tokenizer, other: Tokenizer) -> bool:
    same_template = not spec.chat_template or one.template_digest == other.template_digest
    return one.digest == other.digest and same_template


def _record(task: HarnessTask, scoring: Scoring, spec: RunSpec, selected: int) -> TaskRecord:
    total = len(task.docs)
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
        selection="all" if selected == total else f"first {selected}",
        **task.hub_source,
    )


def _with_decoding(task: PreparedTask, items: Sequence[Item]) -> PreparedTask:
    """The record with what only the encoded items tell: repeats and decoding."""
    request = items[0].requests[0] if items and items[0].requests else None
    words = in_words(request.decoding if isinstance(request, GenerateRequest) else None)
    repeats = 1 + max((item.repeat for item in items), default=0)
    return replace(task, record=task.record.model_copy(update={"decoding": words, "repeats": repeats}))
