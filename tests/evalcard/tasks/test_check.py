"""Broken tasks are refused before an answer is paid for, naming task and item."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalcard.errors import UserError
from evalcard.tasks.build import build
from evalcard.tasks.files.select import select
from evalcard.tasks.harness import HarnessTask
from evalcard.tasks.prepare import prepare, prepare_tasks

MEAN = {"aggregation": "mean", "higher_is_better": True}
CHOICE = {
    "output_type": "multiple_choice", "doc_to_text": "{{q}}", "doc_to_choice": "c", "doc_to_target": "a",
    "metric_list": [{"metric": "acc", **MEAN}],
}  # fmt: skip
TEXT = {
    "output_type": "generate_until", "doc_to_text": "{{q}}", "doc_to_target": "{{a}}",
    "metric_list": [{"metric": "exact_match", **MEAN}], "generation_kwargs": {"until": ["\n"], "max_gen_toks": 4},
}  # fmt: skip
GOOD = {"q": "Which?", "a": 1, "c": ["x", "y"]}
FUNCTIONS = """
def other_key(doc, results):
    return {"f1": 1.0}

def no_dict(doc, results):
    return 1.0

def fails(doc, results):
    return 1 / 0

def fails_on_empty(doc, results):
    return {"exact_match": float(results[0].split()[0] == doc["a"])}

def fails_on_doc(doc):
    return str(1 / doc["a"])
"""


@pytest.fixture
def spec_of(tmp_path: Path, toy_spec: Callable[..., Any]) -> Callable[..., Any]:
    def make(config: dict[str, Any], *docs: dict[str, Any], functions: dict[str, str] | None = None, **options: Any):
        folder = tmp_path / "root" / "made"
        folder.mkdir(parents=True)
        (folder / "test.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs or (GOOD,)))
        text = yaml.safe_dump({"task": "made", "dataset_path": "made", "test_split": "test", **config})
        text += "".join(f"{key}: !function helpers.{name}\n" for key, name in (functions or {}).items())
        (tmp_path / "helpers.py").write_text(FUNCTIONS)
        (tmp_path / "made.yaml").write_text(text)
        given = {"tasks": (str(tmp_path / "made.yaml"),), "data_root": str(tmp_path / "root"), "trust_task_code": True}
        given |= options
        return toy_spec("toy_sums").model_copy(update=given)

    return make


def test_sound_tasks_pass(spec_of: Callable[..., Any]):
    (task,) = prepare_tasks(spec_of(CHOICE))[0]
    assert task.scoring.metric == "acc" and task.task.repeats == 1


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"a": None}, r"made, item 1: its right answer \(doc_to_target\) is null"),
        ({"c": None}, r"made, item 1, has no choices \(doc_to_choice\)"),
        ({"c": ["x", None]}, r"made, item 1: its choices \(doc_to_choice\) must be texts, not None"),
    ],
)
def test_documents_without_choices_or_answer(spec_of: Callable[..., Any], broken: dict[str, Any], message: str):
    with pytest.raises(UserError, match=message):
        prepare_tasks(spec_of(CHOICE, GOOD, GOOD | broken))


def test_only_selected_documents_count(spec_of: Callable[..., Any]):
    assert prepare_tasks(spec_of(CHOICE, GOOD, GOOD | {"a": None}, limit_per_subtask=1))[0]


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({"process_results": "other_key"}, "its grading gives f1, but not the metric exact_match"),
        ({"process_results": "no_dict"}, "item 0, cannot be graded .*expected a dict"),
        ({"process_results": "fails"}, "item 0, cannot be graded .*ZeroDivisionError"),
        ({"doc_to_target": "fails_on_doc"}, "item 1, has no right answer .*ZeroDivisionError"),
    ],
)
def test_functions_that_fail(spec_of: Callable[..., Any], functions: dict[str, str], message: str):
    config = {key: value for key, value in TEXT.items() if key not in functions}
    with pytest.raises(UserError, match=f"task made.*{message}"):
        prepare_tasks(spec_of(config, GOOD, GOOD | {"a": 0}, functions=functions))


def test_a_function_that_fails_on_one_answer_is_found_when_that_is_graded(spec_of: Callable[..., Any]):
    (task,) = prepare_tasks(spec_of(TEXT, functions={"process_results": "fails_on_empty"}))[0]
    with pytest.raises(UserError, match="task made, item 0, cannot be graded .*IndexError"):
        task.task.grade([(0, [""])])


def test_an_unknown_metric(spec_of: Callable[..., Any]):
    with pytest.raises(UserError, match="task made: there is no metric zork"):
        prepare_tasks(spec_of({**TEXT, "metric_list": [{"metric": "zork", **MEAN}]}))


def test_a_metric_that_choices_do_not_have(spec_of: Callable[..., Any]):
    with pytest.raises(UserError, match="its grading gives nothing, but not the metric zork"):
        prepare_tasks(spec_of({**CHOICE, "metric_list": [{"metric": "zork", **MEAN}]}))


@pytest.mark.parametrize("repeats", ["x", 0, -1, 1.5])
def test_repeats(spec_of: Callable[..., Any], repeats: Any):
    with pytest.raises(UserError, match=f"'repeats' must be a whole number of 1 or more, not {repeats!r}"):
        prepare_tasks(spec_of({**TEXT, "repeats": repeats}))


def test_a_regex_that_does_not_compile(spec_of: Callable[..., Any]):
    filters = [{"name": "f", "filter": [{"function": "regex", "regex_pattern": "("}, {"function": "take_first"}]}]
    with pytest.raises(UserError, match="task made has a filter 'f' that does not work"):
        prepare_tasks(spec_of({**TEXT, "filter_list": filters}))


@pytest.mark.parametrize("arguments", [{"until": 5}, {"max_gen_toks": 0}, {"max_gen_toks": -3}])
def test_generation_arguments(spec_of: Callable[..., Any], arguments: dict[str, Any]):
    with pytest.raises(UserError, match=next(iter(arguments))):
        prepare(spec_of({**TEXT, "generation_kwargs": {"until": ["\n"], **arguments}}))


def test_a_surrogate_in_the_system_prompt(spec_of: Callable[..., Any]):
    with pytest.raises(UserError, match=r"'\\ud800', half of a surrogate pair"):
        prepare(spec_of(TEXT, system="Be \ud800 brief."))


def test_more_shots_than_documents(spec_of: Callable[..., Any]):
    with pytest.raises(UserError, match="50 shots were asked for, but it has 3 documents"):
        prepare(spec_of(TEXT, GOOD, GOOD | {"q": "Who?"}, GOOD | {"q": "When?"}, num_fewshot=50))


@pytest.mark.parametrize("name", ["no", "5"])
def test_names_that_yaml_reads_otherwise(spec_of: Callable[..., Any], tmp_path: Path, name: str):
    spec = spec_of(TEXT)
    path = tmp_path / "made.yaml"
    path.write_text(path.read_text().replace("task: made", f"task: {name}"))
    with pytest.raises(UserError, match="a task's name must be text"):
        prepare_tasks(spec)


def test_a_group_without_tasks(tmp_path: Path):
    (tmp_path / "none.yaml").write_text("group: none_at_all\ntask: []\n")
    with pytest.raises(UserError, match="group none_at_all has no tasks"):
        build(select([str(tmp_path / "none.yaml")]), ())


def test_two_files_with_one_name(spec_of: Callable[..., Any], tmp_path: Path):
    spec_of(TEXT)
    twin = tmp_path / "made2.yaml"
    twin.write_text((tmp_path / "made.yaml").read_text())
    assert [one.file.path for one in select([str(twin)])] == [str(twin)], "the asked one"
    twin.write_text("group: made\ntask: [made]\n")
    with pytest.raises(UserError, match=r"have the name made: .*made\.yaml and .*made2\.yaml"):
        select([str(twin)])


def test_a_property_of_the_task(spec_of: Callable[..., Any]):
    own = prepare_tasks(spec_of(TEXT, functions={"process_results": "fails_on_empty"}))[0][0].task
    assert isinstance(own, HarnessTask) and own.has_own_grading


class TestJudges:
    """Right answers that a task's judge could never find met are found before an answer is paid for."""

    def config(self, judge: str) -> dict[str, Any]:
        return {**TEXT, "metadata": {"version": 1, "evalcard": {"judge": judge, "id_field": "id"}}}

    def docs(self, *golds: Any) -> list[dict[str, Any]]:
        return [{"id": f"n{i}", "q": f"q{i}", "a": gold} for i, gold in enumerate(golds)]

    def test_sound_ones_pass_and_are_recorded(self, spec_of: Callable[..., Any]):
        (task,) = prepare_tasks(spec_of(self.config("number"), *self.docs("12", "-3.5")))[0]
        assert task.record.judge == task.scoring.filter == "number"

    def test_a_gold_that_is_none(self, spec_of: Callable[..., Any]):
        spec = spec_of(self.config("number"), *self.docs("12", "twelve or so", "x"))
        with pytest.raises(UserError, match="task made, item n1: no answer could be right by its judge number: "):
            prepare_tasks(spec)
        assert prepare_tasks(spec.model_copy(update={"limit_per_subtask": 1}))[0]

    def test_null(self, spec_of: Callable[..., Any]):
        config = self.config("exact") | {"doc_to_target": "a"}
        with pytest.raises(UserError, match=r"made, item n1: its right answer \(doc_to_target\) is null"):
            prepare_tasks(spec_of(config, *self.docs("12", None)))

    def test_nothing_is_judged_beforehand(self, spec_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch):
        """Judging mathematics starts worker processes; the plan must not."""

        class Spy:
            name = "spy"

            def judge(self, answers: Any) -> Any:
                raise AssertionError("an answer was judged")

            def check_gold(self, gold: str) -> str | None:
                return None if gold == "12" else f"{gold} will not do"

        monkeypatch.setattr(HarnessTask, "judge", property(lambda self: Spy(), lambda self, value: None), raising=False)
        assert prepare_tasks(spec_of(TEXT, GOOD | {"a": "12"}))[0][0].record.judge == "spy"


def test_a_task_without_documents(spec_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(HarnessTask, "docs", [])
    spec = spec_of(TEXT)
    for limit in (None, 5.0):
        with pytest.raises(UserError, match="task made has no documents"):
            prepare_tasks(spec.model_copy(update={"limit": limit}))


def test_a_template_variable_that_does_not_exist_is_named_with_task_and_item(spec_of: Callable[..., Any]):
    """The first document has the field, so the task can be built; the second has not."""
    config = {**TEXT, "doc_to_text": "{{q}}{% if extra %} {{extra.text}}{% endif %}"}
    with pytest.raises(
        UserError, match="task made, item 1: doc_to_text uses what is not there: .* has no attribute 'text'"
    ):
        prepare(spec_of(config, GOOD | {"extra": None}, GOOD | {"extra": {"other": 1}}))
