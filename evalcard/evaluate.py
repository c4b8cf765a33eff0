"""One model through the prepared items: stored answers first, then the backend, every answer journaled at once."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from evalcard.backends.backend import Backend, Identity, Item, ItemAnswer
from evalcard.modelspec import ModelSpec
from evalcard.progress import Progress, Silent
from evalcard.results.records import ModelRecord, ProgressRecord, Sample, Verdict
from evalcard.results.store import RunFolder
from evalcard.samples import answer_of, fits, make_sample, sample_key
from evalcard.spec import RunSpec
from evalcard.tasks.grade import grade
from evalcard.tasks.prepare import Prepared, PreparedTask
from evalcard.tasks.prompts.tokenizer import Tokenizer
from evalcard_engine.quant.scheme import parse_scheme

Role = Literal["baseline", "compressed"]


class Answers(Protocol):
    """Stored answers by key (results.index.AnswerIndex)."""

    def lookup(self, key: str) -> Sample | None: ...


@dataclass(frozen=True)
class ModelRun:
    """One model's answers and what they are worth."""

    model: ModelRecord
    samples: Mapping[str, tuple[Sample, ...]]
    """By task, in item order."""
    verdicts: Mapping[str, tuple[Verdict, ...]]
    progress: tuple[ProgressRecord, ...]


@dataclass
class _Tally:
    """How one task came along."""

    reused: int = 0
    seconds: float = 0.0


@dataclass
class _Work:
    """Items still to be answered: one for each key, with all items that share its answer."""

    waiting: dict[str, list[Item]] = field(default_factory=dict)
    keys: dict[int, str] = field(default_factory=dict)
    """Key of each item by its id()."""

    def add(self, key: str, item: Item) -> None:
        self.waiting.setdefault(key, []).append(item)
        self.keys[id(item)] = key

    @property
    def first(self) -> list[Item]:
        return [items[0] for items in self.waiting.values()]


def evaluate(
    spec: RunSpec,
    model: ModelSpec,
    slug: str,
    prepared: Prepared,
    backend: Backend,
    folder: RunFolder,
    index: Answers | None = None,
    progress: Progress | None = None,
    role: Role | None = None,
) -> ModelRun:
    """Answer all prepared items with one model, then grade them.

    Answers come from this run's own journal (an earlier attempt), from ``index`` (earlier runs), and the rest from one
    call of the backend. Whatever ends that call early, finished answers are on disk. With ``spec.fresh`` nothing
    stored is taken. ``role`` is needed only where a model is compared with itself.
    """
    bars: Progress = progress or Silent()
    identity, tokenizer = backend.identity(), prepared.tokenizer(spec, model)
    run = _Evaluation(prepared, slug, folder, identity, tokenizer)
    work = run.take_stored(None if identity.weights_digest is None else index, spec.fresh)
    run.answer(work, backend, bars, model.label)
    verdicts = run.grade(bars)
    role = role or ("baseline" if model == spec.baseline else "compressed")
    record = model_record(spec, model, slug, role, identity, tokenizer, backend)
    samples = {task.name: tuple(run.samples_of(task)) for task in prepared.tasks}
    return ModelRun(record, samples, verdicts, run.progress_records())


class _Evaluation:
    """The state of one model's evaluation."""

    def __init__(
        self, prepared: Prepared, slug: str, folder: RunFolder, identity: Identity, tokenizer: Tokenizer
    ) -> None:
        self._prepared = prepared
        self._slug = slug
        self._folder = folder
        self._identity = identity
        self._tokenizer_digest = tokenizer.digest
        self._tasks = {task.name: task for task in prepared.tasks}
        self._tallies = {task.name: _Tally() for task in prepared.tasks}
        self._samples: dict[str, dict[tuple[int | str, int], Sample]] = {task.name: {} for task in prepared.tasks}

    def take_stored(self, index: Answers | None, is_fresh: bool) -> _Work:
        """Fill in what is stored; returns what is left to do."""
        work = _Work()
        for name, items in self._prepared.items.items():
            stored = {} if is_fresh else self._folder.journal(self._slug, name).read()
            for item in items:
                key = sample_key(item, self._identity, self._tokenizer_digest)
                sample = stored.get((item.item_id, item.repeat))
                found = None
                if sample is not None and sample.key == key and fits(sample, item):
                    self._keep(item, sample, is_reused=True)
                    continue
                if not is_fresh and index is not None:
                    found = index.lookup(key)
                if found is not None and fits(found, item):
                    self._store(item, key, answer_of(found), is_reused=True)
                elif not item.requests:
                    self._store(item, key, ItemAnswer("stop", choices=()), is_reused=False)
                else:
                    work.add(key, item)
        return work

    def answer(self, work: _Work, backend: Backend, bars: Progress, label: str) -> None:
        """One call for everything that is missing; each answer is in the journal before the next is looked at."""
        total = self._prepared.num_samples
        done = sum(len(samples) for samples in self._samples.values())
        is_repeated = any(item.repeat for items in self._prepared.items.values() for item in items)
        with bars.step(label, total=total, done=done, unit="answers" if is_repeated else "items") as bar:
            if not work.waiting:
                return
            last = time.perf_counter()

            def on_answer(item: Item, answer: ItemAnswer) -> None:
                nonlocal last
                now = time.perf_counter()
                self._tallies[item.task].seconds += now - last
                last = now
                key = work.keys[id(item)]
                sharing = work.waiting.pop(key, None)
                assert sharing is not None, ("answered twice", item.task, item.item_id, item.repeat)
                for one in sharing:
                    self._store(one, key, answer, is_reused=False)
                bar.advance(len(sharing))

            backend.answer(work.first, on_answer)
        left = [(items[0].task, items[0].item_id) for items in work.waiting.values()]
        assert not left, ("the backend left items unanswered", len(left), left[:3])

    def grade(self, bars: Progress) -> dict[str, tuple[Verdict, ...]]:
        """Verdicts of every task, written as they are made."""
        verdicts = {}
        with bars.step("Grading", total=len(self._tasks), unit="tasks") as bar:
            for task in self._prepared.tasks:
                samples = self.samples_of(task)
                verdicts[task.name] = tuple(grade(task.task, task.scoring, samples, task.record.opens_thinking))
                self._folder.write_verdicts(self._slug, task.name, verdicts[task.name])
                bar.advance()
        return verdicts

    def samples_of(self, task: PreparedTask) -> list[Sample]:
        """Samples of one task in item order."""
        samples = self._samples[task.name]
        return [samples[item.item_id, item.repeat] for item in self._prepared.items[task.name]]

    def progress_records(self) -> tuple[ProgressRecord, ...]:
        return tuple(
            ProgressRecord(
                model=self._slug,
                task=name,
                expected=len(self._prepared.items[name]),
                done=len(self._samples[name]),
                reused=tally.reused,
                seconds=round(tally.seconds, 3),
            )
            for name, tally in self._tallies.items()
        )

    def _store(self, item: Item, key: str, answer: ItemAnswer, is_reused: bool) -> None:
        sample = make_sample(item, key, self._tasks[item.task].record.version, answer)
        self._folder.journal(self._slug, item.task).append(sample)
        self._keep(item, sample, is_reused)

    def _keep(self, item: Item, sample: Sample, is_reused: bool) -> None:
        self._samples[item.task][item.item_id, item.repeat] = sample
        self._tallies[item.task].reused += is_reused


def model_record(
    spec: RunSpec, model: ModelSpec, slug: str, role: Role, identity: Identity, tokenizer: Tokenizer, backend: Backend
) -> ModelRecord:
    """What is published of a model; sizes only where the backend opened it."""
    facts = backend.facts()
    revision = facts.get("revision") or model.revision
    return ModelRecord(
        slug=slug,
        role=role,
        name=model.name,
        hub_id=model.hub_id,
        revision=str(revision) if revision else None,
        scheme=model.scheme,
        scheme_title=_scheme_title(model, identity),
        weights_digest=identity.weights_digest,
        tokenizer_digest=tokenizer.digest,
        template_digest=tokenizer.template_digest if spec.chat_template else None,
        numerics=identity.numerics,
        bits_per_weight=_number(facts, "bits_per_weight"),
        weight_bytes=_count(facts, "weight_bytes"),
        num_parameters=_count(facts, "num_parameters"),
    )


def _scheme_title(model: ModelSpec, identity: Identity) -> str | None:
    """What was compressed in the files, and what is while the model runs (a KV cache may be added to either)."""
    now = parse_scheme(model.scheme).title if model.scheme else None
    return "; ".join(part for part in (identity.stored_as, now) if part) or None


def _number(facts: Mapping[str, float | int | str | None], name: str) -> float | None:
    value = facts.get(name)
    return float(value) if isinstance(value, (int, float)) else None


def _count(facts: Mapping[str, float | int | str | None], name: str) -> int | None:
    value = facts.get(name)
    return int(value) if isinstance(value, (int, float)) else None
