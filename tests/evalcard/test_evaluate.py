"""One model's evaluation: stored answers, one call, one line each, nothing lost, nothing mixed up."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalcard.backends.backend import ChoiceAnswer, Identity, ItemAnswer
from evalcard.evaluate import Evaluation, evaluate
from evalcard.progress import Silent
from evalcard.results.index import AnswerIndex
from evalcard.results.store import RunFolder
from evalcard.samples import answer_of, make_sample, prompt_tokens, sample_key
from evalcard.tasks.prepare import Prepared, prepare


@pytest.fixture(scope="module")
def spec(toys: Any, tokenizer_folder: Path) -> Any:
    from evalcard.spec import make_spec

    names = [toys.path("toy_mc"), toys.path("toy_sums")]
    return make_spec({"baseline": str(tokenizer_folder), "tasks": names, "data_root": str(toys.data_root)})


@pytest.fixture(scope="module")
def prepared(spec: Any) -> Prepared:
    return prepare(spec)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    with RunFolder.open(tmp_path, "run") as made:
        yield made


@pytest.fixture
def run(spec: Any, prepared: Prepared, folder: RunFolder, fake_backend: Callable) -> Callable[..., Any]:
    def start(backend: Any, index: Any = None, **options: Any) -> Any:
        given = {"spec": spec, "model": spec.baseline, "slug": "m", "prepared": prepared, "folder": folder} | options
        return evaluate(backend=backend, index=index, **given)

    return start


def test_a_whole_run(run: Callable, fake_backend: Callable, folder: RunFolder, prepared: Prepared):
    backend = fake_backend()
    found = run(backend)
    assert backend.calls == 1 and len(backend.asked) == prepared.num_samples == 26
    assert {name: len(samples) for name, samples in found.samples.items()} == {
        "toy_colours": 5, "toy_shapes": 9, "toy_sums": 12}  # fmt: skip
    assert [s.item_id for s in found.samples["toy_sums"]] == list(range(12))
    assert [v.outcome for v in found.verdicts["toy_shapes"]].count("correct") == 3  # the first choice is right
    assert [v.extracted for v in found.verdicts["toy_sums"]] == ["86"] * 12
    assert folder.read_verdicts("m", "toy_sums") == list(found.verdicts["toy_sums"])
    assert list(folder.journal("m", "toy_shapes").read().values())[::-1] == list(found.samples["toy_shapes"])
    assert {(p.task, p.expected, p.done, p.reused) for p in found.progress} == {
        ("toy_colours", 5, 5, 0), ("toy_shapes", 9, 9, 0), ("toy_sums", 12, 12, 0)}  # fmt: skip


@pytest.mark.parametrize(("repeats", "unit"), [(None, "items"), (3, "answers")])
def test_progress_counts_answers_where_items_have_several(
    run: Callable, fake_backend: Callable, spec: Any, repeats: int | None, unit: str
):
    asked = spec.model_copy(update={"repeats": repeats, "temperature": repeats and 0.6})
    steps: list[tuple[int | None, str]] = []

    class Steps(Silent):
        def step(self, title: str, total: int | None = None, done: int = 0, unit: str = "items") -> Any:
            steps.append((total, unit))
            return super().step(title, total, done, unit)

    run(fake_backend(), spec=asked, prepared=prepare(asked), progress=Steps())
    assert steps[0] == (14 + 12 * (repeats or 1), unit)


def test_the_models_record(run: Callable, fake_backend: Callable, spec: Any, prepared: Prepared):
    record = run(fake_backend()).model
    assert (record.role, record.slug, record.weights_digest, record.numerics) == ("baseline", "m", "w0", "fake")
    assert record.name == Path(spec.baseline.source).name and record.hub_id is None
    assert record.tokenizer_digest == prepared.tokenizer(spec, spec.baseline).digest and record.template_digest is None
    assert (record.bits_per_weight, record.weight_bytes, record.num_parameters) == (4.25, 1000, None)
    assert run(fake_backend(), role="compressed").model.role == "compressed"


class TestResume:
    def test_an_interrupted_run_goes_on(self, run: Callable, fake_backend: Callable, folder: RunFolder):
        with pytest.raises(KeyboardInterrupt):
            run(fake_backend(stop_after=7))
        stored = sum(len(folder.journal("m", name).read()) for name in ("toy_colours", "toy_shapes", "toy_sums"))
        assert stored == 7 and not folder.has_verdicts("m", "toy_sums")
        second = fake_backend()
        found = run(second)
        assert len(second.asked) == 19 and sum(p.reused for p in found.progress) == 7
        third = fake_backend()
        again = run(third)
        assert third.calls == 0 and again.samples == found.samples and again.verdicts == found.verdicts
        assert again.model.bits_per_weight is None

    def test_an_interrupted_run_equals_an_uninterrupted_one(
        self, run: Callable, fake_backend: Callable, tmp_path: Path
    ):
        with pytest.raises(KeyboardInterrupt):
            run(fake_backend(stop_after=11))
        resumed = run(fake_backend())
        with RunFolder.open(tmp_path, "other") as other:
            whole = run(fake_backend(), folder=other)
        assert resumed.samples == whole.samples and resumed.verdicts == whole.verdicts

    def test_the_report_covers_all_samples_and_not_the_new_ones_only(self, run: Callable, fake_backend: Callable):
        with pytest.raises(KeyboardInterrupt):
            run(fake_backend(stop_after=23))
        found = run(fake_backend())
        assert [(p.expected, p.done) for p in found.progress] == [(5, 5), (9, 9), (12, 12)]
        assert [len(found.verdicts[p.task]) for p in found.progress] == [5, 9, 12]
        assert sum(p.done - p.reused for p in found.progress) == 3

    def test_an_end_while_grading_costs_no_answer(
        self, run: Callable, fake_backend: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """All answers are there, grading fails, and with nothing left to ask the next attempt must still grade."""

        def fail(*_: object) -> None:
            raise RuntimeError("a resource is missing")

        with monkeypatch.context() as patch:
            patch.setattr("evalcard.evaluate.grade", fail)
            with pytest.raises(RuntimeError):
                run(fake_backend())
        idle = fake_backend()
        found = run(idle)
        assert idle.calls == 0 and sum(p.reused for p in found.progress) == 26
        with RunFolder.open(tmp_path, "other") as other:
            whole = run(fake_backend(), folder=other)
        assert found.verdicts == whole.verdicts and found.samples == whole.samples

    def test_fresh_takes_nothing(self, run: Callable, fake_backend: Callable, spec: Any):
        run(fake_backend())
        backend = fake_backend()
        found = run(backend, spec=spec.model_copy(update={"fresh": True}))
        assert len(backend.asked) == 26 and sum(p.reused for p in found.progress) == 0

    def test_errors_are_tried_again(self, run: Callable, fake_backend: Callable):
        broken = ItemAnswer("error", choices=tuple(ChoiceAnswer(None, 1, False) for _ in range(4)))
        plain = fake_backend().answer_of
        first = run(fake_backend(answer_of=lambda item: broken if item.item_id == 3 and item.task == "toy_shapes"
                                 else plain(item)))  # fmt: skip
        assert first.verdicts["toy_shapes"][3].outcome == "error"
        second = fake_backend()
        found = run(second)
        assert [(i.task, i.item_id) for i in second.asked] == [("toy_shapes", 3)]
        assert found.verdicts["toy_shapes"][3].outcome == "wrong"

    def test_another_models_weights_take_nothing(self, run: Callable, fake_backend: Callable):
        run(fake_backend())
        other = fake_backend(weights="w1")
        run(other)
        assert len(other.asked) == 26


class TestBatches:
    """A model may be fed batch by batch; what comes of it is the same."""

    @pytest.fixture
    def evaluation(self, spec: Any, prepared: Prepared, folder: RunFolder) -> Callable[..., Evaluation]:
        return lambda backend, **options: Evaluation(spec, spec.baseline, "m", prepared, backend, folder, **options)

    @staticmethod
    def feed(model: Evaluation, prepared: Prepared, size: int, bar: Any) -> None:
        """Each task by itself, from its end."""
        for task in prepared.tasks:
            items = prepared.items[task.name][::-1]
            for start in range(0, len(items), size):
                model.answer(items[start : start + size], bar)
                verdicts = model.grade(task, items[start : start + size])
                assert [one.item_id for one in verdicts] == [one.item_id for one in items[start : start + size]]

    def test_equal_to_one_call(
        self, run: Callable, evaluation: Callable, fake_backend: Callable, prepared: Prepared, tmp_path: Path
    ):
        bar = Counting()
        backend = fake_backend()
        model = evaluation(backend)
        self.feed(model, prepared, 5, bar)
        found = model.finish(prepared)
        assert backend.calls == 6 and bar.count == prepared.num_samples
        with RunFolder.open(tmp_path, "other") as other:
            whole = run(fake_backend(), folder=other)
        assert (found.samples, found.verdicts, found.model) == (whole.samples, whole.verdicts, whole.model)
        assert [step.done for step in found.progress] == [step.done for step in whole.progress]

    def test_stored_answers_come_first_and_are_counted(
        self, run: Callable, evaluation: Callable, fake_backend: Callable, prepared: Prepared
    ):
        with pytest.raises(KeyboardInterrupt):
            run(fake_backend(stop_after=7))
        bar, backend = Counting(), fake_backend()
        model = evaluation(backend)
        self.feed(model, prepared, 100, bar)
        assert len(backend.asked) == 19 and bar.count == 26
        assert sum(step.reused for step in model.finish(prepared).progress) == 7

    def test_ends_with_what_was_used(
        self, evaluation: Callable, fake_backend: Callable, prepared: Prepared, folder: RunFolder
    ):
        fewer = replace(prepared, items={name: items[1:4] for name, items in prepared.items.items()})
        model = evaluation(fake_backend())
        self.feed(model, prepared, 4, Counting())
        found = model.finish(fewer)
        assert {len(samples) for samples in found.samples.values()} == {3}
        assert [one.item_id for one in folder.read_verdicts("m", "toy_sums")] == [1, 2, 3]
        assert [(step.expected, step.done) for step in found.progress] == [(3, 3)] * 3


class Counting:
    """A bar that counts."""

    count = 0

    def advance(self, count: int = 1) -> None:
        self.count += count

    def note(self, text: str) -> None:
        """Nothing is drawn."""


def test_prompts_that_open_thinking_are_known_when_grading(run: Callable, fake_backend: Callable, prepared: Prepared):
    """Without the opening tag in the answer only the prompt tells that all of it is thinking."""
    tasks = tuple(
        replace(task, record=task.record.model_copy(update={"opens_thinking": True})) for task in prepared.tasks
    )
    found = run(fake_backend(), prepared=replace(prepared, tasks=tasks))
    assert {v.outcome for v in found.verdicts["toy_sums"]} == {"no_answer"}
    assert {v.outcome for v in run(fake_backend()).verdicts["toy_sums"]} == {"wrong"}


class TestReuse:
    def test_earlier_runs_are_paid_for_once(self, run: Callable, fake_backend: Callable, tmp_path: Path, spec: Any):
        first = run(fake_backend())
        with RunFolder.open(tmp_path, "second") as second:
            backend = fake_backend()
            found = run(backend, folder=second, index=AnswerIndex.scan([tmp_path], skip=second.path), slug="n")
            assert backend.calls == 0 and sum(p.reused for p in found.progress) == 26
            assert found.samples == first.samples
            assert len(second.journal("n", "toy_sums").read()) == 12

    @pytest.mark.parametrize("changes", [{"text": None, "choices": None}, {"text": "x", "choices": []}])
    def test_stored_answers_that_do_not_fit_are_asked_again(
        self, run: Callable, fake_backend: Callable, folder: RunFolder, tmp_path: Path, changes: dict[str, Any]
    ):
        first = run(fake_backend())
        broken = first.samples["toy_shapes"][2].model_copy(update=changes)
        folder.journal("m", "toy_shapes").append(broken)
        backend = fake_backend()
        assert run(backend).samples == first.samples and len(backend.asked) == 1
        folder.journal("m", "toy_shapes").append(broken)
        with RunFolder.open(tmp_path, "second") as second:
            run(again := fake_backend(), folder=second, index=AnswerIndex.scan([tmp_path], skip=second.path))
        assert len(again.asked) <= 1

    def test_no_weights_digest_no_reuse_across_runs(self, run: Callable, fake_backend: Callable, tmp_path: Path):
        run(fake_backend(weights=None))
        with RunFolder.open(tmp_path, "second") as second:
            backend = fake_backend(weights=None)
            run(backend, folder=second, index=AnswerIndex.scan([tmp_path], skip=second.path))
            assert len(backend.asked) == 26
            again = fake_backend(weights=None)
            run(again, folder=second, index=AnswerIndex.scan([tmp_path], skip=second.path))
            assert again.calls == 0


def test_equal_items_are_answered_once_and_stored_each(
    run: Callable, fake_backend: Callable, prepared: Prepared, folder: RunFolder
):
    """MMLU holds exact duplicates."""
    items = prepared.items["toy_shapes"]
    twin = replace(items[0], item_id=8)
    doubled = replace(prepared, items=prepared.items | {"toy_shapes": (*items[:8], twin)})
    backend = fake_backend()
    found = run(backend, prepared=doubled)
    assert len(backend.asked) == 25 and len(found.samples["toy_shapes"]) == 9
    first, last = found.samples["toy_shapes"][0], found.samples["toy_shapes"][8]
    assert first.key == last.key and (first.item_id, last.item_id) == (0, 8)
    assert len(folder.journal("m", "toy_shapes").read()) == 9


class TestBackendsThatMisbehave:
    def test_an_item_left_out(self, run: Callable, fake_backend: Callable):
        backend = fake_backend()
        plain = backend.answer
        backend.answer = lambda items, on_answer: plain(items[1:], on_answer)
        with pytest.raises(AssertionError, match="left items unanswered"):
            run(backend)

    def test_an_item_answered_twice(self, run: Callable, fake_backend: Callable):
        backend = fake_backend()
        plain = backend.answer
        backend.answer = lambda items, on_answer: plain([*items, items[0]], on_answer)
        with pytest.raises(AssertionError, match="answered twice"):
            run(backend)

    def test_choices_missing(self, run: Callable, fake_backend: Callable):
        with pytest.raises(AssertionError):
            run(fake_backend(answer_of=lambda item: ItemAnswer("stop", choices=(ChoiceAnswer(-1.0, 1, True),))))


class TestKey:
    IDENTITY = Identity("w", "n")

    def key(self, item: Any, identity: Identity = IDENTITY, tokenizer: str = "t") -> str:
        return sample_key(item, identity, tokenizer)

    def test_names_nothing_that_does_not_matter(self, prepared: Prepared):
        item = prepared.items["toy_sums"][0]
        for same in (
            replace(item, task="other"),
            replace(item, item_id=99),
            replace(item, item_hash="x"),
            replace(item, repeat=3),
            self.decoded(item, seed=5, top_p=0.5),
        ):
            assert self.key(same) == self.key(item)

    def test_names_what_matters(self, prepared: Prepared):
        item = prepared.items["toy_sums"][0]
        request = item.requests[0]
        others = [
            self.key(item, Identity("w2", "n")),
            self.key(item, Identity(None, "n")),
            self.key(item, Identity("w", "n2")),
            self.key(item, tokenizer="t2"),
            self.key(replace(item, prompt_hash="p")),
            self.key(replace(item, requests=(replace(request, stop_ids=(1,)),))),
            self.key(self.decoded(item, max_tokens=512)),
            self.key(self.decoded(item, until=("x",))),
            self.key(self.decoded(item, temperature=0.5)),
        ]
        assert len({*others, self.key(item)}) == 10

    def test_sampling_is_addressed(self, prepared: Prepared):
        item = self.decoded(prepared.items["toy_sums"][0], temperature=0.5)
        others = [
            replace(item, repeat=1),
            replace(item, item_hash="x"),
            self.decoded(item, seed=5),
            self.decoded(item, top_p=0.5),
            self.decoded(item, top_k=5),
            self.decoded(item, min_p=0.5),
        ]
        assert len({self.key(one) for one in (item, *others)}) == 7

    @staticmethod
    def decoded(item: Any, **changes: Any) -> Any:
        request = item.requests[0]
        return replace(item, requests=(replace(request, decoding=replace(request.decoding, **changes)),))


def test_a_sample_becomes_the_same_answer(prepared: Prepared):
    scored, generated = prepared.items["toy_shapes"][0], prepared.items["toy_sums"][0]
    answers = [
        (scored, ItemAnswer("stop", choices=tuple(ChoiceAnswer(-float(i), 1, not i) for i in range(4)))),
        (generated, ItemAnswer("length", text="x", token_ids=(3, 4), output_tokens=2, timings=(("seconds", 0.5),))),
    ]
    for item, answer in answers:
        sample = make_sample(item, "k", "1.0", answer)
        assert answer_of(sample) == answer and sample.prompt_tokens == prompt_tokens(item)
    assert make_sample(generated, "k", "1", answers[1][1]).shots is None
    assert make_sample(replace(generated, shots=2), "k", "1", answers[1][1]).shots == 2
    assert [choice.text for choice in make_sample(scored, "k", "1", answers[0][1]).choices or []] == [
        " A", " B", " C", " D"]  # fmt: skip
