"""A card of ours put into a README that others write too: all that is not ours stays, byte for byte."""

from dataclasses import replace
from typing import Any

import yaml

from evalcard.card.blocks import text_lines
from evalcard.card.hub.edits import Loader
from evalcard.card.hub.frontmatter import Card, line_break, parted, set_keys
from evalcard.card.section import BEGIN, END, OWN_KEYS, marked_lines, section_of
from evalcard.errors import UserError

README = "README.md"
_BLANK = "\ufeff \t\r\n"


def merge(there: bytes | None, ours: str) -> bytes:
    """The README that says what ``ours`` says, made from the one that is there; None where there is none.

    Of ours come the keys of OWN_KEYS and the section between the marks; the whole card where nothing is there. The
    line breaks and a byte order mark of what is there are kept. Once more makes no difference. Raises UserError where
    the marks are broken or the metadata cannot be changed without harm; nothing is guessed.
    """
    # Bytes that are no text come back as they were.
    text = (there or b"").decode("utf-8", "surrogateescape")
    if not text.strip(_BLANK):
        return ours.encode("utf-8")
    card = parted(text)
    card = replace(card, body=_with_section(card, ours))
    return set_keys(card, own_metadata(ours)).text.encode("utf-8", "surrogateescape")


def own_metadata(ours: str) -> dict[str, Any]:
    """The keys that a card of ours sets, of those that are ours."""
    data = yaml.load(parted(ours).yaml, Loader=Loader) or {}  # noqa: S506 - a safe loader
    return {key: value for key, value in data.items() if key in OWN_KEYS and value is not None}


def _with_section(card: Card, ours: str) -> str:
    """The body with our section: in the place of the one that is there, else behind everything."""
    end = line_break(card.text)
    section = section_of(ours)
    assert section is not None, ours[:200]
    if not card.body.strip(_BLANK):
        # Metadata alone: the page gets our title as well.
        return _behind(card, parted(ours).body.strip("\n").replace("\n", end), end)
    section = section.replace("\n", end)
    begins, ends = marked_lines(card.body)
    if not begins and not ends:
        _check_open(card)
        return _behind(card, section, end)
    _check_marks(begins, ends, card.text.count("\n") - card.body.count("\n"))
    lines = card.body.split("\n")
    # The line break behind the second mark is not ours: the file may end without one.
    last = "\r" if lines[ends[0] - 1].endswith("\r") else ""
    return "\n".join([*lines[: begins[0] - 1], f"{section}{last}", *lines[ends[0] :]])


def _behind(card: Card, text: str, end: str) -> str:
    """Our text after an empty line behind the body."""
    before = card.text
    gap = "" if before.endswith(end * 2) else end if before.endswith("\n") else end * 2
    return f"{card.body}{gap}{text}{end}"


def _check_open(card: Card) -> None:
    """What is put behind an open block of code, or an open comment, would be part of it."""
    _, line = text_lines(card.body)
    if line is not None:
        number = line + card.text.count("\n") - card.body.count("\n")
        raise UserError(
            f"line {number} of the README on the Hub begins a block of code or a comment that nothing ends, so that "
            "evalcard's section behind it would not be seen. End it there, then publish again."
        )


def _check_marks(begins: list[int], ends: list[int], lines_before: int) -> None:
    if len(begins) == len(ends) == 1 and begins[0] < ends[0]:
        return
    found = sorted([(n, BEGIN) for n in begins] + [(n, END) for n in ends])
    places = ", ".join(f"line {n + lines_before}: {mark}" for n, mark in found)
    raise UserError(
        f"the README on the Hub must have `{BEGIN}` and, after it, `{END}` exactly once, and has {places}. What "
        "between them is evalcard's cannot be told. Remove the marks that are too many there, or all of them with "
        "what is between, then publish again."
    )
