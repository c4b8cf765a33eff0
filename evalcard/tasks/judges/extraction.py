"""The formula that a reply or a worked solution gives as its answer. Light: the standard library only.

A box counts before everything (the last complete one; a box that was cut off leaves no answer), then a GSM8K line
``#### 18``, then the last "the answer is" or "Answer:", then what is bold in the last line, then the last formula
between dollars or brackets (or a number, where that stands behind it), then a reply that is short or what it says of
something ("The area is 12"), and at last the number that the reply closes on. What follows an invented "Question:" is
not read, nor what is denied, nor signs that end a proof. An operator at a box takes in the formula around it
(surroundings.py). Of an exact value and its decimals ("5/3 or 1.67") the first counts.
"""

import re

from evalcard.tasks.judges.closing import bold_answer
from evalcard.tasks.judges.number import stated_number
from evalcard.tasks.judges.statement import answer_statements, before_invented_question, final_box, first_sentence
from evalcard.tasks.judges.surroundings import whole_expression
from evalcard.tasks.judges.wording import plain

_SPAN = re.compile(
    r"(?<![\\$])\$\$(?P<display>[^$]{1,2000})\$\$"
    r"|(?<!\\)\\\[(?P<bracket>(?:[^\\]|\\[^\[\]]){1,2000})\\\]"
    r"|(?<!\\)\\\((?P<parenthesis>(?:[^\\]|\\[^()]){1,2000})\\\)"
    r"|(?<![\\$\w])\$(?P<dollar>(?:[^\s$]|\\\$)(?:[^$\n]|(?<=\\)\$){0,500}?(?<![\s\\])|[ ][^$\n]{1,500}?[ ])\$(?![\d$])"
)
_BETWEEN = re.compile(r"\s{0,4}(?:,|and\b|or\b|,\s?and\b|,\s?or\b)\s{0,4}(?:[A-Za-z]\s?=\s?)?")
_ANSWER_MARK = re.compile(r"####[ \t]{0,8}([^\n]{1,400})")
_WORD_AHEAD = re.compile(
    r"(?<![\\A-Za-z])(?!(?:sin|cos|tan|cot|sec|csc|log|ln|sqrt|pi|exp|mod|or|and|percent|pct|inf)\b)"
    r"(?:[A-Za-z]{2,}|[\u0400-\u1fff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])"
)
"""Two Latin letters, or one of a script that formulas do not use."""
_COMMAND_TEXT = re.compile(r"\\[A-Za-z]{1,20}\s?\{[^{}]{0,200}\}")
_POWER = re.compile(r"\^\{?\d{1,3}\}?")
_HAS_SIGN = re.compile(r"[\d\\=+*/^<>()]")
_SENTENCE = re.compile(r"\\(?:text|mbox|textbf|mathrm)\s?\{([^{}]*[A-Za-z]\s[^{}]*\d[^{}]*)\}\.?")
"""A box that holds words and a number somewhere in them."""
_TEXT_AHEAD = re.compile(r"\\(?:text|mbox|textbf|mathrm)\s?\{[^{}]*\b(?:is|are|be|equals)[\s:]*\}[\s:]*(?=\S)")
_PROOF_END = re.compile(
    r"(?:\\(?:blacksquare|square|Box|qedsymbol|qed)(?![A-Za-z])|[\u220e\u25a0\u25a1\u25fb\u25fc.\s])+"
)
_DECIMALS = re.compile(
    r"(?P<exact>.*(?:\\[dt]?frac|\\sqrt|\\pi|/|\u221a|\u03c0).*?),?\s?"
    r"(?:\bor\b|\bi\.e\.,?|\(?(?:which\sis\s)?(?:\\approx|\u2248|about|approx\.?|approximately|roughly))\s?"
    r"(?:(?:\\approx|\u2248|about|approx\.?|approximately|roughly)\s?)?\$?-?\d*\.\d+\)?\s?[A-Za-z]*"
)
_LABEL = re.compile(
    r"(?P<label>[A-Za-z][A-Za-z' ]{1,80}?)(?:\s(?P<verb>is|are|equals|was|becomes|falls\son)\s"
    r"(?:equal\sto\s|(?:an?|the)\s)?|\s?[:=]\s{0,4})(?P<value>\S.*)"
)
_SUM = re.compile(r"[^A-Za-z=]*\d[^A-Za-z=]*=.*")
_REASON = re.compile(r",?\s+(?:since|because|whereas)\s|,\s(?:as|which|who|whose|while|given|so|not|for)\s|\s\(|;\s")
_LONGEST_SHORT_REPLY = 120


def final_formula(text: str) -> str | None:
    """The answer as it is written in a reply; None where it has none, also where it was cut off inside its box."""
    text = plain(text)
    kept = before_invented_question(text)
    found = _found_in(kept)
    return found if found is not None or kept == text else _found_in(text)


def _found_in(text: str) -> str | None:
    box = final_box(text)
    if box is not None:
        sentence = _SENTENCE.fullmatch(box)
        return (_found_in(sentence[1]) if sentence else whole_expression(text, _TEXT_AHEAD.sub("", box))) or None
    marked = _ANSWER_MARK.search(text)
    if marked and any(sign.isdigit() for sign in marked[1]):
        return marked[1].strip()
    for statement in answer_statements(text):
        stated = _stated(statement)
        if stated:
            return stated
    bold = bold_answer(text)
    if bold:
        return _stated(bold)
    spans, after = _spans(text)
    if spans:
        return stated_number(after) or spans[-1]
    reply = text.strip()
    is_short = "\n" not in reply and len(reply) <= _LONGEST_SHORT_REPLY
    return (_of_short(reply) if is_short else None) or stated_number(text) or (reply if reply and is_short else None)


def _of_short(reply: str) -> str | None:
    """The one formula of a short reply, or what it says of something in words; None where it has other numbers."""
    sentence = first_sentence(reply)
    has_more = any(sign.isdecimal() for sign in reply[len(sentence) :])
    label = None if has_more else _LABEL.fullmatch(sentence)
    # Of a sum behind a label ("The cost is 2,000 + 500 = 2,500") the last number counts, as anywhere else.
    for part in (reply, label["value"] if label and not _SUM.fullmatch(label["value"]) else ""):
        short = _before_words(part)
        if short and not any(sign.isdecimal() for sign in _POWER.sub("", part[part.find(short) + len(short) :])):
            return short
    if any(sign.isdecimal() for sign in reply):
        return None
    if reply.startswith("There is no ") or reply.startswith("There are no "):
        return "no " + sentence.partition(" no ")[2]
    return _without_reason(label["value"]) if label and label["verb"] else None


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
    decimals = _DECIMALS.fullmatch(sentence) if len(sentence) <= _LONGEST_SHORT_REPLY else None
    sentence = decimals["exact"] if decimals else sentence
    return _before_words(sentence) or _without_reason(sentence)


def _without_reason(words: str) -> str:
    """Words up to where a reason or an aside follows them."""
    return _REASON.split(words, maxsplit=1)[0].strip(' *_"')


def _spans(text: str) -> tuple[list[str], str]:
    """Formulas between delimiters, those joined by "and", "or" or a comma as one list; and the text after the last."""
    groups: list[str] = []
    end = 0
    for span in _SPAN.finditer(text):
        content = next(group for group in span.groups() if group is not None).strip()
        if _PROOF_END.fullmatch(content):
            continue
        if groups and _BETWEEN.fullmatch(text, end, span.start()):
            groups[-1] += ", " + content
        else:
            groups.append(content)
        end = span.end()
    return groups, text[end:]


def _before_words(sentence: str) -> str:
    """The formula at the start of a sentence, up to its first word; empty where there is none."""
    word = _WORD_AHEAD.search(_COMMAND_TEXT.sub(lambda found: "#" * len(found[0]), sentence))
    start = (sentence[: word.start()] if word else sentence).strip(" ,;:*_").removesuffix("(").rstrip(" ,;:*_")
    return start if _HAS_SIGN.search(start) or word is None else ""
