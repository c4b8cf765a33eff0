"""Notes that tasks share."""

from evalcard.tasks.notes import without_items


def test_many_tasks_without_items_are_many():
    assert without_items(["a"]) == ["a: none of its items is in the subset"]
    assert without_items([*"abcde"]) == ["a, b, c and 2 more: none of their items is in the subset"]
