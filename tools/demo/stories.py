"""Word problems in two steps (told in stories.toml), answered with the steps and `#### n`."""

import random
import tomllib
from pathlib import Path

from demo.example import Example
from demo.puzzle import Puzzle

WORDS = tomllib.loads(Path(__file__).with_name("stories.toml").read_text())
TELLINGS: dict[str, list[str]] = WORDS["tellings"]
SMALL, FEW, MANY = range(2, 13), range(2, 10), range(5, 60)

PUZZLES = (
    Puzzle("gain_lose", {"a": MANY, "b": MANY, "c": MANY}, ("a + b", "p - c")),
    Puzzle("lose_gain", {"a": MANY, "b": MANY, "c": MANY}, ("a - b", "p + c")),
    Puzzle("lose_lose", {"a": range(20, 100), "b": MANY, "c": MANY}, ("a - b", "p - c")),
    Puzzle("three_parts", {"a": MANY, "b": MANY, "c": MANY}, ("a + b", "p + c")),
    Puzzle("boxes_more", {"a": FEW, "b": FEW, "c": MANY}, ("a * b", "p + c")),
    Puzzle("boxes_fewer", {"a": FEW, "b": FEW, "c": SMALL}, ("a * b", "p - c")),
    Puzzle("change", {"a": FEW, "b": FEW, "c": range(10, 100)}, ("a * b", "c - p")),
    Puzzle("each_times", {"a": FEW, "b": FEW, "c": FEW}, ("a + b", "p * c")),
    Puzzle("share_more", {"q": FEW, "b": FEW, "c": MANY}, ("a / b", "p + c"), {"a": "q * b"}),
    Puzzle("more_than", {"a": MANY, "b": MANY}, ("a + b", "a + p")),
)


def draw(rng: random.Random, held_out: bool) -> Example:
    puzzle = rng.choice(PUZZLES)
    solved = puzzle.draw(rng, held_out)
    who, other = rng.sample(WORDS["people"], 2)
    words = {"who": who, "other": other, "things": rng.choice(WORDS["things"]), "boxes": rng.choice(WORDS["boxes"])}
    question = rng.choice(TELLINGS[puzzle.name]).format(**words, **solved.numbers)
    return Example("words", solved.key, question, "\n".join([*solved.working, f"#### {solved.answer}"]))
