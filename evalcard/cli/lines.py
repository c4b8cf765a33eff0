"""Lines of 80 columns for a terminal: labelled facts, and texts of others made harmless."""

import re
import textwrap

WIDTH = 80
_LABEL = 11
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What moves a terminal's cursor or changes its state; a prompt may hold any of it."""


def visible(text: str) -> str:
    """The text without what a terminal would obey."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def fact(label: str, text: str) -> list[str]:
    """A label and its text, which is wrapped beside it."""
    indent = " " * (_LABEL + 2)
    head = f"  {label.ljust(_LABEL)}"
    head += "" if len(head) <= len(indent) else " "
    return textwrap.wrap(
        visible(text), WIDTH, initial_indent=head, subsequent_indent=indent, break_on_hyphens=False
    ) or [head]


def cut(line: str, width: int) -> list[str]:
    """Pieces of a line, nothing left out; broken at a blank where there is one."""
    pieces = []
    while len(line) > width:
        at = line.rfind(" ", 1, width) + 1 or width
        pieces.append(line[:at])
        line = line[at:]
    return [*pieces, line]


def num_tokens(count: int, kind: str = "") -> str:
    """``1 token``, ``2 prompt tokens``."""
    return f"{count} {kind}token{'' if count == 1 else 's'}"
