"""Groups, tags, inline tasks, rows; what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.tasks.build import build
from evalcard.tasks.data.roots import MissingData, data_roots
from evalcard.tasks.files.select import select
from evalcard.tasks.prompts.requests import Chat


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
    (prompt,) = task.prompts([0], Chat())
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
    (task,) = build(select([str(tmp_path / "f.yaml")]), (tmp_path,), trust=True).tasks
    assert [doc["q"] for doc in task.docs] == ["0", "2"]
    (tmp_path / "f.yaml").write_text(text.replace("helpers_of_f.even", "helpers_of_f.odd"))
    with pytest.raises(UserError, match="f.yaml.*no function 'odd'"):
        build(select([str(tmp_path / "f.yaml")]), (tmp_path,), trust=True)


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
    first, second = (build(select([str(tmp_path / "s.yaml")]), (tmp_path,), trust=True).tasks[0] for _ in range(2))
    assert first.docs == second.docs and [doc["q"] for doc in first.docs] != [str(i) for i in range(40)]
    first.set_fewshot(None, 1)
    assert [p.arguments[0][0] for p in first.prompts(range(40), Chat())] == [doc["q"] for doc in first.docs]


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


def choice_file(folder: Path, toys: Any, name: str, *changes: str) -> Path:
    """A copy of the toy task of shapes under another name, with more keys."""
    text = Path(toys.path("toy_shapes")).read_text().replace("task: toy_shapes", f"task: {name}")
    path = folder / f"{name}.yaml"
    path.write_text(text.replace("tag: toy_tag\n", "") + "".join(f"{line}\n" for line in changes))
    return path


def docs_file(folder: Path, docs: list[dict[str, Any]], text: str = "", name: str = "t") -> Path:
    """A task over documents with the columns q and a, answered in text; ``text`` is added to its file."""
    (folder / "toy" / name).mkdir(parents=True)
    (folder / "toy" / name / "test.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    path = folder / f"{name}.yaml"
    path.write_text(
        f"task: {name}\ndataset_path: toy/{name}\ntest_split: test\noutput_type: generate_until\n"
        + ("" if "doc_to_text" in text else "doc_to_text: '{{q}}'\n")
        + f"doc_to_target: a\ngeneration_kwargs: {{until: ['x']}}\n{text}"
    )
    return path


DOCS = [{"id": f"law-{i}", "q": f"question {i}", "a": str(i)} for i in range(12, 16)]


class TestGroups:
    def test_include_of_the_folder_above_and_values_that_override_it(self, toys: Any, tmp_path: Path):
        """Case 173: no tag or group key, inline tasks, a relative include; the task's own values win."""
        (tmp_path / "deep").mkdir()
        base = choice_file(tmp_path, toys, "base").read_text().replace("task: base\n", "")
        (tmp_path / "_template.yaml").write_text(base)
        (tmp_path / "deep" / "alone.yaml").write_text("include: ../_template.yaml\ntask: alone\nnum_fewshot: 1\n")
        (tmp_path / "deep" / "team.yaml").write_text(
            "group: team\ntask:\n- task: more\n  include: ../_template.yaml\n  dataset_name: colours\n"
            "aggregate_metric_list:\n- metric: acc\n"
        )
        (alone,) = build(select([str(tmp_path / "deep" / "alone.yaml")]), (toys.data_root,)).tasks
        assert (alone.name, alone.num_fewshot, len(alone.docs)) == ("alone", 1, 9)
        built = build(select([str(tmp_path / "deep" / "team.yaml")]), (toys.data_root,))
        assert [(task.name, task.num_fewshot, len(task.docs)) for task in built.tasks] == [("team::more", 2, 5)]
        assert rows_of(built) == [("team", ["team::more"], "size")]

    def test_a_tag_with_values_of_its_own_in_a_groups_list(self, toys: Any, tmp_path: Path):
        """The harness would name both tasks after the tag."""
        for name in ("one", "two"):
            choice_file(tmp_path, toys, name, "tag: mine")
        (tmp_path / "team.yaml").write_text("group: team\ntask:\n- task: mine\n  num_fewshot: 0\n")
        built = build(select([str(tmp_path / "team.yaml")]), (toys.data_root,))
        assert [(task.name, task.num_fewshot) for task in built.tasks] == [("one", 0), ("two", 0)]

    def test_a_group_with_values_of_its_own_in_a_groups_list(self, toys: Any, tmp_path: Path):
        choice_file(tmp_path, toys, "one")
        (tmp_path / "inner.yaml").write_text("group: inner\ntask: [one]\nnum_fewshot: 1\n")
        (tmp_path / "outer.yaml").write_text("group: outer\ntask:\n- task: inner\n  num_fewshot: 0\n")
        (task,) = build(select([str(tmp_path / "outer.yaml")]), (toys.data_root,)).tasks
        assert (task.name, task.num_fewshot) == ("one", 0)

    def test_a_name_that_there_is_not(self, toys: Any, tmp_path: Path):
        choice_file(tmp_path, toys, "shapes_of_things")
        (tmp_path / "team.yaml").write_text("group: team\ntask: [shape_of_things]\n")
        with pytest.raises(UserError, match=r"team\.yaml\) lists 'shape_of_things'.*did you mean shapes_of_things"):
            build(select([str(tmp_path / "team.yaml")]), (toys.data_root,))

    def test_what_it_says_to_evalcard_holds_for_its_tasks(self, toys: Any, tmp_path: Path):
        choice_file(tmp_path, toys, "plain")
        choice_file(tmp_path, toys, "own", "metadata: {version: 7.0, evalcard: {category: Mine, chance: 0.1}}")
        text = (tmp_path / "own.yaml").read_text().replace("metadata:\n  version: 1.0\n", "")
        (tmp_path / "own.yaml").write_text(text)
        (tmp_path / "team.yaml").write_text(
            "group: team\ntask: [plain, own]\nmetadata: {version: 3.0, evalcard: {category: Team, note: said once}}\n"
        )
        built = build(select([str(tmp_path / "team.yaml")]), (toys.data_root,))
        assert [task.settings for task in built.tasks] == [
            {"category": "Team", "note": "said once"},
            {"category": "Team", "chance": 0.1, "note": "said once"},
        ]
        assert [task.version for task in built.tasks] == ["1.0", "7.0"]
        assert built.notes == ("plain: said once", "own: said once")

    def test_files_that_are_reached_only_by_name_are_checked_too(self, toys: Any, tmp_path: Path):
        leaf = choice_file(tmp_path, toys, "leaf", "num_fewshots: 3")
        (tmp_path / "team.yaml").write_text("group: team\ntask: [leaf]\n")
        with pytest.raises(UserError, match=r"leaf\.yaml, line \d+: unknown key 'num_fewshots'"):
            build(select([str(tmp_path / "team.yaml")]), (toys.data_root,))
        leaf.write_text(leaf.read_text().replace("num_fewshots: 3", "process_docs: !function os.system"))
        with pytest.raises(UserError, match=r"leaf\.yaml runs Python .*os\.system.*--trust-task-code"):
            build(select([str(tmp_path / "team.yaml")]), (toys.data_root,))

    @pytest.mark.parametrize(
        "text",
        ["task: [{task: gpqa_diamond_zeroshot, dataset_path: a/b}]\n",
         "task: [gpqa_diamond_zeroshot]\ndataset_path: a/b\n",
         "task: [{task: gpqa_diamond_zeroshot, unsafe_code: false}]\n"],
    )  # fmt: skip
    def test_functions_of_the_harness_meet_their_own_documents_only(self, tmp_path: Path, text: str):
        """Many of them evaluate what the documents hold."""
        (tmp_path / "team.yaml").write_text("group: team\n" + text)
        with pytest.raises(
            UserError, match=r"a group states .* for the task gpqa_diamond_zeroshot .*--trust-task-code"
        ):
            build(select([str(tmp_path / "team.yaml")]), (tmp_path,))

    def test_an_include_is_checked_where_it_is_looked_for(self, tmp_path: Path):
        """The list comes from another folder, which has a harmless file of the same name."""
        (tmp_path / "sub").mkdir()
        (tmp_path / "team.yaml").write_text("group: team\ninclude: sub/list.yaml\n")
        (tmp_path / "sub" / "list.yaml").write_text("task: [{task: x, include: inc.yaml, dataset_path: a/b}]\n")
        (tmp_path / "sub" / "inc.yaml").write_text("num_fewshot: 0\n")
        (tmp_path / "inc.yaml").write_text("doc_to_text: !function utils.f\n")
        (tmp_path / "utils.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef f(doc): return ''\n")
        with pytest.raises(UserError, match=r"inc\.yaml runs Python .*utils\.f.*--trust-task-code"):
            build(select([str(tmp_path / "team.yaml")]), (tmp_path,))
        assert not (tmp_path / "ran").exists()


class TestSettings:
    @pytest.mark.parametrize(
        ("settings", "match"),
        [("{chance: 1.5}", "chance:' must be a number from 0 to 1.*1.5"), ("{chance: true}", "must be a number"),
         ("{category: ''}", "category:' must be text"), ("{judge: [math]}", "judge:' must be text"),
         ("{judge: maths}", "task t: .*maths"), ("{note: 3}", "note:' must be text"),
         ("[judge, math]", "must hold keys such as"), ("{id_field: nr}", "no column 'nr'.*its columns: id, q, a")],
    )  # fmt: skip
    def test_what_is_none(self, tmp_path: Path, settings: str, match: str):
        path = docs_file(tmp_path, DOCS, f"metadata: {{evalcard: {settings}}}\n")
        with pytest.raises(UserError, match=match):
            build(select([str(path)]), (tmp_path,))

    def test_a_judge_and_ids(self, tmp_path: Path):
        path = docs_file(tmp_path, DOCS, "metadata: {evalcard: {judge: number, id_field: id}}\n")
        (task,) = build(select([str(path)]), (tmp_path,)).tasks
        assert task.judge is not None and task.judge.name == "number"
        assert task.item_ids == [doc["id"] for doc in DOCS] and task.position("law-14") == 2

    def test_a_judge_of_answers_that_are_not_written(self, toys: Any, tmp_path: Path):
        path = choice_file(tmp_path, toys, "c", "metadata: {evalcard: {judge: choice}}")
        path.write_text(path.read_text().replace("metadata:\n  version: 1.0\n", ""))
        with pytest.raises(UserError, match="judge choice compares generated answers.*multiple_choice"):
            build(select([str(path)]), (toys.data_root,))

    def test_an_id_that_two_documents_have(self, tmp_path: Path):
        path = docs_file(tmp_path, [*DOCS, DOCS[1] | {"q": "again"}], "metadata: {evalcard: {id_field: id}}\n")
        with pytest.raises(UserError, match="first 'law-13' at positions 1, 4"):
            build(select([str(path)]), (tmp_path,))

    def test_an_id_that_is_none(self, tmp_path: Path):
        path = docs_file(tmp_path, [*DOCS, {"id": None, "q": "x", "a": "y"}], "metadata: {evalcard: {id_field: id}}\n")
        with pytest.raises(UserError, match="position 4 has the id None"):
            build(select([str(path)]), (tmp_path,))

    def test_one_task_with_two_judges(self, tmp_path: Path):
        path = docs_file(tmp_path, DOCS, "metadata: {evalcard: {judge: number}}\n")
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "t.yaml").write_text(path.read_text().replace("number", "exact"))
        with pytest.raises(UserError, match="t was asked for twice with different definitions"):
            build(select([str(path), str(tmp_path / "other" / "t.yaml")]), (tmp_path,))


class TestDocuments:
    def test_a_task_without_any(self, tmp_path: Path):
        path = docs_file(tmp_path, DOCS, "process_docs: !function keep.none\n")
        (tmp_path / "keep.py").write_text("def none(docs):\n    return docs.filter(lambda doc: False)\n")
        with pytest.raises(UserError, match="task t has no documents"):
            build(select([str(path)]), (tmp_path,), trust=True)

    def test_all_that_is_missing_is_said_at_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        for name in ("one", "two"):
            path = docs_file(tmp_path, DOCS, name=name)
            path.write_text(path.read_text().replace("toy/", "nowhere/"))
        docs_file(tmp_path, DOCS, name="here")
        names = [str(tmp_path / f"{name}.yaml") for name in ("one", "here", "two")]
        with pytest.raises(MissingData) as error:
            build(select(names), (tmp_path,))
        assert error.value.dataset_ids == ("nowhere/one", "nowhere/two")

    def test_a_group_whose_subsets_are_missing(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        with pytest.raises(MissingData) as error:
            build(select(["mmlu_stem"]), (tmp_path,))
        assert len(error.value.lacks) == 19 and error.value.dataset_ids == ("cais/mmlu",)

    def test_only_the_last_data_set_of_an_include_chain_is_touched(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """Case 143: the included file's own data set is somewhere else, and nobody asks for it."""
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        path = docs_file(tmp_path, DOCS, name="base")
        path.write_text(path.read_text().replace("toy/base", "someone/elses"))
        (tmp_path / "redux.yaml").write_text("include: base.yaml\ntask: redux\ndataset_path: toy/base\n")
        (task,) = build(select([str(tmp_path / "redux.yaml")]), (tmp_path,)).tasks
        assert [doc["q"] for doc in task.docs] == [doc["q"] for doc in DOCS]
        (tmp_path / "redux.yaml").write_text("include: base.yaml\ntask: redux\ndataset_path: toy/gone\n")
        with pytest.raises(MissingData, match="toy/gone") as error:
            build(select([str(tmp_path / "redux.yaml")]), (tmp_path,))
        assert "someone/elses" not in str(error.value) and "--prefetch redux" in str(error.value)

    def test_a_data_file(self, tmp_path: Path):
        path = tmp_path / "invoices.jsonl"
        path.write_text('{"question": "1 + 1?", "answer": "2"}\n{"question": "2 + 5?", "answer": "7"}\n')
        built = build(select([f"{path}:number"]), ())
        (task,) = built.tasks
        assert (task.name, task.source, len(task.docs)) == ("invoices", "file", 2)
        assert task.judge is not None and task.judge.name == "number" and rows_of(built)[0][2] == "task"


def test_a_task_of_our_groups_alone_and_the_harness_by_force(tmp_path: Path):
    folder = tmp_path / "cais" / "mmlu" / "anatomy"
    folder.mkdir(parents=True)
    for split in ("dev", "test"):
        rows = [{"question": f"{split} {i}?", "choices": ["a", "b", "c", "d"], "answer": i % 4} for i in range(6)]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    built = build(select(["mmlu_anatomy"]), (tmp_path,))
    assert built.tasks[0].num_fewshot == 5 and "num_fewshot 5" in built.notes[0] and "mmlu_stem" in built.notes[0]
    built.tasks[0].set_fewshot(2, 1)
    assert built.tasks[0].num_fewshot == 2  # --num-fewshot wins
    forced = build(select(["lm_eval/mmlu_anatomy"]), (tmp_path,))
    assert forced.tasks[0].num_fewshot == 0 and forced.notes == ()
