"""The judge ``number``: the number a reply ends on, compared exactly. Light: the standard library only.

Where the reply states its answer, that number counts: a line ``#### 18`` (the first, as in GSM8K), a box, the last
"the answer is 18" or "Answer: 18"; else the last number. What follows an invented "Question:" is not read.

Decisions: separators of thousands, currency signs and units are dropped. A percent sign is a unit, too: 28 % is 28
and not 0.28. Fractions ("2/3") and mixed numbers ("1 1/2") are one number. Nothing is rounded: 18.0 is 18, 3.14 is
not 3.1416.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from evalcard.tasks.judges.judge import Answer, Judgement
from evalcard.tasks.judges.statement import answer_statements, before_invented_question, final_box, first_sentence

_THOUSANDS = re.compile(r"(?<=\d)(?:,?\\[!,]|\{,\}|[\u2009\u202f\u00a0])\s?(?=\d{3}(?!\d))")
_LATEX_FRACTION = re.compile(r"\\[dt]?frac\s{0,2}\{\s{0,4}(-?\d{1,400})\s{0,4}\}\s{0,2}\{\s{0,4}(\d{1,400})\s{0,4}\}")
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
_NUMBER = re.compile(
    r"(?<![A-Za-z_\d])"
    r"(?P<sign>(?<![\w)\]}.])[-\u2212])?[$\u20ac\u00a3\u00a5\u20b9]?(?P<inner_sign>(?<=[$\u20ac\u00a3\u00a5\u20b9])-)?"
    r"(?:(?P<whole>\d{1,400})\s{1,2}(?P<top>\d{1,400})/(?P<bottom>\d{1,400})"
    r"|(?P<over>" + _DIGITS + r")\s?/\s?(?P<under>" + _DIGITS + r")(?!/?\d)"
    r"|(?P<digits>" + _DIGITS + r")(?:[eE](?P<exponent>[-+]?\d{1,3})(?![\w.])"
    r"|\s?(?:[x\u00d7*]|\\times|\\cdot)\s?10\s?\^\s?\{?(?P<power>[-\u2212]?\d{1,3})\}?)?)"
)
_MARKED = re.compile(r"####[ \t]{0,8}(?P<answer>[^\n]{1,200})")
_HEADING = re.compile(r"\d{1,3}[.):]\s+[A-Za-z*]")
_MAX_DIGITS = 400


@dataclass(frozen=True, slots=True)
class NumberJudge:
    name: str = "number"

    def judge(self, answers: Sequence[Answer]) -> list[Judgement]:
        return [self._judge(answer) for answer in answers]

    def _judge(self, answer: Answer) -> Judgement:
        found = stated_number(answer.text)
        if found is None:
            return Judgement(None, False)
        value = number_in(found)
        golds = [stated_number(gold) for gold in answer.golds]
        return Judgement(found, any(gold is not None and number_in(gold) == value for gold in golds))

    def check_gold(self, gold: str) -> str | None:
        return None if stated_number(gold) is not None else f"{gold[:80]!r} holds no number"


def stated_number(text: str) -> str | None:
    """The number that a reply or a worked solution gives as its answer, as it is written there; None for none."""
    kept = before_invented_question(text)
    found = _in_statements(kept)
    if found is None and kept != text and not _numbers(kept):
        kept = text
        found = _in_statements(kept)
    if found is None:
        numbers = _numbers(kept)
        found = numbers[-1] if numbers else ""
    return found or None


def _in_statements(text: str) -> str | None:
    """Empty where a box was cut off: then the reply has no answer."""
    for marked in _MARKED.finditer(text):
        numbers = _numbers(marked["answer"])
        # "#### 1. Find the rate" and "#### Step 1" are headings.
        starts = marked["answer"].lstrip("*$\\( -\u2212\u20ac\u00a3\u00a5\u20b9")[:1]
        if numbers and (starts.isdigit() or starts == ".") and not _HEADING.match(marked["answer"]):
            return numbers[0]
    box = final_box(text)
    if box is not None and (not box or _numbers(box)):
        return _last_of_sum(box) if box else ""
    for statement in answer_statements(text):
        if _numbers(first_sentence(statement)):
            return _last_of_sum(first_sentence(statement))
    return None


def _last_of_sum(statement: str) -> str:
    """The first number after the last equals sign: "5 + 3 = 8" states 8, "12 of 20" states 12."""
    after = _numbers(statement.rpartition("=")[2])
    return after[0] if after else _numbers(statement)[0]


def _numbers(text: str) -> list[str]:
    cleaned = _LATEX_FRACTION.sub(_slashed, _THOUSANDS.sub("", text))
    return [found[0].strip() for found in _NUMBER.finditer(cleaned) if _value(found) is not None]


def _slashed(fraction: re.Match[str]) -> str:
    """A fraction behind a digit is the rest of a mixed number, and a sign stays where it was."""
    is_rest = fraction.string[fraction.start() - 1 : fraction.start()].isdigit()
    return (" " if is_rest else "") + f"{fraction[1]}/{fraction[2]}"


def number_in(text: str) -> Fraction | None:
    """The exact value of the first number in a text."""
    return next((value for found in _NUMBER.finditer(text) if (value := _value(found)) is not None), None)


def _value(found: re.Match[str]) -> Fraction | None:
    """None for a division by zero and for more digits than a number of anyone's has."""
    if len(found[0]) > _MAX_DIGITS:
        return None
    parts = {name: text.replace(",", "") for name, text in found.groupdict().items() if text}
    if "whole" in parts:
        bottom = int(parts["bottom"])
        value = int(parts["whole"]) + Fraction(int(parts["top"]), bottom) if bottom else None
    elif "over" in parts:
        under = Fraction(parts["under"])
        value = Fraction(parts["over"]) / under if under else None
    else:
        exponent = (parts.get("exponent") or parts.get("power") or "0").replace("\u2212", "-")
        value = Fraction(parts["digits"]) * Fraction(10) ** int(exponent)
    is_negative = bool(parts.get("sign") or parts.get("inner_sign"))
    return -value if value is not None and is_negative else value
