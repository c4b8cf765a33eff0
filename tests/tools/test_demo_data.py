"""The demo's generators: repeatable, disjoint from what is tested, and right."""

import json
import random
import re
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from demo import corpus, stories, sums, world  # noqa: E402
from demo.held_out import is_held_out  # noqa: E402

MODEL = ROOT / "evalcard" / "demo" / "model"
ITEMS = ROOT / "tasks" / "data" / "evalcard" / "demo"
SHAPES = {"words": r"(?s).*#### (\d+)", "maths": r"(?s).*\\boxed\{(\d+)\}"}


def stored(task: str) -> list[dict]:
    return [json.loads(line) for line in (ITEMS / task / "test.jsonl").read_text().splitlines()]


def test_chunk_depends_on_its_index_alone():
    assert corpus.chunk(3) == corpus.chunk(3)
    assert corpus.chunk(3) != corpus.chunk(4)


@pytest.mark.parametrize("task", corpus.TESTS)
def test_committed_items_are_what_the_generator_makes(task):
    assert (ITEMS / task / "test.jsonl").read_text() == corpus.rows(task)


@pytest.mark.parametrize("task", corpus.TESTS)
def test_items_are_distinct(task):
    rows = stored(task)
    assert len(rows) == corpus.NUM_ITEMS
    assert len({row["id"] for row in rows}) == len({row["question"] for row in rows}) == len(rows)


@pytest.mark.parametrize("task", corpus.TESTS)
def test_validation_and_test_share_no_key(task):
    tested = {example.key for example in corpus.held_out(task, corpus.NUM_ITEMS)}
    assert tested.isdisjoint(example.key for example in corpus.validation(task, 100))


def test_training_never_draws_what_is_held_out():
    examples = [example for index in range(6) for example in corpus.chunk(index)]
    assert {example.task for example in examples} == set(corpus.TESTS)
    for example in examples:
        if example.task != "knowledge":
            assert not is_held_out(example.key)
        elif example.question:
            assert example.key[2] != world.held_out_form(*example.key[:2])


def test_proof_counts_every_example():
    counts = corpus.prove_unseen(2)
    assert counts["test keys"] == counts["test questions"] == 3 * corpus.NUM_ITEMS
    assert sum(count for what, count in counts.items() if what.startswith("trained")) == 2 * corpus.CHUNK


@pytest.mark.parametrize("task", ["words", "maths"])
def test_gold_answers_are_the_worked_ones(task):
    for row in stored(task):
        *steps, _ = row["worked"].splitlines()
        for step in steps:
            left, operator, right, result = re.fullmatch(r"(\d+) ([-+*/]) (\d+) = (\d+)", step).groups()
            recomputed = {
                "+": int(left) + int(right),
                "-": int(left) - int(right),
                "*": int(left) * int(right),
                "/": int(left) / int(right),
            }
            assert recomputed[operator] == int(result)
        assert re.fullmatch(SHAPES[task], row["worked"])[1] == row["answer"] == result


def test_expressions_have_the_value_the_item_says():
    asked = [(re.fullmatch(r"(?:What is|Compute) ([-+*() \d]+)[?.]", row["question"]), row) for row in stored("maths")]
    plain = [(match[1], row) for match, row in asked if match]
    assert len(plain) > corpus.NUM_ITEMS / 3
    for expression, row in plain:
        assert str(eval(expression)) == row["answer"], row


def test_equations_hold():
    equations = [
        (match[1], row)
        for row in stored("maths")
        if (match := re.fullmatch(r"(?:Solve|What is x if) (.+ = \d+)[.?]", row["question"]))
    ]
    assert len(equations) > corpus.NUM_ITEMS / 6
    for equation, row in equations:
        left, right = re.sub(r"(\d)x", r"\1 * x", equation).split(" = ")
        assert eval(left, {"x": int(row["answer"])}) == int(right), row


def test_knowledge_answers_are_the_facts():
    by_question = {example.question: example for example in corpus.held_out("knowledge", corpus.NUM_ITEMS)}
    for row in stored("knowledge"):
        who, relation, _ = by_question[row["question"]].key
        assert len(set(row["choices"])) == 4
        assert row["choices"][row["answer"]] == world.fact(who, relation)


def test_every_question_form_is_trained_for_somebody():
    rng = random.Random(0)
    forms = {world.draw_question(rng).key[1:] for _ in range(5000)}
    assert forms == {
        (relation, form) for relation, questions in world.QUESTIONS.items() for form in range(len(questions))
    }


@pytest.mark.parametrize("puzzle", stories.PUZZLES + sums.PUZZLES, ids=lambda puzzle: puzzle.name)
def test_puzzles_stay_in_range(puzzle):
    rng = random.Random(1)
    for held_out in (False, True):
        for _ in range(50):
            solved = puzzle.draw(rng, held_out)
            assert is_held_out(solved.key) == held_out
            assert all(0 <= number <= puzzle.largest for number in solved.numbers.values())
            assert solved == puzzle.solve(solved.key)


def test_every_word_and_digit_of_the_items_is_one_token():
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    for task in corpus.TESTS:
        for example in corpus.held_out(task, corpus.NUM_ITEMS):
            text = example.prompt + example.continuation
            encoded = tokenizer.encode(text)
            assert tokenizer.decode(encoded.ids) == text
            pieces = re.findall(r"\\\w+\{| [-+*/=] | ?[A-Za-z]+|\d|[^\s\w]+|\s", text)
            assert [text[start:end] for start, end in encoded.offsets] == pieces


def test_anything_else_falls_back_to_bytes():
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    text = "Größe: 3 µm\t(naïve) 漢字 🙂"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_model_folder_is_small():
    assert sum(path.stat().st_size for path in MODEL.iterdir()) <= 12_000_000
