"""What a new grading of stored answers changed: which outcomes became which, by model and task."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalcard.results.journal import Address
from evalcard.results.records import Outcome, Verdict


@dataclass(frozen=True, slots=True)
class Changes:
    """One model's answers to one task, graded anew."""

    task: str
    model: str
    """Slug."""
    answers: int
    changed: Mapping[tuple[Outcome, Outcome], int]
    """(outcome before, outcome now) of every verdict that differs in anything."""
    first_graded: int
    """Answers that had no verdict."""

    @property
    def num_changed(self) -> int:
        return sum(self.changed.values())

    @property
    def moves(self) -> list[tuple[Outcome, Outcome, int]]:
        """(outcome before, outcome now, verdicts) where the two differ."""
        return [(before, now, count) for (before, now), count in self.changed.items() if before != now]

    @property
    def num_moved(self) -> int:
        return sum(count for _, _, count in self.moves)

    def line(self) -> str:
        """For a person: ``gsm8k, toy-w8a8: 3 of 40 outcomes changed (wrong -> correct 2, no answer -> wrong 1)``."""
        moves = ", ".join(f"{_said(before)} -> {_said(now)} {count}" for before, now, count in self.moves)
        kept = self.num_changed - self.num_moved
        parts = [f"{self.num_moved} of {self.answers} outcomes changed" + (f" ({moves})" if moves else "")]
        parts += [f"verdicts changed within their outcome: {kept}"] if kept else []
        parts += [f"{self.first_graded} graded for the first time"] if self.first_graded else []
        return f"{self.task}, {self.model}: {', '.join(parts)}"

    def summary(self) -> dict[str, Any]:
        """The same for a program."""
        moves = [{"before": before, "now": now, "count": count} for before, now, count in self.moves]
        return {
            "task": self.task,
            "model": self.model,
            "answers": self.answers,
            "changed": self.num_changed,
            "outcomes_changed": self.num_moved,
            "first_graded": self.first_graded,
            "moves": moves,
        }


def changes_of(task: str, model: str, before: Sequence[Verdict], now: Sequence[Verdict]) -> Changes:
    """Every new verdict against the old one on the same answer; most frequent moves first."""
    known: dict[Address, Verdict] = {(one.item_id, one.repeat): one for one in before}
    pairs = [(known.get((one.item_id, one.repeat)), one) for one in now]
    changed = Counter((old.outcome, new.outcome) for old, new in pairs if old is not None and old != new)
    first = sum(old is None for old, _ in pairs)
    return Changes(task, model, len(now), dict(changed.most_common()), first)


def _said(outcome: Outcome) -> str:
    return outcome.replace("_", " ")
