"""What a commit would change, to be read before it is made."""

import difflib
from collections.abc import Iterator

from evalcard.card.hub.plan import Change, Plan

_CONTEXT = 2


def diff_lines(plan: Plan) -> Iterator[str]:
    """A unified diff of every text, a line for every figure; nothing for what stays."""
    for change in plan.changes:
        if change.path.endswith(".png"):
            yield f"{change.path}: {change.kind}, {len(change.after)} bytes"
        else:
            yield from _unified(change)


def _unified(change: Change) -> Iterator[str]:
    before, after = (_lines(content) for content in (change.before or b"", change.after))
    first = "/dev/null" if change.before is None else f"a/{change.path}"
    yield from difflib.unified_diff(before, after, first, f"b/{change.path}", n=_CONTEXT, lineterm="")
    if before == after:
        yield f"{change.path}: only line breaks differ"


def _lines(content: bytes) -> list[str]:
    text = content.decode("utf-8", "replace").removesuffix("\n")
    return [line.removesuffix("\r") for line in text.split("\n")] if content else []


def num_changed(plan: Plan) -> tuple[int, int]:
    """(added, removed) lines of all texts."""
    lines = [line for line in diff_lines(plan) if not line.startswith(("+++", "---"))]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)
