"""A run that stops early, on made-up models: what it asks, where it ends, and that a kill changes nothing."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalcard.backends.backend import ChoiceAnswer, GenerateRequest, Identity, ItemAnswer
from evalcard.compare.sequential import SequentialTest, seeded_order
from evalcard.early import check_sequential
from evalcard.errors import UserError
from evalcard.gate.spec import Bounds, GateSpec
from evalcard.looks import _item_scores
from evalcard.plan import Plan, slugs
from evalcard.progress import Silent
from evalcard.rescore import rescore
from evalcard.results.records import RunRecord, TaskRecord, Verdict
from evalcard.results.store import RunFolder
from evalcard.run import Outcome, run_plan
from evalcard.spec import RunSpec, make_spec
from evalcard.tasks.prepare import Prepared, prepare

SIZES = {"many": 240, "more": 200, "few": 1}
Rule = Callable[[str, int], bool]
"""Whether a model is right on a task's item."""

WHOLE: Rule = lambda task, item: item % 10 > 0  # noqa: E731
BROKEN: Rule = lambda task, item: item % 10 > 3  # noqa: E731


@dataclass
class Model:
    """Right by a rule; says so in the form the task wants, or in another one."""

    label: str
    is_right: Rule
    stop_after: int | None = None
    form: str = "#### {}"

    def __post_init__(self) -> None:
        self.asked: list[tuple[str, int, int]] = []
        self.calls: list[int] = []
        self.is_open = False

    def identity(self) -> Identity:
        return Identity(self.label, "made-up")

    def answer(self, items: Any, on_answer: Callable[[Any, ItemAnswer], None]) -> None:
        self.calls.append(len(items))
        self.is_open = True
        for item in reversed(items):
            if self.stop_after is not None and len(self.asked) >= self.stop_after:
                raise KeyboardInterrupt
            self.asked.append((item.task, item.item_id, item.repeat))
            on_answer(item, self.say(item))

    def say(self, item: Any) -> ItemAnswer:
        right = self.is_right(item.task, item.item_id)
        if isinstance(item.requests[0], GenerateRequest):
            text = self.form.format(item.item_id + 100 if right else 0)
            return ItemAnswer("stop", text=text, token_ids=(5, 6), output_tokens=2)
        best = item.item_id % 4 if right else (item.item_id + 1) % 4
        return ItemAnswer("stop", choices=tuple(ChoiceAnswer(-1.0 - (i != best), 1, i == best) for i in range(4)))

    def facts(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        self.is_open = False


def write_tasks(folder: Path) -> Path:
    """many and more are scored, few too; pool is more and few as one row; sums are generated."""
    data = folder / "data" / "acme"
    for name, size in SIZES.items():
        docs = [{"question": f"{name} {i}?", "answer": i % 4} for i in range(size)]
        write_lines(data / name / "test.jsonl", docs)
        task = {"task": name, "dataset_path": f"acme/{name}", "test_split": "test", "output_type": "multiple_choice",
                "doc_to_text": "{{question}}", "doc_to_choice": ["A", "B", "C", "D"], "doc_to_target": "answer",
                "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}]}  # fmt: skip
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(task))
    write_lines(data / "sums" / "test.jsonl", [{"q": f"100 + {i}?", "a": str(100 + i)} for i in range(200)])
    strict = {"name": "strict", "filter": [{"function": "regex", "regex_pattern": "#### ([0-9]+)"},
                                           {"function": "take_first"}]}  # fmt: skip
    sums = {"task": "sums", "dataset_path": "acme/sums", "test_split": "test", "output_type": "generate_until",
            "doc_to_text": "{{q}}", "doc_to_target": "{{a}}", "filter_list": [strict],
            "generation_kwargs": {"until": ["Q"], "do_sample": False, "max_gen_toks": 8},
            "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}]}  # fmt: skip
    (folder / "sums.yaml").write_text(yaml.safe_dump(sums))
    pool = {
        "group": "pool",
        "task": ["more", "few"],
        "aggregate_metric_list": [{"metric": "acc", "weight_by_size": True}],
    }
    (folder / "pool.yaml").write_text(yaml.safe_dump(pool))
    return folder


def write_lines(path: Path, docs: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(doc) + "\n" for doc in docs))


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tasks(tmp_path_factory.mktemp("early"))


@pytest.fixture(scope="module")
def prepared_of() -> Callable[[RunSpec], Prepared]:
    """Prompts of the same tasks are built once."""
    made: dict[tuple[Any, ...], Prepared] = {}

    def prepared(spec: RunSpec) -> Prepared:
        key = (spec.tasks, spec.repeats, spec.temperature)
        if key not in made:
            made[key] = prepare(spec)
        return made[key]

    return prepared


@pytest.fixture
def run(
    tasks: Path, tokenizer_folder: Path, tmp_path: Path, prepared_of: Callable[[RunSpec], Prepared]
) -> Callable[..., Outcome]:
    """A run of both models; ``names`` are tasks, ``changes`` go to the spec."""

    def start(baseline: Model, compressed: Model | None, *names: str, **changes: Any) -> Outcome:
        source = str(tokenizer_folder)
        given = {"baseline": source, "compressed": [f"{source}:w8a8"] if compressed else [], "out": str(tmp_path),
                 "tasks": [str(tasks / f"{name}.yaml") for name in names], "data_root": str(tasks / "data"),
                 "sequential": True, "min_recovery": 95, **changes}  # fmt: skip
        spec = make_spec(given)
        limit = spec.min_recovery
        gate = GateSpec(every=Bounds(min_recovery=limit)) if limit is not None else None
        prepared = prepared_of(spec)
        if spec.sequential:
            check_sequential(spec, gate, prepared)
        models = [model for model in (baseline, compressed) if model is not None]
        plan = Plan(spec, prepared, dict(zip(slugs(spec), models, strict=True)), gate)
        return run_plan(plan, Silent(), command=["evalcard", "run"])

    return start


def pair(rule: Rule, **options: Any) -> tuple[Model, Model]:
    return Model("base", WHOLE), Model("w8a8", rule, **options)


def contents(folder: Path, *left_out: str) -> dict[str, bytes]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(".lock")]
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
    return {name: content for name, content in found.items() if not name.startswith(left_out)}


def test_ends_in_pass_with_the_first_items_of_the_order(run: Callable[..., Outcome]):
    baseline, compressed = pair(WHOLE)
    done = run(baseline, compressed, "many")
    (early,) = done.run.sequential
    assert (early.row, early.limit, early.items, early.decision) == ("many", 95.0, 240, "PASS")
    assert 0 < early.used < 150 and early.low >= 95
    (task,) = done.run.tasks
    assert task.item_ids == sorted(seeded_order(240, 1234)[: early.used]) and task.items_selected == early.used
    assert task.selection == f"seeded order, stopped after {early.used} of 240"
    for model in (baseline, compressed):
        assert sorted(item for _, item, _ in model.asked) == task.item_ids and not model.is_open
        assert set(model.calls) == {15}, "looks of a sixteenth of the set"
    assert [(one.expected, one.done) for one in done.run.progress] == [(early.used, early.used)] * 2
    assert done.verdict is not None and done.verdict.outcome == "PASS"
    assert done.comparison.verdict == done.verdict.model_dump(mode="json")


def test_the_test_saw_what_the_models_said(run: Callable[..., Outcome]):
    """The record against the test fed by hand, in the same looks."""
    lossy: Rule = lambda task, item: WHOLE(task, item) and item % 31 > 0  # noqa: E731
    done = run(*pair(lossy), "many", min_recovery=80)
    (early,) = done.run.sequential
    test = SequentialTest(240, Fraction(80, 100), 0.95)
    order = seeded_order(240, 1234)
    while test.decision is None:
        look = order[test.num_used : test.num_used + 15]
        test.update([WHOLE("", one) for one in look], [lossy("", one) for one in look])
    found = test.interval()
    assert found is not None
    assert (early.used, early.decision) == (test.num_used, test.decision)
    assert (early.low, early.high) == (100 * found.low, 100 * found.high)
    (score,) = done.comparison.tasks[0].compressed
    assert (score.recovery.low, score.recovery.high, score.sequential) == (early.low, early.high, early)
    assert score.paired is None and score.mcnemar_p is None and done.comparison.averages == []


def test_the_first_fail_ends_the_run(run: Callable[..., Outcome]):
    rule: Rule = lambda task, item: BROKEN(task, item) if task == "many" else WHOLE(task, item)  # noqa: E731
    baseline, compressed = pair(rule)
    done = run(baseline, compressed, "many", "sums")
    many, sums = done.run.sequential
    assert many.decision == "FAIL" and sums.decision is None and sums.used < 200
    assert done.verdict is not None and done.verdict.outcome == "FAIL"
    assert Counter(task for task, *_ in compressed.asked) == {"many": many.used, "sums": sums.used}
    assert len(baseline.calls) == len(compressed.calls), "one call a look, for all rows"


def test_a_decided_row_asks_nothing_more(run: Callable[..., Outcome]):
    """One row is lossless and passes soon; the other one is at its limit and takes all of its items."""
    rule: Rule = lambda task, item: WHOLE(task, item) and (task == "many" or item not in range(1, 12))  # noqa: E731
    baseline, compressed = pair(rule)
    done = run(baseline, compressed, "many", "sums", min_recovery=94)
    many, sums = done.run.sequential
    assert many.decision == "PASS" and sums.used == 200 > many.used
    assert Counter(task for task, *_ in compressed.asked) == {"many": many.used, "sums": 200}


def test_all_items_are_decided_exactly(run: Callable[..., Outcome]):
    """9 of 180 lost, which is the limit itself: nothing but the whole set can tell."""
    rule: Rule = lambda task, item: WHOLE(task, item) and item % 20 != 3 or item == 3  # noqa: E731
    done = run(*pair(rule), "sums")
    (early,) = done.run.sequential
    (score,) = done.comparison.tasks[0].compressed
    assert (early.used, early.decision) == (200, "PASS")
    assert early.low == early.high == score.recovery.value == 95.0
    assert (done.run.tasks[0].item_ids, done.run.tasks[0].selection) == (None, "all")


def test_a_baseline_that_may_be_guessing_is_asked_to_the_end(run: Callable[..., Outcome]):
    guess: Rule = lambda task, item: item % 4 == 0  # noqa: E731
    done = run(Model("base", guess), Model("w8a8", lambda *_: False), "many")
    assert done.run.sequential[0].used == 240
    assert done.verdict is not None and done.verdict.outcome == "CANNOT_JUDGE"


def test_a_stored_baseline_is_not_asked_again(run: Callable[..., Outcome]):
    first = Model("base", WHOLE)
    run(first, None, "many", sequential=False, min_recovery=None)
    assert len(first.asked) == 240
    baseline, compressed = pair(WHOLE)
    done = run(baseline, compressed, "many")
    assert baseline.calls == [] and len(compressed.asked) == done.run.sequential[0].used < 240
    assert [one.reused for one in done.run.progress] == [len(compressed.asked), 0]


@pytest.mark.parametrize("who", ["baseline", "compressed"])
def test_a_kill_changes_nothing(run: Callable[..., Outcome], tmp_path: Path, who: str):
    lossy: Rule = lambda task, item: WHOLE(task, item) and item % 37 > 0  # noqa: E731
    names = ("many", "sums")
    whole = run(*pair(lossy), *names, out=str(tmp_path / "whole"))
    for stop in (1, 22, 31):
        models = dict(zip(("baseline", "compressed"), pair(lossy), strict=True))
        models[who].stop_after = stop
        with pytest.raises(KeyboardInterrupt):
            run(*models.values(), *names, out=str(tmp_path / "killed"))
        assert not models["baseline"].is_open and not models["compressed"].is_open
    last = pair(lossy)
    resumed = run(*last, *names, out=str(tmp_path / "killed"))
    assert resumed.run.sequential == whole.run.sequential and resumed.run.tasks == whole.run.tasks
    assert resumed.comparison == whole.comparison and resumed.verdict == whole.verdict
    assert sum(one.reused for one in resumed.run.progress) >= 54
    used = sum(one.used for one in whole.run.sequential)
    (folder,) = (tmp_path / "killed").iterdir()
    lines = sum(path.read_bytes().count(b"\n") for path in folder.glob("samples/*/*.jsonl"))
    assert lines == 2 * used, "an item was asked that is not part of the run, or one twice"
    (other,) = (tmp_path / "whole").iterdir()
    assert contents(folder, "run.json", "samples", "README", "models") == contents(
        other, "run.json", "samples", "README", "models"
    )


def test_a_pooled_row_may_end_without_an_item_of_one_task(run: Callable[..., Outcome], tmp_path: Path):
    done = run(*pair(WHOLE), "pool")
    (early,) = done.run.sequential
    more, few = sorted(done.run.tasks, key=lambda task: task.name, reverse=True)
    assert early.items == 201 and (more.items_selected, few.items_selected) == (early.used, 0)
    assert few.item_ids == [] and few.selection == more.selection == f"seeded order, stopped after {early.used} of 201"
    assert done.comparison.tasks[0].n == early.used and done.card.is_file()
    assert rescore(tmp_path, done.run.name).changes


def test_another_limit_goes_on_where_the_first_ended(run: Callable[..., Outcome], tmp_path: Path):
    """The journals then hold more than an easier limit uses; what it does not use is no part of the run."""
    hard = run(*pair(WHOLE), "many", min_recovery=98)
    baseline, compressed = pair(WHOLE)
    easy = run(baseline, compressed, "many", min_recovery=90)
    assert easy.run.name == hard.run.name and easy.run.sequential[0].used < hard.run.sequential[0].used
    assert baseline.calls == compressed.calls == []
    with RunFolder.open(tmp_path, easy.run.name) as folder:
        slug = easy.run.models[1].slug
        assert len(folder.read_verdicts(slug, "many")) == easy.run.sequential[0].used
        assert len(folder.journal(slug, "many").read()) == hard.run.sequential[0].used
    before = contents(tmp_path / easy.run.name)
    rescore(tmp_path, easy.run.name)
    assert contents(tmp_path / easy.run.name) == before


def test_repeats_are_one_item(run: Callable[..., Outcome]):
    done = run(*pair(WHOLE), "sums", repeats=4, temperature=0.7)
    (early,) = done.run.sequential
    assert early.decision == "PASS" and early.used % 8 == 0
    assert [one.done for one in done.run.progress] == [4 * early.used] * 2


def test_fresh_takes_nothing(run: Callable[..., Outcome]):
    run(*pair(WHOLE), "many")
    again = pair(WHOLE)
    done = run(*again, "many", fresh=True)
    assert [len(one.asked) for one in again] == [done.run.sequential[0].used] * 2


class TestRescore:
    """New verdicts are put to the test in the order in which the items were asked."""

    FORM = "that makes {}"

    @pytest.fixture
    def failed(self, run: Callable[..., Outcome]) -> Outcome:
        done = run(*pair(WHOLE, form=self.FORM), "sums")
        assert done.run.sequential[0].decision == "FAIL"
        return done

    def test_another_judge_moves_the_test(self, failed: Outcome, tmp_path: Path):
        again = rescore(tmp_path, failed.run.name, {"sums": "number"})
        (before,), (early,) = failed.run.sequential, again.run.sequential
        test = SequentialTest(200, Fraction(95, 100), 0.95)
        look = seeded_order(200, 1234)[: before.used]
        test.update([WHOLE("", one) for one in look], [WHOLE("", one) for one in look])
        found = test.interval()
        assert found is not None and test.decision is None
        assert early == before.model_copy(update={"decision": None, "low": 100 * found.low, "high": 100 * found.high})
        assert again.lost_gate and again.comparison is not None
        (score,) = again.comparison.tasks[0].compressed
        assert score.sequential == early and score.recovery.value == 100.0

    def test_unchanged_verdicts_leave_every_byte(self, failed: Outcome, tmp_path: Path):
        before = contents(tmp_path / failed.run.name)
        rescore(tmp_path, failed.run.name)
        assert contents(tmp_path / failed.run.name) == before

    def test_without_the_other_items_the_order_is_lost(self, failed: Outcome, tmp_path: Path, tasks: Path):
        path = tasks / "data" / "acme" / "sums" / "test.jsonl"
        text = path.read_text()
        try:
            path.write_text(text + json.dumps({"q": "one more?", "a": "1"}) + "\n")
            before = contents(tmp_path / failed.run.name)
            with pytest.raises(UserError, match="data of sums have other items than when it was made"):
                rescore(tmp_path, failed.run.name)
            assert contents(tmp_path / failed.run.name) == before
        finally:
            path.write_text(text)

    def test_an_incomplete_run_keeps_what_is_there(self, failed: Outcome, tmp_path: Path):
        """Ended after the baseline's record was written and before the other model's."""
        path = tmp_path / failed.run.name / "run.json"
        cut = failed.run.model_copy(update={"finished": None, "models": failed.run.models[:1]})
        path.write_bytes(cut.model_dump_json(by_alias=True, indent=1).encode())
        again = rescore(tmp_path, failed.run.name)
        assert again.comparison is None and again.run.sequential == failed.run.sequential


def test_a_score_beyond_1_is_refused(run: Callable[..., Outcome]):
    facts: Mapping[str, Any] = {
        "name": "odd", "source": "file", "version": "1", "metric": "f1", "filter": "none", "category": "general",
        "chance": 0.0, "higher_is_better": True, "num_fewshot": 0, "repeats": 1, "decoding": "greedy",
        "chat_template": False, "items_total": 1, "items_selected": 1, "selection": "all"}  # fmt: skip
    done = run(*pair(WHOLE), "many")
    folder = Path(done.card).parent
    with RunFolder.open(folder.parent, folder.name) as opened:
        (sample, *_) = opened.journal(done.run.models[1].slug, "many").read().values()
    score = {"metric": "f1", "filter": "none", "value": 45.0}
    verdict = Verdict.model_validate({"item_id": sample.item_id, "repeat": 0, "extracted": "x", "target": "x",
                                      "outcome": "correct", "scores": [score]})  # fmt: skip
    with pytest.raises(UserError, match="f1 of small is 45, and the sequential test takes scores from 0 to 1 only"):
        _item_scores(TaskRecord.model_validate(facts), "small", [verdict], [sample])


def test_run_json_reads_back(run: Callable[..., Outcome]):
    done = run(*pair(WHOLE), "many")
    stored = RunRecord.model_validate_json((done.card.parent / "run.json").read_bytes())
    assert stored == done.run
