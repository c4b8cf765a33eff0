"""One row of a run that stops early: the order of its items, the size of its looks, its test."""

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from evalcard.compare.recovery import RowScore, baseline_fault
from evalcard.compare.rows import row_chance
from evalcard.compare.sequential import Decision, SequentialTest, seeded_order
from evalcard.results.records import ItemId, RowRecord, SequentialRecord, TaskRecord

if TYPE_CHECKING:
    from evalcard.tasks.prepare import PreparedTask

GENERATED_LOOK, SCORED_LOOK = 32, 128
"""Answers of a look and row. Scored answers take one step each, so that more of them are needed to fill the engine."""
_LEAST_LOOK = 8
"""Items."""
_LEAST_LOOKS = 16
"""A small set is looked at about so often, as it would be used up by a few large looks."""

Place = tuple[str, ItemId]
"""(task, item)."""
Scores = Mapping[Place, Fraction]


def look_size(num_items: int, tasks: Sequence[TaskRecord]) -> int:
    """Items of one look: 32 answers where they are generated, 128 where choices are scored, fewer where an item has
    several answers or the set is small, yet at least 8."""
    is_scored = all(task.decoding == "scored" for task in tasks)
    items = (SCORED_LOOK if is_scored else GENERATED_LOOK) // max(task.repeats for task in tasks)
    return max(_LEAST_LOOK, min(items, -(-num_items // _LEAST_LOOKS)))


class RowTest:
    """One row on its way to a decision."""

    def __init__(
        self,
        record: RowRecord,
        tasks: Sequence["PreparedTask"],
        limit: float,
        confidence: float,
        num_tests: int,
        seed: int,
    ) -> None:
        """``limit`` is a recovery in percent; ``num_tests`` rows make one decision (compare/sequential.py)."""
        self.record = record
        self.tasks = tasks
        self._facts = [task.record for task in tasks]
        places = [(task.name, task.task.item_ids[position]) for task in tasks for position in task.positions]
        self._order = [places[number] for number in seeded_order(len(places), seed)]
        self._limit, self._confidence = limit, confidence
        self._test = SequentialTest(len(places), Fraction(repr(limit)) / 100, confidence, num_tests)
        self._look = look_size(len(places), self._facts)
        self._right = Fraction(0)

    @property
    def num_items(self) -> int:
        return len(self._order)

    @property
    def used(self) -> list[Place]:
        return self._order[: self._test.num_used]

    @property
    def next_places(self) -> list[Place]:
        """What the next look asks."""
        return self._order[self._test.num_used :][: self._look]

    @property
    def is_used_up(self) -> bool:
        return self._test.num_used == self.num_items

    @property
    def decision(self) -> Decision | None:
        """None while nothing may be divided by the baseline."""
        return self._test.decision if self.is_sound else None

    @property
    def is_sound(self) -> bool:
        """Whether the baseline is fit to be divided by, over the items used; a row may need more of them for that."""
        used, counts = self._test.num_used, Counter(task for task, _ in self.used)
        if not used:
            return False
        chance = row_chance(self.record, self._facts, [counts[task.name] * task.repeats for task in self._facts])
        baseline = RowScore(self._right / used, None, used, self._right)
        return baseline_fault(baseline, chance, higher_is_better=True) is None

    def take(self, baseline: Scores, compressed: Scores, most: int | None = None) -> None:
        """The scores of ``next_places``, or of the first ``most`` of them."""
        places = self.next_places[:most]
        self._right += sum((baseline[place] for place in places), Fraction(0))
        self._test.update([baseline[place] for place in places], [compressed[place] for place in places])

    def result(self) -> SequentialRecord:
        """How it stands now."""
        low = high = None
        found, recovery = self._test.interval(), self._test.recovery
        if found is not None and recovery is not None:
            # Rounded once where the set is complete, as the recovery is that stands beside it.
            low, high = (float(100 * recovery),) * 2 if self.is_used_up else (100 * found.low, 100 * found.high)
        return SequentialRecord(
            row=self.record.name,
            limit=self._limit,
            confidence=self._confidence,
            items=self.num_items,
            used=self._test.num_used,
            decision=self._test.decision,
            low=low,
            high=high,
        )

    def note(self) -> str:
        """For the bar."""
        seen = self._test.recovery
        return (
            f"{self.record.name} {f'{100 * float(seen):.1f} %' if seen is not None else '-'} of {self._test.num_used}"
        )
