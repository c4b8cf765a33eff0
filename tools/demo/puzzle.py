"""The numbers and steps of one kind of problem; stories and sums are made of these."""

import random
from dataclasses import dataclass, field
from operator import add, floordiv, mul, sub
from typing import NamedTuple

from demo.held_out import is_held_out

OPERATORS = {"+": add, "-": sub, "*": mul, "/": floordiv}
RESULTS = "pqrs"


class Solved(NamedTuple):
    key: tuple
    """(puzzle, the numbers drawn): what is trained on or held out, whatever the wording."""
    numbers: dict[str, int]
    working: list[str]
    answer: int


@dataclass(frozen=True)
class Puzzle:
    """Draw some numbers, derive others, then work `steps`, whose results are called p, q, r in turn."""

    name: str
    draws: dict[str, range]
    steps: tuple[str, ...]
    derived: dict[str, str] = field(default_factory=dict)
    largest: int = 199
    """No number, intermediate or final, is above this or below zero."""

    def draw(self, rng: random.Random, held_out: bool) -> Solved:
        """Numbers that fit, from the held-out ones or from all others."""
        while True:
            drawn = {name: rng.choice(values) for name, values in self.draws.items()}
            key = (self.name, tuple(drawn.values()))
            if is_held_out(key) == held_out and (solved := self.solve(key)):
                return solved

    def solve(self, key: tuple) -> Solved | None:
        """None where a number leaves [0, largest]."""
        numbers = dict(zip(self.draws, key[1], strict=True))
        for name, term in self.derived.items():
            numbers[name] = evaluate(term, numbers)[1]
        working = []
        for name, term in zip(RESULTS, self.steps, strict=False):
            written, numbers[name] = evaluate(term, numbers)
            working.append(f"{written} = {numbers[name]}")
        if not all(0 <= number <= self.largest for number in numbers.values()):
            return None
        return Solved(key, numbers, working, numbers[name])


def evaluate(term: str, numbers: dict[str, int]) -> tuple[str, int]:
    """`a * b` with its numbers filled in, and its value."""
    left, operator, right = term.split()
    values = numbers[left], numbers[right]
    return f"{values[0]} {operator} {values[1]}", OPERATORS[operator](*values)
