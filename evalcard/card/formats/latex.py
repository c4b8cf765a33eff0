"""A LaTeX table with booktabs' rules; the words are in templates/table.tex.j2."""

import re
import unicodedata
from collections.abc import Iterator

from evalcard.card.environment import card_environment, render
from evalcard.card.escape import plain
from evalcard.card.formats.lines import FormatView, format_view
from evalcard.results.compared import Comparison
from evalcard.results.records import RunRecord

TEMPLATE = "table.tex.j2"
SIGN = r"\evalcardsign"
"""The template's command for a sign that LaTeX may not know: its number, and itself."""

_SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "{": r"\{", "}": r"\}",
    "#": r"\#", "$": r"\$", "%": r"\%", "&": r"\&", "_": r"\_", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"{\char34}", "`": r"\textasciigrave{}", "'": r"\textquotesingle{}",
    "±": r"$\pm$", "×": r"$\times$", "∞": r"$\infty$", "–": "--",
    "\N{MINUS SIGN}": "$-$", "\ufffd": "?",
}  # fmt: skip
"""All of LaTeX's own characters, quotes, and signs of ours that a font may lack. \\textquotedbl would want T1."""
_SIGN = re.compile(r"[^\x00-\u017f\u2013\u2014\u2018-\u201a\u201c-\u201e\u2020-\u2022\u2026\u20ac\u2122]")
"""All but Latin letters and the signs of print that pdfLaTeX knows without being told; another one would end it."""
_ACCENTED = re.compile(r"[\u00a0-\u017f]")
_CHARACTER = re.compile("|".join(map(re.escape, _SPECIAL)))
_HYPHENS = re.compile(r"-(?=-)")
"""LaTeX would make a dash of two."""
_BRACKET = re.compile(r"^(\s*)([\[(*])")
"""At the start of a table's line LaTeX takes it for an argument of the line break before it."""
_MINUS = re.compile(r"(?<![\w.])-(?=\d)")


def latex_table(run: RunRecord, comparison: Comparison) -> str:
    """A ``table`` float to \\input; its preamble needs booktabs, T1 for some accented letters (the first line says
    so), and textcomp before LaTeX of 2020."""
    environment = card_environment()
    environment.filters |= {"tex": tex, "figure": figure, "comment": comment}
    view = format_view(run, comparison)
    printed = "".join([view.baseline, *_titles(view)])
    names = {"view": view, "has_signs": rf"{SIGN}{{" in tex(printed), "has_accents": bool(_ACCENTED.search(printed))}
    return render(environment, TEMPLATE, names)


def _titles(view: FormatView) -> Iterator[str]:
    """What is not ours to word."""
    for part in view.parts:
        yield part.title
        yield from (line.title for line in part.lines)
    yield from (line.title for line in view.scores)


def tex(text: str) -> str:
    """Text that is printed as it is, whatever LaTeX would make of it."""
    line = " ".join(plain(unicodedata.normalize("NFC", text)).split())
    escaped = _CHARACTER.sub(lambda found: _SPECIAL[found[0]], _HYPHENS.sub("-\x00", line))
    escaped = escaped.replace("\x00", "{}")
    escaped = _SIGN.sub(lambda found: f"{SIGN}{{{ord(found[0]):04X}}}{{{found[0]}}}", escaped)
    return _BRACKET.sub(r"\1{\2}", escaped)


def figure(text: str) -> str:
    """A formatted number, with a minus sign for its hyphen."""
    return tex(_MINUS.sub("\N{MINUS SIGN}", text))


def comment(text: str) -> str:
    """What follows a ``%``: on one line, so that none of it is typeset."""
    return " ".join(plain(text).split())
