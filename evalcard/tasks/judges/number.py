"""The judge ``number``: the number a reply ends on, compared exactly. Light: the standard library only.

Where the reply states its answer, that number counts: a line ``#### 18`` (the first, as in GSM8K), a box, the last
"the answer is 18" or "Answer: 18"; else the number on which the reply closes (closing.py). What follows an invented
"Question:" is not read, nor a number that is denied (wording.py).

Decisions: separators of thousands, currency signs and units are dropped (numerals.py). A percent sign is a unit, too:
28 % is 28 and not 0.28. Fractions ("2/3") and mixed numbers ("1 1/2") are one number. Nothing is rounded: 18.0 is 18,
3.14 is not 3.1416. A box that is part of a longer formula (``\\boxed{3}/4``) states no number, but for its sign.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from evalcard.tasks.judges.closing import bold_answer, closing_number
from evalcard.tasks.judges.judge import Answer, Judgement
from evalcard.tasks.judges.numerals import number_in, numbers_in
from evalcard.tasks.judges.statement import answer_statements, before_invented_question, final_box, first_sentence
from evalcard.tasks.judges.surroundings import whole_expression
from evalcard.tasks.judges.wording import plain

_MARKED = re.compile(r"####[ \t]{0,8}(?P<answer>[^\n]{1,200})")
_HEADING = re.compile(r"\d{1,3}[.):]\s+[A-Za-z*]")


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
    text = plain(text)
    kept = before_invented_question(text)
    found = _in_statements(kept)
    if found is None and kept != text and not numbers_in(kept):
        kept = text
        found = _in_statements(kept)
    if found is None:
        bold = bold_answer(kept)
        found = _last_of_sum(bold) if bold and numbers_in(bold) else closing_number(kept)
    return found or None


def _in_statements(text: str) -> str | None:
    """Empty where a box was cut off: then the reply has no answer."""
    for marked in _MARKED.finditer(text):
        numbers = numbers_in(marked["answer"])
        # "#### 1. Find the rate" and "#### Step 1" are headings.
        starts = marked["answer"].lstrip("*$\\( -\u2212\u20ac\u00a3\u00a5\u20b9")[:1]
        if numbers and (starts.isdigit() or starts == ".") and not _HEADING.match(marked["answer"]):
            return numbers[0]
    box = final_box(text)
    if box is not None and (not box or numbers_in(box)):
        return _of_box(text, box) if box else ""
    for statement in answer_statements(text):
        if numbers_in(first_sentence(statement)):
            return _last_of_sum(first_sentence(statement))
    return None


def _of_box(text: str, box: str) -> str:
    """Empty where the box is only a part of a formula: its number is not the answer."""
    whole = whole_expression(text, box)
    if whole == box:
        return _last_of_sum(box)
    return whole if whole == "-" + box and numbers_in(whole) else ""


def _last_of_sum(statement: str) -> str:
    """The first number after the last equals sign: "5 + 3 = 8" states 8, "12 of 20" states 12."""
    after = numbers_in(statement.rpartition("=")[2])
    return after[0] if after else numbers_in(statement)[0]
