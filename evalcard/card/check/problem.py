"""What is wrong with a card: where, what, and what to do."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a card."""

    line: int | None
    """Of the card's text, from 1; None where it has no line, as with another file or something that is missing."""
    where: str
    """A key of the metadata (``model-index[0].name``), a place in the body, or a file with its line."""
    what: str
    """What is there and what is wrong with it."""
    advice: str
    """What to do."""
    level: Level
    """error: the Hub refuses it, a reader of the metadata loses something, or a printed number is wrong. warning: it
    works, and is probably not meant. note: nothing is wrong as far as one can tell, and something was not checked."""

    @property
    def message(self) -> str:
        """All of it but the line, in one sentence each."""
        return f"{self.where}: {self.what}. {self.advice}"


def shown(value: object, most: int = 80) -> str:
    """A value as Python writes it, cut where it is long: what a card holds may be of any length."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 4]}...{text[-1]}"


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """By line, those without one first; what is said twice once."""
    return sorted(dict.fromkeys(problems), key=lambda one: one.line or 0)


def has_errors(problems: Iterable[Problem]) -> bool:
    """Whether any is more than a warning."""
    return any(one.level == "error" for one in problems)
