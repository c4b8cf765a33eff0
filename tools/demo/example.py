"""One thing to learn or to be asked."""

from typing import NamedTuple


class Example(NamedTuple):
    """A prompt and the text that should follow it."""

    task: str
    """knowledge, words or maths."""
    key: tuple
    """What makes it that item whatever its wording: (template, numbers), or (person, relation, wording)."""
    question: str
    """Empty for a plain statement, which is learnt as a whole."""
    answer: str
    """What follows, without the separating space."""

    @property
    def prompt(self) -> str:
        """Exactly what the task files make of the question."""
        return f"Question: {self.question}\nAnswer:" if self.question else ""

    @property
    def continuation(self) -> str:
        """With the space that comes before an answer. Statements start with one too, so a word is always one token."""
        return f" {self.answer}"
