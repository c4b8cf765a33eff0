"""One row of a sequential run: whom it asks next, how many at once, and from when on its decision counts."""

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from evalcard.compare.sequential import seeded_order
from evalcard.results.records import RowRecord, TaskRecord
from evalcard.rowtest import RowTest, look_size


def record(name: str = "arc", decoding: str = "greedy", repeats: int = 1, chance: float = 0.0) -> TaskRecord:
    return TaskRecord.model_validate(
        {"name": name, "source": "file", "version": "1", "metric": "acc", "filter": "none", "category": "general",
         "chance": chance, "higher_is_better": True, "num_fewshot": 0, "repeats": repeats, "decoding": decoding,
         "chat_template": False, "items_total": 9, "items_selected": 9, "selection": "all"}
    )  # fmt: skip


def row_test(sizes: dict[str, int], limit: float = 95.0, seed: int = 3, chances: tuple[float, ...] = (0, 0)) -> RowTest:
    tasks = [
        SimpleNamespace(
            name=name,
            record=record(name, chance=chance),
            positions=range(0, 2 * size, 2),
            task=SimpleNamespace(item_ids=[f"{name}{at}" for at in range(2 * size)]),
        )
        for (name, size), chance in zip(sizes.items(), chances, strict=False)
    ]
    row = RowRecord(name="row", tasks=list(sizes), rule="size" if len(sizes) > 1 else "task")
    return RowTest(row, tasks, limit, 0.95, 1, seed)  # type: ignore[arg-type]


def feed(row: RowTest, baseline: float, compressed: float) -> None:
    """One look with the same two scores for every item."""
    places = row.next_places
    row.take({one: Fraction(baseline) for one in places}, {one: Fraction(compressed) for one in places})


@pytest.mark.parametrize(
    ("num_items", "facts", "size"),
    [
        (1319, {}, 32),
        (14042, {"decoding": "scored"}, 128),
        (1319, {"decoding": "scored"}, 83),
        (1319, {"repeats": 3}, 10),
        (1319, {"repeats": 64}, 8),
        (100, {}, 8),
        (5, {}, 8),
    ],
)
def test_size_of_a_look(num_items: int, facts: dict[str, Any], size: int):
    assert look_size(num_items, [record(**facts)]) == size


def test_mixed_tasks_are_looked_at_like_generated_ones():
    assert look_size(10_000, [record(decoding="scored"), record("b", repeats=2)]) == 16


def test_every_item_is_asked_once_in_the_seeded_order():
    row = row_test({"a": 30, "b": 11}, limit=200.0)
    places = [("a", f"a{at}") for at in range(0, 60, 2)] + [("b", f"b{at}") for at in range(0, 22, 2)]
    expected, asked = [places[at] for at in seeded_order(41, 3)], []
    while not row.is_used_up:
        asked += row.next_places
        feed(row, 1, 1)
    assert asked == row.used == expected and row.next_places == []
    assert row_test({"a": 30, "b": 11}, seed=4).next_places != expected[:8]


def test_decides_and_tells_where_it_stands():
    row = row_test({"a": 200})
    assert row.decision is None and not row.is_sound
    while row.decision is None:
        feed(row, 1, 1)
    found = row.result()
    assert (found.row, found.limit, found.confidence, found.items) == ("row", 95.0, 0.95, 200)
    assert found.used == len(row.used) < 100 and found.decision == row.decision == "PASS"
    assert found.low is not None and found.high is not None and 95 <= found.low <= 100 <= found.high


def test_before_any_right_answer_nothing_is_known():
    row = row_test({"a": 200})
    feed(row, 0, 0)
    found = row.result()
    assert (found.used, found.decision, found.low, found.high) == (13, None, None, None)
    assert row.note() == "row - of 13"
    feed(row, 0, 1)
    assert row.result().decision == "PASS" and row.decision is None, "a recovery of nothing decides nothing"


def test_a_decision_counts_once_the_baseline_is_above_chance():
    """A model that answers nothing fails at once; but against a baseline that may be guessing that says nothing."""
    row = row_test({"a": 400}, chances=(0.25,))
    kinds = [1, 0, 0, 1, 0]
    decided_at = sound_at = None
    while not row.is_used_up and row.decision is None:
        places = row.next_places
        right = {one: Fraction(kinds[int(one[1][1:]) // 2 % 5]) for one in places}
        row.take(right, dict.fromkeys(places, Fraction(0)))
        decided_at = decided_at or (len(row.used) if row.result().decision else None)
        sound_at = sound_at or (len(row.used) if row.is_sound else None)
    assert decided_at is not None and sound_at is not None and decided_at < sound_at == len(row.used) < 400
    assert row.decision == "FAIL"


def test_a_baseline_at_chance_is_never_sound():
    row = row_test({"a": 100}, chances=(1.0,))
    while not row.is_used_up:
        feed(row, 1, 1)
    assert not row.is_sound and row.decision is None and row.result().decision == "PASS"


@pytest.mark.parametrize(("sizes", "is_sound"), [({"a": 16, "b": 16}, True), ({"a": 2, "b": 60}, False)])
def test_chance_is_that_of_the_items_used(sizes: dict[str, int], is_sound: bool):
    """Two pooled tasks, one of which is right by guessing alone."""
    row = row_test(sizes, limit=200.0, chances=(0.0, 1.0))
    while not row.is_used_up:
        feed(row, 1, 1)
    assert row.is_sound == is_sound


def test_a_complete_set_is_exact_and_rounded_once():
    row = row_test({"a": 41}, limit=99.0)
    numbers = {place: at for at, place in enumerate(sorted(row._order))}
    while not row.is_used_up:
        places = row.next_places
        ours, theirs = ({one: Fraction(numbers[one] < right) for one in places} for right in (37, 33))
        row.take(ours, theirs)
    found = row.result()
    assert found.low == found.high == float(Fraction(3300, 37)) and found.decision == "FAIL"


def test_a_limit_is_what_was_written():
    """95.1 in floating point is a little below 951/10; a set at exactly that recovery reaches it."""
    row = row_test({"a": 1000}, limit=95.1)
    numbers = {place: at for at, place in enumerate(sorted(row._order))}
    while not row.is_used_up:
        places = row.next_places
        row.take(dict.fromkeys(places, Fraction(1)), {one: Fraction(numbers[one] < 951) for one in places})
    assert row.result().decision == "PASS"
