"""A LaTeX table with booktabs' rules; the words are in templates/table.tex.j2."""

import re

from evalcard.card.environment import card_environment, render
from evalcard.card.escape import plain
from evalcard.card.formats.lines import format_view
from evalcard.results.compared import Comparison
from evalcard.results.records import RunRecord

TEMPLATE = "table.tex.j2"

_SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "{": r"\{", "}": r"\}",
    "#": r"\#", "$": r"\$", "%": r"\%", "&": r"\&", "_": r"\_", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "`": r"\textasciigrave{}", "'": r"\textquotesingle{}",
    "±": r"$\pm$", "×": r"$\times$", "∞": r"$\infty$", "–": "--",
}  # fmt: skip
"""All of LaTeX's own characters, quotes, and signs of ours that a font may lack."""
_CHARACTER = re.compile("|".join(map(re.escape, _SPECIAL)))
_HYPHENS = re.compile(r"-(?=-)")
"""LaTeX would make a dash of two."""
_BRACKET = re.compile(r"^(\s*)([\[(*])")
"""At the start of a table's line LaTeX takes it for an argument of the line break before it."""
_MINUS = re.compile(r"(?<![\w.])-(?=\d)")


def latex_table(run: RunRecord, comparison: Comparison) -> str:
    """A ``table`` float to \\input; its preamble needs booktabs alone, and textcomp before LaTeX of 2020."""
    environment = card_environment()
    environment.filters |= {"tex": tex, "figure": figure, "comment": comment}
    return render(environment, TEMPLATE, {"view": format_view(run, comparison)})


def tex(text: str) -> str:
    """Text that is printed as it is, whatever LaTeX would make of it."""
    line = " ".join(plain(text).split())
    escaped = _CHARACTER.sub(lambda found: _SPECIAL[found[0]], _HYPHENS.sub("-\x00", line))
    escaped = escaped.replace("\x00", "{}")
    return _BRACKET.sub(r"\1{\2}", escaped)


def figure(text: str) -> str:
    """A formatted number, with a minus sign for its hyphen."""
    return tex(_MINUS.sub("\N{MINUS SIGN}", text)).replace("\N{MINUS SIGN}", "$-$")


def comment(text: str) -> str:
    """What follows a ``%``: on one line, so that none of it is typeset."""
    return " ".join(plain(text).split())
