"""Lines of 80 columns for a terminal: labelled facts, and texts of others made harmless."""

import re
import shutil
import sys
import textwrap

import click

WIDTH = 80
_LABEL = 11
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What moves a terminal's cursor, changes its state or turns round what follows; a prompt may hold any of it."""
_COMMAND = re.compile(r"^(\s*)::")


def visible(text: str) -> str:
    """The text without what a terminal would obey."""
    return _CONTROL.sub(_number, text)


def _number(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def disarmed(text: str) -> str:
    """Lines that neither a terminal nor a build log obeys: GitHub takes ``::`` at the start of a line, and ``##[``
    anywhere in it, for a command, also on stderr."""
    lines = visible(text).replace("##[", "#\\x23[").split("\n")
    return "\n".join(_COMMAND.sub(r"\1\\x3a:", line) for line in lines)


def on_one_line(text: str) -> str:
    """Likewise, without the line breaks that names of others may hold."""
    return disarmed(" ".join(line.strip() for line in text.splitlines()))


def tell(text: str, *, err: bool = False) -> None:
    """Say it on stdout, or on stderr: wrapped on a terminal, each line as it is for a program that reads it."""
    stream = sys.stderr if err else sys.stdout
    if stream is None or not stream.isatty():  # None: it was closed before the start
        click.echo(text, err=err)
        return
    width = shutil.get_terminal_size((WIDTH, 24)).columns
    for line in text.split("\n"):
        indent = " " * (len(line) - len(line.lstrip())) + "  "
        # A path or a command that is parted can be copied no more.
        parts = textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)
        for part in parts or [""]:
            click.echo(part, err=err)


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
