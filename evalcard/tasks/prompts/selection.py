"""Which items are evaluated: all, the first few of each task, or a seeded subset spread over a row's tasks."""

import hashlib
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction

from evalcard.results.records import RowRecord


@dataclass(frozen=True, slots=True)
class Selection:
    """The items of one leaf task."""

    positions: Sequence[int]
    """In document order."""
    text: str
    """'all', or how they were chosen."""


@dataclass(frozen=True, slots=True)
class Selected:
    by_task: Mapping[str, Selection]
    notes: tuple[str, ...]


def select_items(
    sizes: Mapping[str, int],
    rows: Sequence[RowRecord],
    *,
    limit: float | None = None,
    limit_per_subtask: int | None = None,
    seed: int = 0,
) -> Selected:
    """The items of every leaf task.

    sizes: documents of each leaf task. ``limit`` of 1 or more counts the items of a row in all, below 1 it is a share
    of every leaf task, rounded up; ``limit_per_subtask`` takes the first ones of each. A larger limit holds all items
    of a smaller one. A leaf task of several rows gets the larger of its numbers.
    """
    assert limit is None or limit_per_subtask is None, (limit, limit_per_subtask)
    if limit_per_subtask is not None:
        counts = {name: min(limit_per_subtask, size) for name, size in sizes.items()}
        return Selected({name: _first(counts[name], size) for name, size in sizes.items()}, ())
    if limit is None:
        return Selected({name: _first(size, size) for name, size in sizes.items()}, ())
    if limit < 1:
        share = Fraction(repr(limit))  # the number as it was written: 0.07 of 100 is 7, not 8
        text = f"seeded, {float(100 * share):g} % of every task"
        counts = {name: math.ceil(share * size) for name, size in sizes.items()}
        return Selected({name: _seeded(name, sizes[name], count, seed, text) for name, count in counts.items()}, ())
    return _by_rows(sizes, rows, int(limit), seed)


def _by_rows(sizes: Mapping[str, int], rows: Sequence[RowRecord], limit: int, seed: int) -> Selected:
    counts = dict.fromkeys(sizes, 0)
    texts: dict[str, str] = {}
    for row in rows:
        members = {name: sizes[name] for name in row.tasks}
        total = sum(members.values())
        for name, count in spread(members, limit, seed).items():
            if name not in texts or count > counts[name]:
                whose = f", {limit} of the row's {total}" if len(members) > 1 else ""
                counts[name], texts[name] = count, f"seeded{whose}"
    chosen = {name: _seeded(name, size, counts[name], seed, texts[name]) for name, size in sizes.items()}
    return Selected(chosen, tuple(_larger_rows(rows, sizes, counts, limit)))


def _larger_rows(
    rows: Sequence[RowRecord], sizes: Mapping[str, int], counts: Mapping[str, int], limit: int
) -> list[str]:
    """A row may have more items than were asked for where another row wants more of a task that they share."""
    notes = []
    for row in rows:
        found, total = sum(counts[name] for name in row.tasks), sum(sizes[name] for name in row.tasks)
        if found > min(limit, total):
            notes.append(
                f"{row.name}: has {found} items instead of {limit}, since tasks of it belong to other rows too"
            )
    return notes


def with_items(row: RowRecord, sizes: Mapping[str, int], empty: Set[str]) -> RowRecord:
    """The row without the tasks of which no item is evaluated; what it is a subset of stays the whole row."""
    if empty.isdisjoint(row.tasks):
        return row
    total = sum(sizes[name] for name in row.tasks)
    return row.model_copy(update={"tasks": [name for name in row.tasks if name not in empty], "items_total": total})


def spread(sizes: Mapping[str, int], total: int, seed: int) -> dict[str, int]:
    """``total`` items over tasks in proportion to their sizes, at most all of each.

    Webster's (Sainte-Lague's) rule: item r (from 0) of a task of n stands at (r + 1/2) / n, and the ``total`` lowest
    are taken; equal ones in an order drawn from the seed. Rounding by largest remainders comes as close, but a larger
    total can give a task less there, and a larger subset has to hold a smaller one.
    """
    drawn = {name: _hash(seed, name, "order") for name in sizes}
    ranked = sorted(
        (Fraction(2 * rank + 1, 2 * size), drawn[name], name) for name, size in sizes.items() for rank in range(size)
    )
    counts = dict.fromkeys(sizes, 0)
    for _, _, name in ranked[:total]:
        counts[name] += 1
    return counts


def seeded_order(name: str, size: int, seed: int) -> list[int]:
    """Positions of a task's items in an order that depends on the seed, the task's name and its size alone.

    By sha256 of (seed, name, position), so it is the same on every machine and for every version of Python.
    """
    return sorted(range(size), key=lambda position: _hash(seed, name, position))


def _hash(seed: int, name: str, what: int | str) -> bytes:
    return hashlib.sha256(f"{seed}/{name}/{what}".encode()).digest()


def _first(count: int, size: int) -> Selection:
    return Selection(range(count), "all" if count == size else f"first {count}")


def _seeded(name: str, size: int, count: int, seed: int, text: str) -> Selection:
    if count >= size:
        return _first(size, size)
    return Selection(tuple(sorted(seeded_order(name, size, seed)[:count])), text)
