"""Groups, tags, inline tasks, rows; what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.tasks.build import build
from evalcard.tasks.data import data_roots
from evalcard.tasks.files import select
from evalcard.tasks.harness import Chat


def rows_of(built: Any) -> list[tuple[str, list[str], str]]:
    return [(row.name, row.tasks, row.rule) for row in built.rows]


def test_a_group_with_a_rule_is_one_row(toys: Any):
    built = build(select([toys.path("toy_mc")]), (toys.data_root,))
    assert rows_of(built) == [("toy_mc", ["toy_colours", "toy_shapes"], "size")]
    assert [len(task.docs) for task in built.tasks] == [5, 9]


def test_a_group_without_a_rule_lists_its_members(toys: Any):
    built = build(select([toys.path("toy_all")]), (toys.data_root,))
    assert rows_of(built) == [
        ("toy_mc", ["toy_colours", "toy_shapes"], "size"),
        ("toy_sums", ["toy_sums"], "task"),
    ]


def test_the_rule_of_equal_weights(toys: Any, tmp_path: Path):
    (tmp_path / "flat.yaml").write_text(
        "group: flat\ntask: [toy_shapes, toy_colours]\naggregate_metric_list:\n- {metric: acc, weight_by_size: false}\n"
    )
    for name in ("toy_shapes", "toy_colours"):
        (tmp_path / f"{name}.yaml").write_text(Path(toys.path(name)).read_text())
    assert rows_of(build(select([str(tmp_path / "flat.yaml")]), (toys.data_root,)))[0][2] == "mean"


def test_shared_tasks_are_built_once_and_that_is_said(toys: Any):
    built = build(select([toys.path("toy_mc"), toys.path("toy_shapes")]), (toys.data_root,))
    assert [task.name for task in built.tasks] == ["toy_colours", "toy_shapes"]
    assert [row.name for row in built.rows] == ["toy_mc", "toy_shapes"]
    assert "answered once" in built.notes[0] and "toy_shapes" in built.notes[0]


def test_one_name_with_two_meanings_is_refused(toys: Any, tmp_path: Path):
    other = Path(toys.path("toy_sums")).read_text().replace("num_fewshot: 3", "num_fewshot: 2")
    (tmp_path / "toy_sums.yaml").write_text(other)
    with pytest.raises(UserError, match="toy_sums was asked for twice"):
        build(select([toys.path("toy_sums"), str(tmp_path / "toy_sums.yaml")]), (toys.data_root,))


def test_inline_tasks_with_an_include_relative_to_the_groups_file(toys: Any, tmp_path: Path):
    (tmp_path / "parts").mkdir()
    base = Path(toys.path("toy_shapes")).read_text().replace("task: toy_shapes\n", "").replace("tag: toy_tag\n", "")
    (tmp_path / "parts" / "base.yaml").write_text(base)
    (tmp_path / "team.yaml").write_text(
        "group: team\ntask:\n- task: hard\n  include: parts/base.yaml\n  dataset_name: colours\n  num_fewshot: 1\n"
    )
    built = build(select([str(tmp_path / "team.yaml")]), (toys.data_root,))
    (task,) = built.tasks
    assert task.name == "team::hard" and rows_of(built) == [("team::hard", ["team::hard"], "task")]
    task.set_fewshot(None, 1)
    (prompt,) = task.prompts(1, Chat())
    assert prompt.arguments[0][0].count("colour") == 2 and len(task.docs) == 5


def test_a_function_beside_the_file(tmp_path: Path):
    (tmp_path / "toy" / "f").mkdir(parents=True)
    (tmp_path / "toy" / "f" / "test.jsonl").write_text("".join(json.dumps({"q": str(i)}) + "\n" for i in range(4)))
    (tmp_path / "helpers_of_f.py").write_text(
        "def even(docs):\n    return docs.filter(lambda doc: int(doc['q']) % 2 == 0)\n"
    )
    text = (
        "task: f\ndataset_path: toy/f\ntest_split: test\noutput_type: generate_until\ndoc_to_text: '{{q}}'\n"
        "doc_to_target: '{{q}}'\nprocess_docs: !function helpers_of_f.even\ngeneration_kwargs: {until: ['x']}\n"
    )
    (tmp_path / "f.yaml").write_text(text)
    (task,) = build(select([str(tmp_path / "f.yaml")]), (tmp_path,)).tasks
    assert [doc["q"] for doc in task.docs] == ["0", "2"]
    (tmp_path / "f.yaml").write_text(text.replace("helpers_of_f.even", "helpers_of_f.odd"))
    with pytest.raises(UserError, match="f.yaml.*no function 'odd'"):
        build(select([str(tmp_path / "f.yaml")]), (tmp_path,))


def test_a_process_that_shuffles_is_asked_once(tmp_path: Path):
    """Asked twice it would give other documents to the prompts than to the grading."""
    (tmp_path / "toy" / "s").mkdir(parents=True)
    (tmp_path / "toy" / "s" / "test.jsonl").write_text("".join(json.dumps({"q": str(i)}) + "\n" for i in range(40)))
    (tmp_path / "mixed_up.py").write_text(
        "import random\n\ndef mix(docs):\n    order = list(range(len(docs)))\n    random.shuffle(order)\n"
        "    return docs.select(order)\n"
    )
    (tmp_path / "s.yaml").write_text(
        "task: s\ndataset_path: toy/s\ntest_split: test\noutput_type: generate_until\ndoc_to_text: '{{q}}'\n"
        "doc_to_target: '{{q}}'\nprocess_docs: !function mixed_up.mix\ngeneration_kwargs: {until: ['x']}\n"
    )
    first, second = (build(select([str(tmp_path / "s.yaml")]), (tmp_path,)).tasks[0] for _ in range(2))
    assert first.docs == second.docs and [doc["q"] for doc in first.docs] != [str(i) for i in range(40)]
    first.set_fewshot(None, 1)
    assert [p.arguments[0][0] for p in first.prompts(40, Chat())] == [doc["q"] for doc in first.docs]


@pytest.mark.parametrize(("line", "match"), [("unsafe_code: true", "code that the model wrote"),
                                             ("doc_to_image: [q]", "images or audio")])  # fmt: skip
def test_tasks_that_are_not_for_us(toys: Any, tmp_path: Path, line: str, match: str):
    (tmp_path / "x.yaml").write_text(Path(toys.path("toy_sums")).read_text() + line + "\n")
    with pytest.raises(UserError, match=match):
        build(select([str(tmp_path / "x.yaml")]), (toys.data_root,))


def test_building_leaves_the_harness_as_it_was(toys: Any):
    import logging

    import datasets

    level = logging.getLogger("lm_eval").level
    plain = datasets.load_dataset
    build(select([toys.path("toy_mc")]), (toys.data_root,))
    assert logging.getLogger("lm_eval").level == level and datasets.load_dataset is plain
    assert not datasets.are_progress_bars_disabled()


def test_the_demo():
    built = build(select(["demo"]), data_roots(None))
    assert [row.name for row in built.rows] == ["demo_knowledge", "demo_words", "demo_maths"]
    assert all(task.source == "evalcard" and task.docs for task in built.tasks)
