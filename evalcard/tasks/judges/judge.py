"""What a judge takes and gives. Light: the standard library only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of one answer."""

    extracted: str | None
    """The answer as it was found in the text; None where the text holds none."""
    is_right: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """A text to be judged: without thinking, cut at the task's stop strings."""

    text: str
    golds: tuple[str, ...]
    """Right answers; to meet one of them is enough."""
    num_choices: int | None = None
    """How many options the question offers (A, B, ...), where it offers any."""


class Judge(Protocol):
    """Compares answers with golds; the gold always comes first where the comparison has a direction."""

    @property
    def name(self) -> str:
        """As it is asked for and printed: ``math``, ``number``, ``choice``, ``exact``, ``contains``, ``regex=...``."""

    def judge(self, answers: Sequence[Answer]) -> list[Judgement]:
        """One judgement for each answer, in the same order. Never raises for what a model wrote."""

    def check_gold(self, gold: str) -> str | None:
        """Why no answer could ever meet this gold, such as a gold that is no number; None where one can."""
