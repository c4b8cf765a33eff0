"""Which items are evaluated: totals of rows, shares, the first few; nested, seeded, independent of other tasks."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcard.results.records import RowRecord
from evalcard.tasks.prompts.selection import seeded_order, select_items, spread

SIZES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 60), min_size=1)


def row(name: str, *tasks: str) -> RowRecord:
    return RowRecord(name=name, tasks=list(tasks), rule="size")


def test_all_by_default():
    found = select_items({"a": 3, "b": 0}, [row("r", "a", "b")])
    assert {name: (list(one.positions), one.text) for name, one in found.by_task.items()} == {
        "a": ([0, 1, 2], "all"), "b": ([], "all")}  # fmt: skip


def test_the_first_of_each_subtask():
    found = select_items({"a": 3, "b": 9}, [row("r", "a", "b")], limit_per_subtask=4).by_task
    assert list(found["a"].positions) == [0, 1, 2] and found["a"].text == "all"
    assert list(found["b"].positions) == [0, 1, 2, 3] and found["b"].text == "first 4"


def test_a_limit_is_the_total_of_a_row_not_of_each_subtask():
    """300 of 57 subjects are 300 items; a limit for each of them would be 5700."""
    sizes = {f"s{i}": 100 + 11 * i for i in range(57)}
    found = select_items(sizes, [row("all", *sizes)], limit=300, seed=1).by_task
    counts = {name: len(one.positions) for name, one in found.items()}
    total = sum(sizes.values())
    assert sum(counts.values()) == 300
    assert all(abs(counts[name] - 300 * size / total) < 1 for name, size in sizes.items())
    assert {one.text for one in found.values()} == {f"seeded, 300 of the row's {total}"}


def test_a_subset_is_spread_over_the_whole_of_a_task():
    (found,) = select_items({"a": 1319}, [row("a", "a")], limit=200, seed=1234).by_task.values()
    assert list(found.positions) == sorted(set(found.positions)) and len(found.positions) == 200
    assert found.text == "seeded"
    assert min(found.positions) < 50 and max(found.positions) > 1270
    assert 80 < sum(one < 660 for one in found.positions) < 120


@settings(max_examples=50, deadline=None)
@given(SIZES, st.integers(0, 3), st.data())
def test_a_larger_limit_holds_a_smaller_one(sizes: dict[str, int], seed: int, data: st.DataObject):
    total = sum(sizes.values())
    small = data.draw(st.integers(1, total))
    large = data.draw(st.integers(small, total + 3))
    rows = [row("r", *sizes)]
    one = select_items(sizes, rows, limit=small, seed=seed).by_task
    two = select_items(sizes, rows, limit=large, seed=seed).by_task
    assert all(set(one[name].positions) <= set(two[name].positions) for name in sizes)
    assert sum(len(s.positions) for s in one.values()) == small
    assert sum(len(s.positions) for s in two.values()) == min(large, total)
    assert (large < total) or {s.text for s in two.values()} == {"all"}


@given(SIZES, st.integers(0, 400), st.integers(0, 5))
def test_spread_equals_websters_divisor_rule(sizes: dict[str, int], total: int, seed: int):
    """Each next item goes to the task with the largest size / (2 x items + 1); only ties may be broken otherwise."""
    counts = spread(sizes, total, seed)
    assert sum(counts.values()) == min(total, sum(sizes.values()))
    assert all(0 <= counts[name] <= size for name, size in sizes.items())
    worst_taken = min((sizes[n] / (2 * c - 1) for n, c in counts.items() if c), default=float("inf"))
    best_left = max((sizes[n] / (2 * c + 1) for n, c in counts.items() if c < sizes[n]), default=0.0)
    assert worst_taken >= best_left * (1 - 1e-12)


def test_ties_are_drawn_not_alphabetical():
    sizes = dict.fromkeys("abcdefghij", 10)
    firsts = {next(name for name, count in spread(sizes, 1, seed).items() if count) for seed in range(40)}
    assert len(firsts) > 5


def test_order_depends_on_seed_and_name_only():
    assert seeded_order("gsm8k", 8, 1234) == [1, 7, 5, 3, 4, 6, 0, 2]  # by sha256sum
    assert len({tuple(seeded_order(name, 20, seed)) for name in "ab" for seed in range(3)}) == 6
    alone = select_items({"a": 50}, [row("a", "a")], limit=7, seed=3).by_task["a"]
    beside = select_items({"b": 9, "a": 50}, [row("b", "b"), row("a", "a")], limit=7, seed=3).by_task["a"]
    assert alone == beside


def test_every_position_is_as_likely():
    counts = [0] * 10
    for seed in range(2000):
        for position in seeded_order("t", 10, seed)[:3]:
            counts[position] += 1
    assert all(520 < count < 680 for count in counts)  # 600 each, 4 standard deviations


@pytest.mark.parametrize(("share", "sizes", "expected"), [
    (0.1, {"a": 100, "b": 30, "c": 3}, {"a": 10, "b": 3, "c": 1}),
    (0.07, {"a": 100}, {"a": 7}),
    (0.999, {"a": 10}, {"a": 10}),
])  # fmt: skip
def test_a_share_is_taken_of_every_task(share: float, sizes: dict[str, int], expected: dict[str, int]):
    found = select_items(sizes, [row("r", *sizes)], limit=share, seed=5).by_task
    assert {name: len(one.positions) for name, one in found.items()} == expected
    for name, one in found.items():
        assert one.text == ("all" if expected[name] == sizes[name] else f"seeded, {100 * share:g} % of every task")


def test_a_task_of_two_rows_gets_the_larger_number():
    sizes = {"a": 50, "b": 50}
    found = select_items(sizes, [row("both", "a", "b"), row("one", "a")], limit=10, seed=1)
    assert len(found.by_task["a"].positions) == 10 and len(found.by_task["b"].positions) == 5
    (note,) = found.notes
    assert note.startswith("both: has 15 items instead of 10")
