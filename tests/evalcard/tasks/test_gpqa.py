"""Case 55: options in an order that depends on the item alone, and golds that follow it."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import datasets
import pytest

from evalcard.errors import UserError
from evalcard.tasks.gpqa import process_docs, shuffled


def rows(count: int) -> list[dict[str, Any]]:
    return [
        {
            "Record ID": f"rec{i}",
            "Question": f" What is {i} times 3? \n",
            "Correct Answer": f"{3 * i}",
            "Incorrect Answer 1": f" {3 * i + 1}\n",
            "Incorrect Answer 2": f"{3 * i + 2}",
            "Incorrect Answer 3": f"-{3 * i + 3}",
        }
        for i in range(count)
    ]


def made(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list(process_docs(datasets.Dataset.from_list(given)))


def test_the_gold_letter_follows_the_order():
    for i, doc in enumerate(made(rows(50))):
        assert doc["question"] == f"What is {i} times 3?"
        assert doc["choices"]["ABCD".index(doc["answer"])] == f"{3 * i}"
        assert sorted(doc["choices"]) == sorted([f"{3 * i}", f"{3 * i + 1}", f"{3 * i + 2}", f"-{3 * i + 3}"])


def test_letters_are_about_equally_frequent():
    """Of 2000 items a letter has 500 +- 19; five standard deviations are allowed."""
    counts = Counter(doc["answer"] for doc in made(rows(2000)))
    assert set(counts) == set("ABCD") and all(abs(count - 500) < 97 for count in counts.values())


def test_every_order_of_four_occurs():
    orders = Counter(tuple(shuffled(f"q{i}", ["a", "b", "c", "d"])) for i in range(2400))
    assert len(orders) == 24 and all(50 < count < 150 for count in orders.values())


def test_an_item_is_the_same_whatever_else_there_is():
    """Fewer items, other items before it, columns in another order, a second call: one order."""
    all_docs = made(rows(30))
    assert made(rows(30)) == all_docs
    assert made(rows(30)[7:9]) == all_docs[7:9]
    turned = [dict(reversed(row.items())) for row in rows(30)]
    assert made(turned) == all_docs
    assert shuffled("q", ["a", "b", "c", "d"]) == [("a", "b", "c", "d").index(one) for one in _shown("q", "dcba")]


def _shown(question: str, options: str) -> list[str]:
    return [options[index] for index in shuffled(question, list(options))]


def test_the_order_is_fixed():
    """A changed order changes prompts, and then scores cannot be compared with stored ones."""
    assert "".join(doc["answer"] for doc in made(rows(12))) == "DDBABDACDCDD"


def test_missing_columns_and_empty_cells():
    without = [{key: value for key, value in row.items() if key != "Incorrect Answer 2"} for row in rows(2)]
    with pytest.raises(UserError, match="no column 'Incorrect Answer 2'; they have Record ID, Question"):
        made(without)
    with pytest.raises(UserError, match="position 1 has no text under 'Correct Answer'"):
        made([rows(2)[0], rows(2)[1] | {"Correct Answer": " "}])
    with pytest.raises(UserError, match="position 0 has no text under 'Question'"):
        made([rows(1)[0] | {"Question": None}])


def test_the_task_as_it_ships(tmp_path: Path):
    from evalcard.tasks.build import build
    from evalcard.tasks.files.select import select
    from evalcard.tasks.prompts.requests import Chat

    folder = tmp_path / "Idavidrein" / "gpqa" / "gpqa_diamond"
    folder.mkdir(parents=True)
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(6)))
    (task,) = build(select(["gpqa_diamond"]), (tmp_path,)).tasks
    assert task.docs == made(rows(6)) and task.judge is not None and task.judge.name == "choice"
    assert [task.target(position) for position in range(6)] == [doc["answer"] for doc in task.docs]
    task.set_fewshot(None, 1)
    (prompt,) = task.prompts([4], Chat())
    context, arguments = prompt.arguments[0]
    shown = "\n".join(f"{letter}. {text}" for letter, text in zip("ABCD", task.docs[4]["choices"], strict=True))
    assert context.endswith(f"\n\nQuestion:\nWhat is 4 times 3?\n\n{shown}") and "Answer: X" in context
    assert arguments["until"] == ["\nQuestion:\n"] and arguments["max_gen_toks"] == 32768
