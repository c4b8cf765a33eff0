"""Questions of stored answers, from the tasks' own documents."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalcard.progress import Silent
from evalcard.tasks.prompts.encode import hash_document
from evalcard.tasks.questions import question_of, read_questions


@pytest.fixture
def run_of(toys: Any, stored_run: Callable[..., Any]) -> Callable[..., Any]:
    """A record of a run of toy tasks, which says where its documents are."""

    def make(*names: str) -> Any:
        made = stored_run()
        for name in names:
            made.add(name, [1, 0], [0, 1])
        spec = {"tasks": [toys.path(name) for name in names], "data_root": str(toys.data_root), "baseline": "@demo"}
        return made.record().model_copy(update={"resolved": spec})

    return make


def documents(toys: Any, place: str) -> list[Any]:
    import json

    return [json.loads(line) for line in (toys.data_root / place / "test.jsonl").read_text().splitlines()]


def test_questions_come_without_worked_examples(run_of: Callable[..., Any], toys: Any):
    hashes = {item: hash_document(doc) for item, doc in enumerate(documents(toys, "toy/sums"))}
    found, missing = read_questions(run_of("toy_sums"), {"toy_sums": {3: hashes[3]}}, None, False, Silent())
    assert found == {"toy_sums": {3: "Question: What is 43 plus 46?\nAnswer:"}} and missing == []


def test_choices_are_part_of_the_question_where_the_task_puts_them_there(run_of: Callable[..., Any], toys: Any):
    hashes = {item: hash_document(doc) for item, doc in enumerate(documents(toys, "toy/choice/shapes"))}
    found, _ = read_questions(run_of("toy_shapes"), {"toy_shapes": {1: hashes[1]}}, None, False, Silent())
    said = "Which shape is number 1?\nA. square\nB. cube\nC. cone\nD. circle\nAnswer:"
    assert found["toy_shapes"][1] == said, "no description, no examples"


def test_a_document_that_changed_is_not_shown(run_of: Callable[..., Any], toys: Any):
    hashes = {item: hash_document(doc) for item, doc in enumerate(documents(toys, "toy/sums"))}
    wanted = {"toy_sums": {3: "of another document", 4: hashes[4], 999: "of none"}}
    found, missing = read_questions(run_of("toy_sums"), wanted, None, False, Silent())
    assert list(found["toy_sums"]) == [4]
    assert missing == ["the documents of 2 items of toy_sums changed since"]


def test_documents_that_cannot_be_had_are_a_reason_and_no_failure(run_of: Callable[..., Any], tmp_path: Path):
    (tmp_path / "empty").mkdir()
    found, (why,) = read_questions(run_of("toy_sums"), {"toy_sums": {3: "h"}}, str(tmp_path / "empty"), False, Silent())
    assert found == {} and "toy/sums" in why


def test_where_choices_are_the_beginnings_each_is_shown():
    class Task:
        def doc_to_text(self, doc: Any) -> int:
            return doc["answer"]

    class Winograd:
        name, item_ids, docs, task = "w", [0], [{"answer": 1}], Task()

        def choices(self, position: int) -> list[str]:
            return ["The cup, as the cup", "The cup, as the box"]

        def target(self, position: int) -> str:
            return "was too big."

    said = question_of(Winograd(), 0)  # type: ignore[arg-type]
    assert said == "The cup, as the cup was too big.\nThe cup, as the box was too big."
