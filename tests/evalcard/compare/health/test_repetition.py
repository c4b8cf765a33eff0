"""What is a loop and what only looks like one, on texts as models and people write them."""

import json
import os
import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcard.compare.health.repetition import CLOSING, MIN_LENGTH, MIN_REPEATS, MOST_TAIL, ends_in_a_loop

DATA = os.environ.get("EVALCARD_TEST_DATA")

WORKED = "Each box holds 12 pens, so 7 boxes hold 7 * 12 = 84 pens. Of these 9 are broken, which leaves 84 - 9 = 75. "
PARAGRAPH = (
    "Wait, maybe I should double-check the sum. The first number is 17 and the second one is 25, so adding them gives "
    "42. But the question asks for the difference, so let me go back to the start and read it once more, slowly. "
    "The train leaves at nine, the bus at ten, and the walk between the stations takes a quarter of an hour. "
)


@pytest.mark.parametrize(
    "text",
    [
        "the " * 64,
        WORKED + "the " * 100,
        WORKED + "So the answer is 75. " * 6,
        WORKED + "So the answer is 75. " * 6 + "So the ans",
        WORKED + "!" * 256,
        "!" * 256,
        "0" * 200,
        WORKED + "\n" * 300,
        WORKED + "\\frac{1}{2} + " * 40,
        WORKED + "<|im_end|>" * 30,
        "答案是四十二。" * 20,
        PARAGRAPH * 4,
        WORKED * 3 + PARAGRAPH * 5 + PARAGRAPH[:100],
        " ".join(map(str, range(9000))) + "\n" + "Therefore, x = 4. " * 200,
        "Question: What is 2 + 2?\nAnswer: 4\n\n" * 5,
        WORKED + "the" + " the" * 100 + "\n",
        WORKED + "\n".join(["So the answer is 75."] * 6) + "\n\n  \t\n",
        WORKED + "the " * 100 + ".",
        WORKED + "So the answer is 75. " * 6 + "</s>",
        WORKED + "So the answer is 75. " * 6 + "**Hence\n\n",
        PARAGRAPH * 5 + "But that is not what was asked.",
        (PARAGRAPH + "no " * 150) * 5,
        (PARAGRAPH + "Let me try that once again, from the very start. " * 150) * 4 + "Let me",
        ("".join(f"{n} Let me try that once again, from the start. " for n in range(150)) + "And on.") * 5,
    ],
)
def test_loops(text):
    assert ends_in_a_loop(text)


NUMBERS = ", ".join(map(str, range(1, 200)))
TABLE = "| n | square |\n|---|---|\n" + "".join(f"| {n} | {n * n} |\n" for n in range(1, 60))
ROWS = "\n".join(f"Step {n}: add {n} to the total, which is now {n * (n + 1) // 2}." for n in range(1, 40))
SOLUTIONS = [
    "",
    " ",
    "4",
    "1111",
    "ha ha ha ha",
    "no, no, no, no, no",
    "10000000000000000000000000000",
    "0.333333333333333333333333333333333333333333333",
    NUMBERS,
    TABLE,
    ROWS,
    WORKED,
    WORKED * 3,
    PARAGRAPH * 3,
    WORKED + "So the answer is 75. " * 3,
    "Answer\n" + "-" * 80,
    WORKED + "\n" + "=" * 120,
    WORKED + "\n" * 40,
    "The matrix is\n\\begin{pmatrix} " + " \\\\ ".join(["0 & 0 & 0 & 0"] * 8) + " \\end{pmatrix}",
    "[" + ", ".join(["0"] * 100) + "]",
    "the " * 100 + "and so the answer is 4.",
    WORKED + "So the answer is 75. " * 6 + "No, it is 76.",
    PARAGRAPH * 5 + "But that is not at all what was asked for here.",
    "Rows: [" + ", ".join(["0.000000"] * 20) + "]\n",
    "She sells 16 - 3 - 4 = <<16-3-4=9>>9 eggs a day.\nShe makes 9 * 2 = $<<9*2=18>>18 a day.\n#### 18",
    "Let $x = 0.\\overline{7}$. Then $10x = 7.\\overline{7}$, so $9x = 7$ and $x = \\boxed{\\frac{7}{9}}$.",
    "We list the terms: $2, 6, 18, 54, 162, 486, 1458$. Their sum is $2(3^7 - 1)/2 = \\boxed{2186}$.",
    "$1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 = 8$, $1 + 1 + 1 + 1 + 1 + 1 + 2 = 8$, so there are $\\boxed{2}$ such ways.",
    "HTHTHTHT, THTHTHTH and so on: each of $2^8 = 256$ sequences is as likely, hence $\\frac{2}{256} = "
    "\\boxed{\\frac{1}{128}}$.",
    "[asy]\n" + "".join(f"draw(({n},0)--({n},5));\n" for n in range(12)) + "[/asy]\nThe area is $\\boxed{55}$.",
    "def f(n):\n    if n < 2:\n        return n\n    return f(n - 1) + f(n - 2)\n",
]


@pytest.mark.parametrize("text", SOLUTIONS)
def test_no_loops(text):
    assert not ends_in_a_loop(text)


@given(st.text(alphabet="ab 1", max_size=40), st.text(alphabet="abcde 12", min_size=1, max_size=60), st.integers(4, 9))
def test_whatever_is_repeated_often_enough_is_found(start, unit, repeats):
    """Against the definition: long enough, at the end, a quarter of the text, and with a word in it."""
    text = start + unit * repeats
    stretch = len(unit) * repeats
    if unit.isspace():
        return
    if stretch >= max(MIN_LENGTH, len(text) / 4):
        assert ends_in_a_loop(text)


def by_definition(text: str) -> bool:
    """With all its white space, or without that at the end and with the shortest tail that leaves a loop."""
    said = text.rstrip()
    for tail in range(min(MOST_TAIL, len(said)) + 1):
        unit = unit_of(said[: len(said) - tail])
        if unit or (tail < len(said) and said[len(said) - tail - 1] in CLOSING):
            return tail == 0 < unit or 2 * tail < unit or unit_of(text) > 0
    return unit_of(text) > 0


def unit_of(text: str) -> int:
    """Every unit and the longest stretch that has this period, letter by letter; 0 where none is long enough."""
    n = len(text)
    for unit in range(1, n // MIN_REPEATS + 1):
        stretch = unit
        while stretch < n and text[n - stretch - 1] == text[n - stretch - 1 + unit]:
            stretch += 1
        least = MIN_LENGTH if any(map(str.isalnum, text[n - unit :])) else 200
        if stretch >= max(MIN_REPEATS * unit, least, min(int(n / 4), 2000)):
            return unit
    return 0


def test_the_fast_way_agrees_with_the_definition():
    draw = random.Random(5)
    found = 0
    for _ in range(1500):
        start = "".join(draw.choices("ab. ", k=draw.randrange(120)))
        unit = "".join(draw.choices("ab. ", k=draw.randrange(1, 30)))
        tail = "".join(draw.choices("abc.] \n", k=draw.choice((0, 0, 1, 2, 5, 12))))
        text = (start + unit * draw.randrange(12) + unit[: draw.randrange(len(unit))] + tail) or "x"
        assert ends_in_a_loop(text) == by_definition(text), text
        found += ends_in_a_loop(text)
    assert 300 < found < 1300, found


def test_long_answers_take_no_time():
    """Half a million characters in which the end recurs everywhere and is no period."""
    draw = random.Random(1)
    unit = "Wait, let me check that again, slowly. "
    texts = ["".join(f"{draw.randrange(10**6)} {unit}" for _ in range(12_000)), "ab" * 250_000 + "c", "a" * 500_000]
    # Periods within periods, the hardest there is for a search of repetitions.
    short, word = "a", "ab"
    while len(word) < 400_000:
        short, word = word, word + short
    texts.append(word + unit)
    start = time.process_time()
    assert [ends_in_a_loop(text) for text in texts] == [False, False, True, False]
    assert time.process_time() - start < 1


def golds() -> list[str]:
    root = Path(DATA or "")
    files = [*root.glob("HuggingFaceH4/MATH-500/*.jsonl"), *root.glob("openai/gsm8k/**/*.jsonl")]
    lines = [json.loads(line) for path in files for line in path.open(encoding="utf-8")]
    return [line.get("solution") or line["answer"] for line in lines]


@pytest.mark.skipif(not DATA, reason="EVALCARD_TEST_DATA names no data root")
def test_no_gold_solution_is_a_loop():
    solutions = golds()
    assert len(solutions) >= 500 + 1319
    assert [text for text in solutions if ends_in_a_loop(text)] == []
