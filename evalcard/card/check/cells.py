"""What a cell says: a number as it is printed, nothing, or something that is no number."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

_SIGNS = str.maketrans({"−": "-", "\u2011": "-", "٪": "%", "％": "%"})
_ORNAMENTS = re.compile(r"[¹²³⁰⁴-⁹†‡§↑↓▲▼⬆⬇✓✔✅❌⚠️★☆🔺🔻🟢🔴🟡]")
_ERROR = re.compile(r"\s*(?:±|\+/-|\+-|\\pm)\s*[0-9.]+\s*%?")
_BRACKETS = re.compile(r"\s*(?:\[[^\[\]()]*[\])]|\([^()]*\))$")
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,20}(?:\.[0-9]{1,20})?|\.[0-9]{1,20})")
_COMMA = re.compile(r"[+-]?[0-9]{1,3}(?:\.[0-9]{3})*,[0-9]+|[+-]?[0-9]+,[0-9]+(?:\.[0-9]+)?")
_NOTHING = re.compile(
    r"[-–—./?∅]*|n/?\.?a\.?|none|null|tbd|undefined|not (?:measured|defined|available|reported)", re.I
)

_MOST = 200
"""Characters of a cell that can be a number with what stands around it."""

Kind = Literal["number", "nothing", "comma", "other"]


@dataclass(frozen=True, slots=True)
class Reading:
    """A cell, read."""

    kind: Kind
    """nothing: empty or a dash. comma: a number with a decimal comma, or with one between thousands."""
    number: str = ""
    """As printed, for compare.published; empty where there is none."""

    @property
    def is_number(self) -> bool:
        """Whether there is one to reckon with."""
        return self.kind == "number"


def undecorated(text: str) -> str:
    """Without marks and standard errors, minus and percent signs made plain."""
    return _ERROR.sub("", _ORNAMENTS.sub("", text.translate(_SIGNS))).strip()


@lru_cache(maxsize=4096)
def read_cell(text: str) -> Reading:
    """Strips what stands around a number: percent signs, standard errors, intervals, remarks in brackets, marks.

    text: without mark-up, as ``grid.plain`` leaves it.
    """
    if len(text) > _MOST:
        return Reading("other")
    rest = undecorated(text)
    while (shorter := _BRACKETS.sub("", rest)) != rest:
        rest = shorter.strip()
    rest = rest.removesuffix("%").strip()
    if _NUMBER.fullmatch(rest):
        digits = rest.removeprefix("+")
        return Reading("number", re.sub(r"^(-?)\.", r"\g<1>0.", digits))
    if _COMMA.fullmatch(rest):
        return Reading("comma")
    if _NOTHING.fullmatch(rest) and not (text.strip() and not rest):
        return Reading("nothing")
    return Reading("other")
