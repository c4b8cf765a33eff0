"""The formula that a reply or a worked solution gives as its answer. Light: the standard library only.

A box counts before everything (the last complete one; a box that was cut off leaves no answer), then a GSM8K line
``#### 18``, then the last "the answer is" or "Answer:", then the last formula between dollars or brackets (or the last
number, where that stands behind it), then a reply that is short, and at last the last number. What follows an invented
"Question:" is not read.
"""

import re

from evalcard.tasks.judges.number import stated_number
from evalcard.tasks.judges.statement import answer_statements, before_invented_question, final_box, first_sentence

_SPAN = re.compile(
    r"(?<![\\$])\$\$(?P<display>[^$]{1,2000})\$\$"
    r"|(?<!\\)\\\[(?P<bracket>(?:[^\\]|\\[^\[\]]){1,2000})\\\]"
    r"|(?<!\\)\\\((?P<parenthesis>(?:[^\\]|\\[^()]){1,2000})\\\)"
    r"|(?<![\\$\w])\$(?P<dollar>(?:[^\s$]|\\\$)(?:[^$\n]|(?<=\\)\$){0,500}?(?<![\s\\])|[ ][^$\n]{1,500}?[ ])\$(?![\d$])"
)
_BETWEEN = re.compile(r"\s{0,4}(?:,|and\b|or\b|,\s?and\b|,\s?or\b)\s{0,4}(?:[A-Za-z]\s?=\s?)?")
_ANSWER_MARK = re.compile(r"####[ \t]{0,8}([^\n]{1,400})")
_WORD_AHEAD = re.compile(
    r"(?<![\\A-Za-z])(?!(?:sin|cos|tan|cot|sec|csc|log|ln|sqrt|pi|exp|mod|or|and|percent|pct|inf)\b)[A-Za-z]{2,}"
)
_COMMAND_TEXT = re.compile(r"\\[A-Za-z]{1,20}\s?\{[^{}]{0,200}\}")
_POWER = re.compile(r"\^\{?\d{1,3}\}?")
_HAS_SIGN = re.compile(r"[\d\\=+*/^<>()]")
_SENTENCE = re.compile(r"\\(?:text|mbox|textbf|mathrm)\s?\{([^{}]*[A-Za-z]\s[^{}]*\d[^{}]*)\}\.?")
"""A box that holds words and a number somewhere in them."""
_LONGEST_SHORT_REPLY = 120


def final_formula(text: str) -> str | None:
    """The answer as it is written in a reply; None where it has none, also where it was cut off inside its box."""
    kept = before_invented_question(text)
    found = _found_in(kept)
    return found if found is not None or kept == text else _found_in(text)


def _found_in(text: str) -> str | None:
    box = final_box(text)
    if box is not None:
        sentence = _SENTENCE.fullmatch(box)
        return (_found_in(sentence[1]) if sentence else box) or None
    marked = _ANSWER_MARK.search(text)
    if marked and any(sign.isdigit() for sign in marked[1]):
        return marked[1].strip()
    for statement in answer_statements(text):
        stated = _stated(statement)
        if stated:
            return stated
    spans, after = _spans(text)
    if spans:
        return stated_number(after) or spans[-1]
    reply = text.strip()
    if "\n" not in reply and len(reply) <= _LONGEST_SHORT_REPLY:
        short = _before_words(reply)
        rest = _POWER.sub("", reply[reply.find(short) + len(short) :])
        if short and not any(sign.isdigit() for sign in rest):
            return short
    return stated_number(text) or (
        reply if reply and len(reply) <= _LONGEST_SHORT_REPLY and "\n" not in reply else None
    )


def gold_formula(gold: str) -> str:
    """The answer in a gold: after ``####`` of a GSM8K solution, in the box of a MATH solution, else all of it."""
    _, marked, after = gold.partition("####")
    if marked:
        return after.strip().partition("\n")[0].strip()
    return final_box(gold) or gold.strip()


def _stated(statement: str) -> str:
    """The formula that a statement begins with, or the only words it has."""
    spans, _ = _spans(statement)
    sentence = first_sentence(statement).strip(" *_")
    if spans and not re.match(r"[-\d.]+\b(?!\s?\$)", sentence):
        return spans[0]
    return _before_words(sentence) or sentence


def _spans(text: str) -> tuple[list[str], str]:
    """Formulas between delimiters, those joined by "and", "or" or a comma as one list; and the text after the last."""
    groups: list[str] = []
    end = 0
    for span in _SPAN.finditer(text):
        content = next(group for group in span.groups() if group is not None).strip()
        if groups and _BETWEEN.fullmatch(text, end, span.start()):
            groups[-1] += ", " + content
        else:
            groups.append(content)
        end = span.end()
    return groups, text[end:]


def _before_words(sentence: str) -> str:
    """The formula at the start of a sentence, up to its first word; empty where there is none."""
    word = _WORD_AHEAD.search(_COMMAND_TEXT.sub(lambda found: "#" * len(found[0]), sentence))
    start = (sentence[: word.start()] if word else sentence).strip(" ,;:*_")
    return start if _HAS_SIGN.search(start) or word is None else ""
