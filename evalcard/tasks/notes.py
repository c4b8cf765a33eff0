"""What a person is told of tasks before weights load; a group may have dozens of them. Light."""

from collections.abc import Sequence

_SHOWN_TASKS = 3


def gather(notes: Sequence[str]) -> list[str]:
    """Notes ``<task>: <text>`` with one text become one note: a group may have dozens of tasks."""
    tasks: dict[str, list[str]] = {}
    for note in dict.fromkeys(notes):
        task, colon, text = note.partition(": ")
        tasks.setdefault(text if colon else note, []).append(task if colon else "")
    gathered = []
    for text, names in tasks.items():
        more = f" and {len(names) - _SHOWN_TASKS} more" if len(names) > _SHOWN_TASKS else ""
        shown = ", ".join(names[:_SHOWN_TASKS]) + more
        gathered.append(f"{shown}: {text}" if shown else text)
    return gathered


def without_items(names: Sequence[str]) -> list[str]:
    """What is said of the tasks that a small subset leaves out."""
    if len(names) < 2:
        return [f"{name}: none of its items is in the subset" for name in names]
    more = f" and {len(names) - _SHOWN_TASKS} more" if len(names) > _SHOWN_TASKS else ""
    return [f"{', '.join(names[:_SHOWN_TASKS])}{more}: none of their items is in the subset"]
