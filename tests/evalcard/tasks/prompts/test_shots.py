"""Worked examples: their number, never the item itself, fewer where a prompt does not fit."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.tasks.build import build
from evalcard.tasks.files.select import select
from evalcard.tasks.harness import HarnessTask
from evalcard.tasks.prompts.requests import Chat
from evalcard.tasks.prompts.shots import shots_wanted


@pytest.mark.parametrize(
    ("own", "asked", "number", "says"),
    [
        (8, 5, 5, "5 shots instead of its own 8"),
        (8, None, 8, None),
        (8, 8, 8, None),
        (8, 0, 0, "0 shots instead of its own 8"),
        (0, 5, 0, "zero-shot by its own definition, --num-fewshot 5 is not applied"),
        (0, 0, 0, None),
        (None, 5, 5, None),
        (None, None, 0, None),
    ],
)
def test_the_flag_wins_over_a_number_but_not_over_a_fixed_0(own: int | None, asked: int | None, number: int, says: Any):
    assert shots_wanted(own, asked) == (number, says)


@pytest.fixture
def task_of(tmp_path: Path) -> Callable[..., HarnessTask]:
    """A task over documents of its own; ``splits`` are the lines of YAML that name them."""

    def make(count: int, shots: int, splits: str) -> HarnessTask:
        (tmp_path / "toy" / "few").mkdir(parents=True)
        for split in ("train", "test", "validation"):
            docs = [{"q": f"{split}{i}", "a": f"a{i}"} for i in range(count)]
            (tmp_path / "toy" / "few" / f"{split}.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
        (tmp_path / "few.yaml").write_text(
            f"task: few\ndataset_path: toy/few\n{splits}\noutput_type: generate_until\ndescription: 'Instruction. '\n"
            f"doc_to_text: '{{{{q}}}}:'\ndoc_to_target: '{{{{a}}}}'\nnum_fewshot: {shots}\n"
            "generation_kwargs: {until: ['x']}\n"
        )
        (task,) = build(select([str(tmp_path / "few.yaml")]), (tmp_path,)).tasks
        task.set_fewshot(None, 1234)
        return task

    return make


def texts(task: HarnessTask, fits: Any = None) -> list[str]:
    return [one.arguments[0][0] for one in task.prompts(range(len(task.docs)), Chat(), fits)]


SAME_SPLIT = ["test_split: test", "test_split: test\nfewshot_split: test", "validation_split: validation",
              "validation_split: validation\nfewshot_split: validation"]  # fmt: skip


@pytest.mark.parametrize("splits", SAME_SPLIT)
def test_no_item_is_its_own_shot(task_of: Callable, splits: str):
    """Three documents, two shots: each prompt shows the two others once, and its own question once, at its end."""
    task = task_of(3, 2, splits)
    own = [doc["q"] for doc in task.docs]
    for question, text in zip(own, texts(task), strict=True):
        assert all(text.count(f"{one}:") == 1 for one in own) and text.endswith(f"{question}:")


@pytest.mark.parametrize("splits", SAME_SPLIT)
def test_too_few_documents_are_a_clear_error(task_of: Callable, splits: str):
    with pytest.raises(UserError, match="3 shots were asked for, but it has 3 documents to take them from"):
        texts(task_of(3, 3, splits))


def test_only_an_item_that_was_drawn_itself_gets_another_shot(task_of: Callable, monkeypatch: pytest.MonkeyPatch):
    """The task's own draws stay what they are in the harness, for this item's other shots and for all later items."""
    task = task_of(12, 4, "test_split: test")
    ours = texts(task)
    mended = list(task.mended_shots)
    monkeypatch.setattr("evalcard.tasks.prompts.shots._evaluated_split", lambda task: "none")
    theirs = texts(task)
    leaking = [i for i, text in enumerate(theirs) if text.count(f"test{i}:") == 2]
    assert leaking and leaking == mended
    for i, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        assert (one != other) is (i in leaking)
        shots, their_shots = one.split("\n\n")[:-1], other.split("\n\n")[:-1]
        assert len(set(shots)) == 4 and sum(a != b for a, b in zip(shots, their_shots, strict=True)) <= 1


def test_whole_shots_are_left_out_from_the_front_and_nothing_else_moves(task_of: Callable):
    task = task_of(9, 4, "test_split: test\nfewshot_split: train")
    whole = task.prompts(range(9), Chat())
    over = {2: 3, 5: 0}  # position: how many shots fit

    def fits(prompts: Any) -> list[bool]:
        return [p.arguments[0][0].count("train") <= over.get(p.position, 4) for p in prompts]

    short = task.prompts(range(9), Chat(), fits)
    assert [one.shots for one in short] == [None, None, 3, None, None, 0, None, None, None]
    for one, other in zip(short, whole, strict=True):
        text, full = one.arguments[0][0], other.arguments[0][0]
        shots = full.removeprefix("Instruction. ").split("\n\n")
        kept = shots[len(shots) - 1 - (4 if one.shots is None else one.shots) :]
        assert text == "Instruction. " + "\n\n".join(kept) and text.endswith(f"test{one.position}:")


def test_an_item_keeps_its_shots_whichever_others_are_asked_for(task_of: Callable):
    task = task_of(30, 3, "test_split: test\nfewshot_split: train")
    whole = task.prompts(range(30), Chat())
    assert len({one.arguments[0][0].rsplit("\n\n", 1)[0] for one in whole}) > 25
    parts = [task.prompts(range(start, 30, 3), Chat()) for start in (2, 0, 1)]
    assert sorted((one for part in parts for one in part), key=lambda one: one.position) == whole
    assert task.prompts([], Chat()) == [] and task.prompts([29], Chat()) == whole[29:]
    assert not task.mended_shots


def test_a_worked_example_is_rendered_once(task_of: Callable, monkeypatch: pytest.MonkeyPatch):
    task = task_of(6, 6, "test_split: test\nfewshot_split: train\nfewshot_config: {sampler: first_n}")
    plain, rendered = task.task.doc_to_text, []
    monkeypatch.setattr(task.task, "doc_to_text", lambda doc, *args: rendered.append(doc["q"]) or plain(doc, *args))
    whole = texts(task)
    assert sorted(rendered) == sorted({*rendered}) and len(rendered) == 12
    assert all(text.count("train") == 6 for text in whole) and "doc_to_target" not in vars(task.task)
    monkeypatch.setattr("evalcard.tasks.prompts.shots._RENDERED", ())
    assert texts(task) == whole and len(rendered) == 12 + 6 * 7
