"""One model through the prepared items: stored answers first, then the backend, every answer journaled at once."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from evalcard.backends.backend import Backend, Item, ItemAnswer
from evalcard.modelrecord import Role, model_record
from evalcard.modelspec import ModelSpec
from evalcard.progress import Bar, Progress, Silent
from evalcard.results.journal import Address
from evalcard.results.records import ModelRecord, ProgressRecord, Sample, Verdict
from evalcard.results.store import RunFolder
from evalcard.samples import answer_of, fits, make_sample, sample_key
from evalcard.spec import RunSpec
from evalcard.tasks.grade import grade
from evalcard.tasks.prepare import Prepared, PreparedTask


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
class Work:
    """Items still to be answered: one for each key, with all items that share its answer."""

    waiting: dict[str, list[Item]] = field(default_factory=dict)
    keys: dict[int, str] = field(default_factory=dict)
    """Key of each item by its id()."""

    def add(self, key: str, item: Item) -> None:
        self.waiting.setdefault(key, []).append(item)
        self.keys[id(item)] = key

    @property
    def first(self) -> list[Item]:
        """One item for each key."""
        return [items[0] for items in self.waiting.values()]

    @property
    def num_items(self) -> int:
        return sum(map(len, self.waiting.values()))


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
    run = Evaluation(spec, model, slug, prepared, backend, folder, index, role)
    work = run.take_stored(item for items in prepared.items.values() for item in items)
    is_repeated = any(item.repeat for items in prepared.items.values() for item in items)
    total, unit = prepared.num_samples, "answers" if is_repeated else "items"
    with bars.step(model.label, total=total, done=total - work.num_items, unit=unit) as bar:
        run.ask(work, bar)
    with bars.step("Grading", total=len(prepared.tasks), unit="tasks") as bar:
        for task in prepared.tasks:
            run.grade(task, prepared.items[task.name])
            bar.advance()
    return run.finish(prepared)


class Evaluation:
    """One model on its way through the prepared items, all at once or in batches; every answer is journaled at once."""

    def __init__(
        self,
        spec: RunSpec,
        model: ModelSpec,
        slug: str,
        prepared: Prepared,
        backend: Backend,
        folder: RunFolder,
        index: Answers | None = None,
        role: Role | None = None,
    ) -> None:
        """As ``evaluate``. The backend loads nothing before it has something to answer."""
        self.slug = slug
        self._spec, self._model, self._backend, self._folder = spec, model, backend, folder
        self._role = role or ("baseline" if model == spec.baseline else "compressed")
        self._identity, self._tokenizer = backend.identity(), prepared.tokenizer(spec, model)
        # Without a digest nobody knows that another run's answers are this model's.
        self._index = index if self._identity.weights_digest is not None and not spec.fresh else None
        self._versions = {task.name: task.record.version for task in prepared.tasks}
        self._tallies = {task.name: _Tally() for task in prepared.tasks}
        self._journaled: dict[str, Mapping[Address, Sample]] = {task.name: {} for task in prepared.tasks}
        if not spec.fresh:
            self._journaled |= {name: folder.journal(slug, name).read() for name in self._versions}
        self._samples: dict[str, dict[Address, Sample]] = {task.name: {} for task in prepared.tasks}
        self._verdicts: dict[str, dict[Address, Verdict]] = {task.name: {} for task in prepared.tasks}

    def answer(self, items: Sequence[Item], bar: Bar) -> None:
        """Have a batch answered: stored answers first, then the backend; the bar counts both."""
        work = self.take_stored(items)
        bar.advance(len(items) - work.num_items)
        self.ask(work, bar)

    def take_stored(self, items: Iterable[Item]) -> Work:
        """Fill in what is stored; returns what is left to do."""
        work = Work()
        for item in items:
            key = sample_key(item, self._identity, self._tokenizer.digest)
            sample = self._journaled[item.task].get((item.item_id, item.repeat))
            if sample is not None and sample.key == key and fits(sample, item):
                self._keep(item, sample, is_reused=True)
                continue
            found = self._index.lookup(key) if self._index is not None else None
            if found is not None and fits(found, item):
                self._store(item, key, answer_of(found), is_reused=True)
            elif not item.requests:
                self._store(item, key, ItemAnswer("stop", choices=()), is_reused=False)
            else:
                work.add(key, item)
        return work

    def ask(self, work: Work, bar: Bar) -> None:
        """One call for everything that is missing; each answer is in the journal before the next is looked at."""
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

        self._backend.answer(work.first, on_answer)
        left = [(items[0].task, items[0].item_id) for items in work.waiting.values()]
        assert not left, ("the backend left items unanswered", len(left), left[:3])

    def samples_of(self, items: Iterable[Item]) -> list[Sample]:
        """Their answers, in the same order."""
        return [self._samples[item.task][item.item_id, item.repeat] for item in items]

    def grade(self, task: PreparedTask, items: Sequence[Item]) -> list[Verdict]:
        """Verdicts on answered items of one task, in the same order; kept for ``finish``."""
        verdicts = grade(task.task, task.scoring, self.samples_of(items), task.record.opens_thinking)
        self._verdicts[task.name].update(((one.item_id, one.repeat), one) for one in verdicts)
        return verdicts

    def finish(self, prepared: Prepared) -> ModelRun:
        """What was answered and graded, in the order of ``prepared``; writes the verdicts.

        ``prepared`` may hold fewer items than the model was made with; all of them have been answered and graded.
        """
        items = {task.name: prepared.items[task.name] for task in prepared.tasks}
        samples = {name: tuple(self.samples_of(asked)) for name, asked in items.items()}
        verdicts = {
            name: tuple(self._verdicts[name][one.item_id, one.repeat] for one in asked) for name, asked in items.items()
        }
        for name, graded in verdicts.items():
            self._folder.write_verdicts(self.slug, name, graded)
        record = model_record(
            self._spec, self._model, self.slug, self._role, self._identity, self._tokenizer, self._backend
        )
        return ModelRun(record, samples, verdicts, self._progress_records(samples))

    def _progress_records(self, samples: Mapping[str, Sequence[Sample]]) -> tuple[ProgressRecord, ...]:
        return tuple(
            ProgressRecord(
                model=self.slug,
                task=name,
                expected=len(answered),
                done=len(answered),
                reused=self._tallies[name].reused,
                seconds=round(self._tallies[name].seconds, 3),
            )
            for name, answered in samples.items()
        )

    def _store(self, item: Item, key: str, answer: ItemAnswer, is_reused: bool) -> None:
        sample = make_sample(item, key, self._versions[item.task], answer)
        self._folder.journal(self.slug, item.task).append(sample)
        self._keep(item, sample, is_reused)

    def _keep(self, item: Item, sample: Sample, is_reused: bool) -> None:
        self._samples[item.task][item.item_id, item.repeat] = sample
        self._tallies[item.task].reused += is_reused
