"""Many faults in few entries: what several modules or tensors share is said once, with their names."""

from collections.abc import Iterable


def named(title: str, names: list[str], limit: int = 8) -> list[str]:
    """``title (3): a, b, c`` as a list of one, or an empty list; the rest beyond ``limit`` is counted."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return [f"{title} ({len(names)}): {', '.join(names[:limit])}{more}"] if names else []


def grouped(faults: Iterable[tuple[str, str]]) -> list[str]:
    """(module, what is wrong with it) -> one entry a fault, with the modules that share it named and counted."""
    by_text: dict[str, list[tuple[str, str]]] = {}
    for module, fault in faults:
        text = fault.removeprefix(module).lstrip(".: ") if module else fault
        by_text.setdefault(text, []).append((module, fault))
    entries = []
    for text, members in by_text.items():
        alone = len(members) == 1
        entries += [members[0][1]] if alone else named(text, sorted((module for module, _ in members), key=by_number))
    return entries


def by_number(name: str) -> list[tuple[int, str]]:
    """Sorts ``layers.9`` before ``layers.10``."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in name.split(".")]
