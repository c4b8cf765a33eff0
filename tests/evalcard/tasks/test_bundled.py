"""The task files that ship: they build, their documents are whole, their golds can be met, their prompts are known."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalcard.resources import task_files
from evalcard.tasks.build import Built, build
from evalcard.tasks.data.roots import data_roots
from evalcard.tasks.files.catalog import our_catalog
from evalcard.tasks.files.select import select
from evalcard.tasks.prompts.decoding import decoding_of
from evalcard.tasks.prompts.requests import Chat

DATA = os.environ.get("EVALCARD_TEST_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="EVALCARD_TEST_DATA names no data root")
PLAIN = Chat()


def built(*names: str) -> Built:
    return build(select(names), (Path(str(DATA)), *data_roots(None)))


def texts(task: Any, shots: int | None, positions: range | None = None) -> list[Any]:
    task.set_fewshot(shots, 1234)
    return [prompt.arguments for prompt in task.prompts(positions or range(len(task.docs)), PLAIN)]


def test_every_file_ships_and_states_a_version():
    paths = list(task_files().glob("**/*.yaml"))
    assert {Path(file.path).name for file in our_catalog().values() if file.path} == {
        path.name for path in paths if path.name != "template.yaml"
    }
    for path in paths:
        # the function's tag is of no interest here
        config = yaml.safe_load(path.read_text().replace("!function ", ""))
        assert config["metadata"]["version"] == 1.0, path


def test_the_template_works_as_it_stands_and_names_every_setting(tmp_path: Path):
    from evalcard.tasks.files.settings import SETTINGS

    text = (task_files() / "template.yaml").read_text()
    copy = tmp_path / "mine.yaml"
    copy.write_text(text)
    (task,) = build(select([str(copy)]), data_roots(None)).tasks
    assert task.name == "my_task" and task.docs and task.judge is not None and task.judge.name == "number"
    assert all(f"{key}: " in text for key in SETTINGS)
    (prompt,) = texts(task, None, range(1))
    assert prompt[0][0] == f"Work out each result.\n\nQuestion: {task.docs[0]['question']}\nAnswer:"
    for key in ("doc_to_choice", "fewshot_split", "id_field", "process_docs"):
        assert f"# {key}: " in text or f"#   {key}: " in text


def write_rows(folder: Path, **splits: list[dict[str, Any]]) -> None:
    folder.mkdir(parents=True)
    for split, rows in splits.items():
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def small_root(tmp_path: Path) -> Path:
    gpqa = {"Question": "Q?", "Correct Answer": "r", **{f"Incorrect Answer {i}": f"w{i}" for i in (1, 2, 3)}}
    write_rows(tmp_path / "Idavidrein" / "gpqa" / "gpqa_diamond", train=[gpqa])
    write_rows(tmp_path / "HuggingFaceH4" / "aime_2024", train=[{"problem": "P?", "answer": "073"}])
    write_rows(tmp_path / "HuggingFaceH4" / "MATH-500", test=[{"problem": "M?", "answer": "[2,5)"}])
    return tmp_path


def test_reasoning_is_three_tasks_of_one_category_sampled_four_times(small_root: Path):
    found = build(select(["reasoning"]), (small_root,))
    assert [row.name for row in found.rows] == ["aime24", "math500", "gpqa_diamond"]
    assert all(row.rule == "task" for row in found.rows)
    for task in found.tasks:
        assert (task.settings["category"], task.repeats, task.source) == ("Reasoning", 4, "evalcard")
        decoding = decoding_of(task.name, task.generation, None, None, 1)
        assert (decoding.temperature, decoding.top_p, decoding.max_tokens) == (0.6, 0.95, 32768)
        assert decoding.until == ("\nProblem:\n", "\nQuestion:\n")
    assert [task.settings["chance"] for task in found.tasks] == [0.0, 0.0, 0.25]


def test_alone_they_are_greedy_and_answered_once(small_root: Path):
    found = build(select(["aime24", "math500", "gpqa_diamond"]), (small_root,))
    assert [task.repeats for task in found.tasks] == [1, 1, 1]
    assert [decoding_of("t", task.generation, None, None, 1).is_greedy for task in found.tasks] == [True] * 3
    assert [task.settings["category"] for task in found.tasks] == ["Maths", "Maths", "Knowledge"]


def test_a_stated_zero_of_worked_examples_stays(small_root: Path):
    """Case 175: the prompts are written for none, so the flag is not applied, and that is said."""
    (task,) = build(select(["math500"]), (small_root,)).tasks
    said = task.set_fewshot(5, 1234)
    assert task.num_fewshot == 0 and said is not None and "--num-fewshot 5 is not applied" in said


def test_golds_are_texts_as_the_data_has_them(small_root: Path):
    """A template would turn "[2,5)"'s closed cousins into lists, and drop the zero of 073."""
    write_rows(small_root / "more" / "HuggingFaceH4" / "MATH-500", test=[{"problem": "M?", "answer": "[2,5]"}])
    (listed,) = build(select(["math500"]), (small_root / "more",)).tasks
    aime, maths = build(select(["aime24", "math500"]), (small_root,)).tasks
    assert [task.target(0) for task in (aime, maths, listed)] == ["073", "[2,5)", "[2,5]"]


def test_a_stop_string_is_the_heading_of_the_next_question_and_no_more(small_root: Path):
    """A base model that goes on is stopped where the next problem begins; a solution may still say 'Problem: ...'."""
    for task in build(select(["aime24", "math500", "gpqa_diamond"]), (small_root,)).tasks:
        ((context, arguments),) = texts(task, None, range(1))[0]
        (stop,) = arguments["until"]
        assert context.count(stop) == 1 and stop not in "The Problem: find x.\nProblem: as above\n**Problem:**\n"


@needs_data
class TestRealData:
    @pytest.mark.parametrize(("name", "count"), [("gsm8k", 1319), ("math500", 500), ("aime24", 30)])
    def test_documents_and_golds(self, name: str, count: int):
        (task,) = built(name).tasks
        golds = [task.target(position) for position in range(len(task.docs))]
        assert len(golds) == count and all(isinstance(gold, str) and gold.strip() for gold in golds)
        if task.judge is not None:
            assert [why for gold in golds if (why := task.judge.check_gold(gold))] == []

    def test_mmlu_is_the_harness_mmlu_with_five_shots(self):
        """Case 122: one row, weighted by size; every one of the 14042 prompts is the harness's."""
        ours, harness = built("mmlu"), built("lm_eval/mmlu")
        assert [(row.name, row.rule, len(row.tasks)) for row in ours.rows] == [("mmlu", "size", 57)]
        assert [task.name for task in ours.tasks] == [task.name for task in harness.tasks]
        for one, other in zip(ours.tasks, harness.tasks, strict=True):
            assert texts(one, None) == texts(other, 5), one.name
            assert (one.num_fewshot, one.preferred[0]) == (5, "acc")
        assert sum(len(task.docs) for task in ours.tasks) == 14042

    def test_the_four_groups_and_a_subject_alone_are_those_of_mmlu(self):
        """Case 122: the groups' sizes by which a mean would be weighted."""
        groups = [f"mmlu_{name}" for name in ("stem", "other", "social_sciences", "humanities")]
        found = built("mmlu", *groups, "mmlu_anatomy")
        assert [row.name for row in found.rows] == ["mmlu", *groups, "mmlu_anatomy"] and len(found.tasks) == 57
        size = {task.name: len(task.docs) for task in found.tasks}
        assert {row.name: sum(size[name] for name in row.tasks) for row in found.rows} == {
            "mmlu": 14042, "mmlu_stem": 3153, "mmlu_other": 3107, "mmlu_social_sciences": 3077,
            "mmlu_humanities": 4705, "mmlu_anatomy": 135,
        }  # fmt: skip

    def test_mmlu_generative_asks_what_the_harness_asks_and_is_judged_by_letter(self):
        ours, harness = built("mmlu_generative"), built("lm_eval/mmlu_generative")
        assert [(row.name, row.rule, len(row.tasks)) for row in ours.rows] == [("mmlu_generative", "size", 57)]
        for one, other in zip(ours.tasks, harness.tasks, strict=True):
            assert one.name == other.name and texts(one, None, range(3)) == texts(other, 5, range(3))
            assert one.judge is not None and (one.judge.name, one.settings["chance"]) == ("choice", 0.25)
            assert one.preferred == ("exact_match", "choice")
            assert {one.target(position) for position in range(len(one.docs))} <= set("ABCD")
        assert sum(len(task.docs) for task in ours.tasks) == 14042

    def test_gsm8k_is_the_harness_own(self):
        (task,) = built("gsm8k").tasks
        assert (task.source, task.num_fewshot, task.judge) == ("lm_eval", 5, None)
        assert task.filters == ["strict-match", "flexible-extract"]

    def test_the_question_of_math500(self):
        (task,) = built("math500").tasks
        assert texts(task, None, range(1))[0][0][0] == (
            "Solve this problem. Show how you get there, then state the final answer once, inside \\boxed{}.\n\n"
            f"Problem:\n{task.docs[0]['problem']}\n\nSolution:"
        )
