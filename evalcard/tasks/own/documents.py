"""Questions of a data file of one's own as the harness's documents: prompt, system turn, letters, target, shot."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evalcard.tasks.data.readers import dataset_of
from evalcard.tasks.judges.judge import Judge
from evalcard.tasks.own.columns import MAX_CHOICES, Question, Table
from evalcard.tasks.own.inference import letter_of


class Documents:
    """Gives the harness the file's documents; equal to those of the same file scored in the same way only."""

    def __init__(
        self, path: Path, table: Table, golds: Sequence[tuple[str, ...]], judge: Judge | None, num_letters: int = 0
    ):
        """num_letters: how many letters the answers choose among where the file does not say."""
        self.path = path
        self._table = table
        self._golds = golds
        self._judge = judge
        self._num_letters = num_letters

    def __repr__(self) -> str:
        return f"{self.path.resolve()}:{self._judge.name if self._judge else 'letters'}"

    def __deepcopy__(self, _: Any) -> "Documents":
        return self  # nothing in it changes, and it holds the whole file

    def __call__(self, **_: Any) -> dict[str, Any]:
        """The one split, by name; the harness hands over the task's metadata, which is not needed."""
        targets = self._golds if self._judge else [question.right for question in self._questions]
        has_many = any(len(one) > 1 for one in targets)
        has_system = any(one.system for one in self._questions)
        ids = self._ids() or [None] * len(targets)
        docs = [
            self._doc(question, own_id, target, has_many, has_system)
            for question, own_id, target in zip(self._questions, ids, targets, strict=True)
        ]
        return {"test": dataset_of(docs, self.path)}

    def _doc(
        self, question: Question, own_id: Any, target: Sequence[Any], has_many: bool, has_system: bool
    ) -> dict[str, Any]:
        """All documents of a file have the same keys, and either lists of targets or single ones."""
        doc: dict[str, Any] = {} if own_id is None else {"id": own_id}
        if has_system:
            doc["system"] = _description(question.system)
        doc["prompt"] = prompt_of(question, self._table.is_prompt)
        if num_choices := len(question.choices or ()) or self._num_letters:
            doc["letters"] = letters(num_choices)
        doc["target"] = list(target) if has_many else target[0]
        doc["shot"] = target[0] if self._judge else letters(MAX_CHOICES)[target[0]]
        return doc

    def as_turn(self, doc: dict[str, Any], position: int) -> dict[str, Any]:
        """The document at ``position`` for a chat, where the system turn is the column's own text and nothing more."""
        text = self._questions[position].system or ""
        return {**doc, "system": text if text.strip() else ""} if "system" in doc else doc

    @property
    def _questions(self) -> tuple[Question, ...]:
        return self._table.questions

    def _ids(self) -> list[Any] | None:
        ids = [question.id for question in self._questions]
        if ids[0] is None:
            return None
        return ids if all(isinstance(one, int) for one in ids) else [str(one) for one in ids]


def letters(count: int) -> list[str]:
    """``count`` letters from A."""
    return [chr(ord("A") + place) for place in range(count)]


def prompt_of(question: Question, is_prompt: bool) -> str:
    """What is asked: a prompt as it is, a question in the form of the well-known tasks, its choices on lines."""
    if is_prompt:
        return question.text
    lines = [f"Question: {question.text.strip()}"]
    if question.choices is not None:
        pairs = zip(letters(len(question.choices)), question.choices, strict=True)
        lines += [f"{letter}. {choice.strip()}" for letter, choice in pairs]
    return "\n".join([*lines, "Answer:"])


def _description(system: str | None) -> str:
    """The harness puts a description in front of the question as it is; in plain text it needs a blank line."""
    return f"{system.rstrip()}\n\n" if system and system.strip() else ""


def golds_for(question: Question, judge: Judge) -> tuple[str, ...]:
    """What the judge compares answers with: a choice by its letter, its text, or either."""
    if question.choices is None:
        found = [letter_of(gold) or gold for gold in question.golds] if judge.name == "choice" else question.golds
        return tuple(found)
    right = [(letters(len(question.choices))[place], question.choices[place].strip()) for place in question.right]
    if judge.name == "choice":
        return tuple(letter for letter, _ in right)
    if judge.name == "exact" or judge.name.startswith("regex"):
        return tuple(form for letter, text in right for form in (letter, text, f"{letter}. {text}"))
    return tuple(text for _, text in right)
