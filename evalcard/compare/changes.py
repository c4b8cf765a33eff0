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
    rejudged: int = 0
    """Of the changed verdicts: those that say the same, and only come from another judge or filter."""

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

    @property
    def num_differing(self) -> int:
        """Verdicts that say something else than before, whoever says it."""
        return self.num_changed - self.rejudged

    def line(self) -> str:
        """For a person: ``gsm8k, toy-w8a8: 3 of 40 outcomes changed (wrong -> correct 2, no answer -> wrong 1)``."""
        moves = ", ".join(f"{_said(before)} -> {_said(now)} {count}" for before, now, count in self.moves)
        if self.rejudged and not self.num_differing:
            return f"{self.task}, {self.model}: same outcomes under another judge"
        kept = self.num_differing - self.num_moved
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
            "rejudged": self.rejudged,
            "first_graded": self.first_graded,
            "moves": moves,
        }


def changes_of(task: str, model: str, before: Sequence[Verdict], now: Sequence[Verdict]) -> Changes:
    """Every new verdict against the old one on the same answer; most frequent moves first."""
    known: dict[Address, Verdict] = {(one.item_id, one.repeat): one for one in before}
    pairs = [(known.get((one.item_id, one.repeat)), one) for one in now]
    changed = Counter((old.outcome, new.outcome) for old, new in pairs if old is not None and old != new)
    first = sum(old is None for old, _ in pairs)
    rejudged = sum(old is not None and _is_rejudged(old, new) for old, new in pairs)
    return Changes(task, model, len(now), dict(changed.most_common()), first, rejudged)


def _is_rejudged(old: Verdict, new: Verdict) -> bool:
    """What a judge reads out of a reply may be cut otherwise; the outcome by the same right answer is what counts."""
    names = [[(score.metric, score.filter) for score in verdict.scores] for verdict in (old, new)]
    return (old.outcome, old.target) == (new.outcome, new.target) and names[0] != names[1]


def _said(outcome: Outcome) -> str:
    return outcome.replace("_", " ")
