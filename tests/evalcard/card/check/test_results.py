"""model-index and .eval_results: required keys, types, finite numbers, and what readers would merge."""

import copy
import json
from typing import Any

import pytest

from evalcard.card.check.check import check_card
from evalcard.card.check.problem import Problem

RESULT: dict[str, Any] = {
    "task": {"type": "text-generation", "name": "Text Generation"},
    "dataset": {"type": "openai/gsm8k", "name": "GSM8K", "config": "main", "split": "test", "revision": "1234567"},
    "metrics": [{"type": "exact_match", "value": 95.0, "name": "5-shot"}],
    "source": {"url": "https://example.org/run", "name": "run"},
}


def of_index(index: Any) -> list[Problem]:
    """JSON is YAML too."""
    return check_card(f'---\nlicense: mit\n"model-index": {json.dumps(index)}\n---\n# Toy\n')


def of_result(place: str, value: Any, **more: Any) -> list[Problem]:
    """RESULT with the value at ``place`` replaced, or taken out where it is Ellipsis."""
    result = copy.deepcopy(RESULT) | more
    *path, last = [int(part) if part.isdecimal() else part for part in place.split(".")]
    at: Any = result
    for part in path:
        at = at[part]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return of_index([{"name": "Toy", "results": [result]}])


def test_a_good_index_has_no_problem():
    other = copy.deepcopy(RESULT)
    other["dataset"]["split"] = "train"
    assert of_index([{"name": "Toy", "results": [RESULT, other]}]) == []


@pytest.mark.parametrize(
    ("index", "where", "what"),
    [
        ([], "model-index", "empty list"),
        ({"name": "Toy"}, "model-index", "must be an array"),
        ("Toy", "model-index", "must be an array"),
        ([[]], "model-index[0]", "must have keys"),
        ([{"results": [RESULT]}], "model-index[0].name", "required and missing"),
        ([{"name": " ", "results": [RESULT]}], "model-index[0].name", "empty"),
        ([{"name": 7, "results": [RESULT]}], "model-index[0].name", "must be text"),
        ([{"name": "Toy"}], "model-index[0].results", "required and missing"),
        ([{"name": "Toy", "results": []}], "model-index[0].results", "empty list"),
        ([{"name": "Toy", "results": [RESULT, RESULT]}], "model-index[0].results[1]", "readers merge"),
    ],
)
def test_entries(index: Any, where: str, what: str):
    (problem,) = of_index(index)
    assert (problem.where, problem.level) == (where, "error") and what in problem.what


@pytest.mark.parametrize(
    ("place", "value", "what"),
    [
        ("task.type", ..., "required"), ("task", ..., "required"), ("task.name", 3, "must be text"),
        ("dataset", ..., "required"), ("dataset.type", ..., "required"), ("dataset.name", ..., "required"),
        ("dataset.type", "/var/data/gsm8k", "local path"), ("dataset.config", 3, "must be text"),
        ("dataset.split", ["test"], "must be text"), ("dataset.revision", 1234567, "must be text and is the number"),
        ("dataset.args", "x", "must have keys"), ("metrics", ..., "required"), ("metrics", [], "empty list"),
        ("metrics", {"type": "acc", "value": 1}, "must be an array"), ("metrics.0.type", ..., "required"),
        ("metrics.0.value", ..., "required"), ("metrics.0.value", "0.81", "the text '0.81'"),
        ("metrics.0.value", True, "finite number"), ("metrics.0.value", [1], "finite number"),
        ("metrics.0.config", 3, "must be text"), ("source.url", ..., "required"), ("source.url", "run", "no URL"),
        ("metrics.0", 3, "must have keys"),
    ],
)  # fmt: skip
def test_results(place: str, value: Any, what: str):
    (problem,) = of_result(place, value)
    assert problem.level == "error" and what in problem.what, problem
    assert problem.where.startswith("model-index[0].results[0]." + place.split(".")[0]), problem


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf"])
def test_values_are_finite(value: str):
    result = "task: {type: a}\n    dataset: {type: b, name: c}\n    metrics:\n    - {type: d, value: "
    index = f"- name: T\n  results:\n  - {result}{value}}}"
    (problem,) = check_card(f"---\nlicense: mit\nmodel-index:\n{index}\n---\n# Toy\n")
    assert problem.where == "model-index[0].results[0].metrics[0].value" and problem.line == 9


def test_metrics_that_readers_cannot_tell_apart():
    (problem,) = of_result("metrics", [{"type": "acc", "value": 1.0}, {"type": "acc", "value": 2.0}])
    assert problem.where.endswith("metrics[1]") and "twice" in problem.what
    assert of_result("metrics", [{"type": "acc", "value": 1.0}, {"type": "acc", "value": 2.0, "name": "5-shot"}]) == []
    (problem,) = of_result("metrics.0.verified", True)
    assert problem.level == "warning" and "Hugging Face" in problem.what


def test_several_entries_are_one_to_readers():
    other = {"name": "Two", "results": [copy.deepcopy(RESULT)]}
    (problem,) = of_index([{"name": "One", "results": [RESULT]}, other])
    assert (problem.where, problem.level) == ("model-index", "warning")


ITEM = """\
- dataset: {id: openai/gsm8k, task_id: gsm8k}
  value: 95.5
  date: "2026-11-30"
  source: {url: "https://example.org", name: run}
  notes: 5-shot
"""


def of_file(text: str | bytes, name: str = ".eval_results/gsm8k.yaml") -> list[Problem]:
    content = text.encode() if isinstance(text, str) else text
    return check_card("---\nlicense: mit\n---\n# Toy\n", files={"README.md": b"", name: content})


def test_a_good_file_has_no_problem():
    assert of_file(ITEM) == []
    assert of_file(ITEM + ITEM.replace("5-shot", "0-shot")) == []
    assert of_file("nonsense: [", name="elsewhere/gsm8k.yaml") == []


@pytest.mark.parametrize(
    ("old", "new", "where", "what", "level"),
    [
        ('"2026-11-30"', "2026-11-30", "line 3: [0].date", "reads it as a date", "error"),
        ('"2026-11-30"', '"30.11.2026"', "line 3: [0].date", "no ISO date", "error"),
        ("95.5", '"95.5"', "line 2: [0].value", "text '95.5'", "error"),
        ("95.5", ".nan", "line 2: [0].value", "finite", "error"),
        ("95.5", "0.955", "line 2: [0].value", "looks like a fraction", "warning"),
        ("  value: 95.5\n", "", "line 1: [0].value", "required", "error"),
        (", task_id: gsm8k", "", "[0].dataset.task_id", "required", "error"),
        ("task_id: gsm8k", "task_id: main", "[0].dataset.task_id", "no task of openai/gsm8k", "warning"),
        ("openai/gsm8k", "cais/mmlu", "[0].dataset.id", "no registered benchmark on 20", "warning"),
        ("openai/gsm8k", "/data/gsm8k", "[0].dataset.id", "local path", "error"),
        ('url: "https://example.org", ', "", "[0].source.url", "required", "error"),
        ("notes: 5-shot", "metrics: [1]", "line 5: [0].metrics", "no such key", "warning"),
        ("notes: 5-shot", "notes: 5", "line 5: [0].notes", "must be text", "error"),
        ("- dataset", "  dataset", "", "must be an array", "error"),
        ("value: 95.5", "value: [", "line", "no YAML", "error"),
    ],
)
def test_items(old: str, new: str, where: str, what: str, level: str):
    assert old in ITEM
    text = ITEM.replace(old, new)
    problem = of_file(text)[0]
    assert problem.level == level and problem.line is None and what in problem.what, problem
    assert problem.where.startswith(".eval_results/gsm8k.yaml") and where in problem.where, problem


def test_files_as_such():
    assert "UTF-8" in of_file(b"\xff\xfe")[0].what
    assert "it is empty" in of_file("# nothing\n")[0].what
    assert "end in .yaml" in of_file(ITEM, name=".eval_results/gsm8k.yml")[0].what
    assert "same notes" in of_file(ITEM + ITEM)[0].what
    assert of_file("value: 1\nvalue: 2\n")[0].what.startswith("the key is given twice")
