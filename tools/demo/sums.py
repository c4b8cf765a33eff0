"""Small expressions and equations (asked in sums.toml), answered with the steps and `\\boxed{n}`."""

import random
import tomllib
from pathlib import Path

from demo.example import Example
from demo.puzzle import Puzzle

TELLINGS: dict[str, list[str]] = tomllib.loads(Path(__file__).with_name("sums.toml").read_text())["tellings"]
FEW, MANY = range(2, 10), range(10, 100)

PUZZLES = (
    Puzzle("plus", {"a": MANY, "b": MANY}, ("a + b",)),
    Puzzle("minus", {"a": MANY, "b": MANY}, ("a - b",)),
    Puzzle(
        "times",
        {"t": range(10, 100, 10), "u": range(1, 10), "b": FEW},
        ("t * b", "u * b", "p + q"),
        {"a": "t + u"},
        largest=999,
    ),
    Puzzle("plus_minus", {"a": MANY, "b": MANY, "c": MANY}, ("a + b", "p - c")),
    Puzzle("minus_plus", {"a": MANY, "b": MANY, "c": MANY}, ("a - b", "p + c")),
    Puzzle("times_plus", {"a": FEW, "b": FEW, "c": MANY}, ("a * b", "p + c")),
    Puzzle("plus_times", {"c": MANY, "a": FEW, "b": FEW}, ("a * b", "c + p")),
    Puzzle("minus_times", {"c": MANY, "a": FEW, "b": FEW}, ("a * b", "c - p")),
    Puzzle("both_times", {"a": FEW, "b": FEW, "c": FEW}, ("a + b", "p * c")),
    Puzzle("solve_plus", {"a": MANY, "b": MANY}, ("b - a",)),
    Puzzle("solve_minus", {"a": MANY, "b": MANY}, ("b + a",)),
    Puzzle("solve_times", {"a": FEW, "x": range(2, 20)}, ("b / a",), {"b": "a * x"}),
    Puzzle("solve_line", {"a": FEW, "x": FEW, "b": MANY}, ("c - b", "p / a"), {"y": "a * x", "c": "y + b"}),
)


def draw(rng: random.Random, held_out: bool) -> Example:
    puzzle = rng.choice(PUZZLES)
    solved = puzzle.draw(rng, held_out)
    question = rng.choice(TELLINGS[puzzle.name]).format(**solved.numbers)
    return Example("maths", solved.key, question, "\n".join([*solved.working, f"\\boxed{{{solved.answer}}}"]))
