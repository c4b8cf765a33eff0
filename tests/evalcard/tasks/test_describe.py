"""What a name means and what a model would be sent equal what a run resolves and sends."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.tasks.describe import Described, describe


def facts_of(described: Described) -> dict[str, Any]:
    return {task.name: task for task in described.tasks}


def test_a_generated_task(toys: Any):
    (facts,) = describe([toys.path("toy_sums")], data_root=str(toys.data_root)).tasks
    assert (facts.name, facts.source, facts.version, facts.documents) == ("toy_sums", "file", "3.0", 12)
    assert (facts.dataset, facts.subset, facts.split) == ("toy/sums", None, "test")
    assert facts.place == str(toys.data_root / "toy/sums")
    assert (facts.num_fewshot, facts.answers, facts.max_tokens, facts.repeats) == (3, "greedy", 24, 1)
    assert "Question:" in facts.stop_strings
    assert (facts.metric, facts.filter, facts.judge, facts.chance) == ("exact_match", "strict", None, 0)


def test_a_group(toys: Any):
    described = describe([toys.path("toy_mc")], data_root=str(toys.data_root))
    (row,) = described.rows
    assert row.rule == "size" and [task.documents for task in described.of(row)] == [5, 9]
    shapes = facts_of(described)["toy_shapes"]
    assert (shapes.subset, shapes.answers, shapes.max_tokens, shapes.stop_strings) == (
        "shapes", "choices scored by log-probability", None, ()
    )  # fmt: skip
    assert shapes.chance == 0.25 and not described.items


def test_several_names_in_one_text(toys: Any):
    described = describe([f"{toys.path('toy_sums')},{toys.path('toy_shapes')}"], data_root=str(toys.data_root))
    assert [row.name for row in described.rows] == ["toy_sums", "toy_shapes"]


def test_shots_as_asked(toys: Any):
    described = describe([toys.path("toy_sums")], data_root=str(toys.data_root), num_fewshot=1)
    assert described.tasks[0].num_fewshot == 1
    assert any("1 shots instead of its own 3" in note for note in described.notes)


@pytest.mark.parametrize("name", ["toy_sums", "toy_shapes", "toy_mc"])
@pytest.mark.parametrize("chat", [False, True])
def test_shown_prompts_are_those_of_a_run(toys: Any, tokenizer_folder: Path, toy_spec: Any, name: str, chat: bool):
    """First, middle and last item of the row: text, choices and numbers of tokens as prepare() makes them."""
    from evalcard.tasks.prepare import prepare

    shown = describe([toys.path(name)], check=True, tokenizer=str(tokenizer_folder), chat_template=chat,
                     data_root=str(toys.data_root)).items  # fmt: skip
    prepared = prepare(toy_spec(name, chat_template=chat, max_model_len=4096))
    items = [item for row in prepared.rows for task in row.tasks for item in prepared.items[task]]
    expected = [items[0], items[len(items) // 2], items[-1]]
    assert [(one.task, one.item_id) for one in shown] == [(one.task, one.item_id) for one in expected]
    for one, item in zip(shown, expected, strict=True):
        first = item.requests[0]
        if one.max_tokens is None:
            assert (one.prompt, one.prompt_tokens) == (first.context, len(first.context_ids))
            assert one.choices == tuple(request.continuation for request in item.requests)
            assert one.choice_tokens == tuple(len(request.continuation_ids) for request in item.requests)
        else:
            assert (one.prompt, one.prompt_tokens) == (first.prompt, len(first.prompt_ids))
            assert one.stop_strings == first.decoding.until and one.max_tokens == 24
    if chat:
        assert all("<|user|>" in one.prompt for one in shown)


def test_whole_texts(toys: Any, tokenizer_folder: Path):
    described = describe([toys.path("toy_texts")], check=True, tokenizer=str(tokenizer_folder),
                         data_root=str(toys.data_root))  # fmt: skip
    assert described.tasks[0].answers == "whole texts scored by log-probability"
    assert described.items[0].prompt == "" and described.items[0].choices[0].startswith("The circle is round.")


def test_golds_are_texts(toys: Any):
    shapes = describe([toys.path("toy_shapes")], check=True, data_root=str(toys.data_root)).items
    assert [one.golds for one in shapes] == [("A",), ("A",), ("A",)]  # items 0, 4 and 8
    sums = describe([toys.path("toy_sums")], check=True, data_root=str(toys.data_root)).items
    assert sums[0].golds == ("40 + 43 = 83\n#### 83",)


def test_a_row_of_two_items(tmp_path: Path):
    path = tmp_path / "few.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"Say {i}", "answer": str(i)}) + "\n" for i in range(2)))
    described = describe([str(path)], check=True)
    assert [(one.item_id, one.prompt, one.golds) for one in described.items] == [
        (0, "Say 0", ("0",)), (1, "Say 1", ("1",))
    ]  # fmt: skip


def test_a_data_file(tmp_path: Path):
    path = tmp_path / "own.csv"
    path.write_text("question,choices,answer,id\n" + "".join(f'q{i}?,"[""x"", ""y""]",B,n{i}\n' for i in range(7)))
    described = describe([str(path)], check=True)
    (facts,) = described.tasks
    assert (facts.name, facts.source, facts.dataset, facts.place) == ("own", "file", "own.csv", str(path.resolve()))
    assert (facts.documents, facts.metric, facts.chance, facts.category) == (7, "acc", 0.5, "Custom")
    assert [one.item_id for one in described.items] == ["n0", "n3", "n6"]
    assert described.items[0].choices == (" A", " B") and described.items[0].golds == ("B",)
    assert any("likeliest letter" in note for note in described.notes)


def test_long_prompts_are_shown(tmp_path: Path):
    path = tmp_path / "long.jsonl"
    path.write_text(json.dumps({"prompt": "word " * 5000, "answer": "x"}) + "\n")
    (item,) = describe([str(path)], check=True).items
    assert item.prompt_tokens > 5000


def test_a_template_needs_its_model(toys: Any):
    with pytest.raises(UserError, match="--tokenizer DIR"):
        describe([toys.path("toy_sums")], check=True, chat_template=True, data_root=str(toys.data_root))


def test_what_a_run_refuses_is_refused(tmp_path: Path):
    with pytest.raises(UserError, match="unknown task 'no_such_task'"):
        describe(["no_such_task"])
