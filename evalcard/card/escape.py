"""Words of others on a page of Markdown: whatever a name, a task or an answer holds, it stays one piece of plain text.

``$`` is written as a character reference, as the Hub makes formulas of two of them before it reads Markdown, also in
code.
"""

import re
from collections.abc import Iterable

_UNSEEN = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
"""Control characters, marks that turn the direction of what follows, and halves of a character, which no file holds."""
_MARKUP = re.compile(r"[\\`*\[\]|~]|(?<![^\W_])_|_(?![^\W_])")
_REFERENCE = re.compile(r"&(?=#?\w+;)")
_PLAIN_CODE = re.compile(r"[^`|<>&$\\\n]+")
_SPAN = re.compile(r"(`[^`\n]+`)")
_DOLLAR = re.compile(r"\$(?=\$)")
_MARKER = re.compile(r"<!(?=--\s*evalcard:)")


def plain(text: str) -> str:
    """With what cannot be seen, or turns the line round, shown as the sign for it; line ends and tabs are kept."""
    return _UNSEEN.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))


def escape_cell(text: str) -> str:
    """Text that stays inside one line, or one cell of a table, and starts no mark-up, formula or HTML."""
    line = " ".join(plain(text).split())
    marked = _MARKUP.sub(lambda found: f"\\{found[0]}", _REFERENCE.sub("&amp;", line))
    return marked.replace("<", "&lt;").replace("$", "&#36;")


def escape_prose(text: str) -> str:
    """The same for sentences of ours that name things in `code`; what is in it becomes code, all else text."""
    parts = _SPAN.split(" ".join(plain(text).split()))
    return "".join(code(part[1:-1]) if number % 2 else escape_cell_part(part) for number, part in enumerate(parts))


def escape_cell_part(text: str) -> str:
    """``escape_cell`` of a piece of a line, whose blanks at both ends are kept."""
    before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    return before + escape_cell(text) + after if text.strip() else text


def code(text: str) -> str:
    """The text as code on one line, also in a table: between backticks where it holds nothing that ends them."""
    line = " ".join(plain(text).split())
    if not line or _PLAIN_CODE.fullmatch(line):
        return f"`{line}`" if line else "–"
    return "<code>" + re.sub(r"[^\w \-.,:/=+@]", lambda found: f"&#{ord(found[0])};", line) + "</code>"


def fenced(text: str, language: str = "") -> str:
    """A block of code that its content cannot end, nor the section of the card that it stands in."""
    body = _MARKER.sub("<! ", plain(text)).strip("\n")
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", body)), default=0))
    return f"{fence}{language}\n{body}\n{fence}"


def literal(text: str) -> str:
    """A string of Python, on one line."""
    import json

    quoted = json.dumps(" ".join(plain(text).split()), ensure_ascii=False)
    return _DOLLAR.sub("\\\\u0024", quoted)


def shell(words: Iterable[str]) -> str:
    """A command for a shell, on one line. What holds a dollar stands in single quotes, which may end between two."""
    import shlex

    return _DOLLAR.sub("$''", shlex.join(" ".join(plain(word).split()) for word in words))


def on_one_line(text: str) -> str:
    """Figures that belong together, such as a recovery and its interval: no line of a narrow table may end in them."""
    return text.replace(" ", "\u00a0")


def join_words(words: list[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
