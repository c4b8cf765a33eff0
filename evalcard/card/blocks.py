"""Which lines of a Markdown page are text, and not inside code or a comment of HTML.

Lines are read, not Markdown: a fence in a list or a quotation is found too, and what is doubtful counts as code.
"""

import re
from dataclasses import dataclass

_FENCE = re.compile(r"[\s>]*(?:(?:[-*+]|\d+[.)])\s+)*(`{3,}|~{3,})(.*)")
_PRE_OPENS = re.compile(r"\s*<(?:pre|script|style|textarea)\b", re.I)
_PRE_CLOSES = re.compile(r"</(?:pre|script|style|textarea)>", re.I)
_SPAN = re.compile(r"(?<![`\\])(`+)(?!`)([^\n]+?)(?<!`)\1(?!`)")
_INDENT = 4
"""Columns from which on a line behind an empty one is code."""


@dataclass(slots=True)
class _Open:
    """What a line is in: a fence, a comment or preformatted HTML, since which line."""

    line: int
    ends: re.Pattern[str]


def text_lines(page: str) -> tuple[set[int], int | None]:
    """(numbers, from 1, of the lines that are text; the line of a block that is still open at the end, or None)."""
    lines, inside = set[int](), None
    for number, line in enumerate(page.split("\n"), 1):
        if inside is not None:
            inside = None if inside.ends.search(line) else inside
            continue
        inside = _opened(number, line)
        if inside is None and not _is_indented(line):
            lines.add(number)
    return lines, inside.line if inside else None


def fence_of(line: str) -> str | None:
    """The backticks or tildes with which a line begins a block of code; None where it begins none."""
    found = _FENCE.fullmatch(line.rstrip("\r"))
    return None if found is None or (found[1][0] == "`" and "`" in found[2]) else found[1]


def fence_end(fence: str) -> re.Pattern[str]:
    """What the line that ends the block looks like."""
    return re.compile(rf"^[\s>]*{re.escape(fence[0])}{{{len(fence)},}}\s*$")


def without_spans(line: str) -> str:
    """Inline code blanked."""
    return _SPAN.sub(lambda found: " " * len(found[0]), line)


def _is_indented(line: str) -> bool:
    return len(line.expandtabs(_INDENT)) - len(line.expandtabs(_INDENT).lstrip(" ")) >= _INDENT


def _opened(number: int, line: str) -> _Open | None:
    """The block that a line begins and does not end."""
    fence = fence_of(line)
    if fence is not None:
        return _Open(number, fence_end(fence))
    bare = without_spans(line)
    if bare.rfind("<!--") > bare.rfind("-->"):
        return _Open(number, re.compile("-->"))
    if _PRE_OPENS.match(bare) and not _PRE_CLOSES.search(bare):
        return _Open(number, _PRE_CLOSES)
    return None
