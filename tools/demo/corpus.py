"""The endless training stream, the test items, and the proof that they do not meet."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from demo import stories, sums, world
from demo.example import Example

SEED = 2025
CHUNK = 2048
"""Examples a chunk; chunk i depends on (SEED, i) alone."""
NUM_ITEMS = 250

MIX: tuple[tuple[Callable[[random.Random], Example], int], ...] = (
    (world.draw_statement, 20),
    (world.draw_question, 25),
    (lambda rng: stories.draw(rng, held_out=False), 22),
    (lambda rng: sums.draw(rng, held_out=False), 33),
)
TESTS: dict[str, Callable[[random.Random], Example]] = {
    "knowledge": world.draw_test,
    "words": lambda rng: stories.draw(rng, held_out=True),
    "maths": lambda rng: sums.draw(rng, held_out=True),
}


def chunk(index: int) -> list[Example]:
    """Training examples [index * CHUNK, (index + 1) * CHUNK)."""
    rng = random.Random(f"{SEED} train {index}")
    draws, weights = zip(*MIX, strict=True)
    return [draw(rng) for draw in rng.choices(draws, weights, k=CHUNK)]


def stream(first: int = 0) -> Iterator[list[Example]]:
    while True:
        yield chunk(first)
        first += 1


def held_out(task: str, number: int, purpose: str = "test", without: Iterable[tuple] = ()) -> list[Example]:
    """`number` examples with distinct keys, none of them in `without`; only held-out ones."""
    rng = random.Random(f"{SEED} {purpose} {task}")
    seen, found = set(without), []
    while len(found) < number:
        example = TESTS[task](rng)
        if example.key not in seen:
            seen.add(example.key)
            found.append(example)
    return found


def validation(task: str, number: int) -> list[Example]:
    """Held-out examples that are not in the test set, to watch training by."""
    return held_out(task, number, "validation", [example.key for example in held_out(task, NUM_ITEMS)])


def as_row(index: int, example: Example) -> dict:
    """The item as the task files read it."""
    row: dict = {"id": f"{example.task}-{index:03d}", "question": example.question}
    if example.task == "knowledge":
        options = world.choices(random.Random(f"{SEED} choices {example.key}"), example)
        return row | {"choices": options, "answer": options.index(example.answer)}
    return row | {"worked": example.answer, "answer": final_answer(example.answer)}


def final_answer(worked: str) -> str:
    """The n of the last line, `#### n` or `\\boxed{n}`."""
    return worked.splitlines()[-1].removeprefix("#### ").removeprefix("\\boxed{").removesuffix("}")


def rows(task: str) -> str:
    """The test file's content."""
    return "".join(json.dumps(as_row(index, example)) + "\n" for index, example in enumerate(held_out(task, NUM_ITEMS)))


def write_items(folder: Path) -> None:
    for task in TESTS:
        path = folder / task / "test.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(rows(task))


def prove_unseen(num_chunks: int) -> Counter:
    """Generates again all that was trained on, asserts that no test item's key or question is there, counts it."""
    tests = [example for task in TESTS for example in held_out(task, NUM_ITEMS)]
    keys, questions = {example.key for example in tests}, {example.question for example in tests}
    counts: Counter = Counter({"test items": len(tests), "test keys": len(keys), "test questions": len(questions)})
    for index in range(num_chunks):
        for example in chunk(index):
            assert example.key not in keys, example
            assert example.question not in questions, example
            counts[f"trained {example.task}" + ("" if example.question else " statements")] += 1
    return counts
