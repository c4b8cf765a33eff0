"""A box that is only a part of the formula around it: ``-\\boxed{3}``, ``\\boxed{3}/4``. Light: standard library only.

An operator right before or behind the box makes the rest of its formula a part of the answer. Where an equals sign
follows in the same formula, the box fills a gap of it (``2 + \\boxed{3} = 5``) and is the answer alone. A dash between
spaces after a word or at the start of a line is punctuation; degrees and ordinals are no powers.
"""

import re

from evalcard.tasks.judges.statement import around_final_box

_READ_LEN = 200
_STARTS = re.compile(
    r"=|\n|\$|\\\[|\\\(|:|<|>|\\approx|\u2248|[;,]\s|[.?!]\s|(?<![\\A-Za-z])[A-Za-z]{2,}(?![A-Za-z{])|[&{]|\*\*"
)
_ENDS = re.compile(
    r"=|\n|\$|\\\]|\\\)|\\approx|\u2248|[;,]|[.?!](?!\d)|(?<![\\A-Za-z])[A-Za-z]{2,}|[&}]\s|\*\*|\\(?:text|mbox)"
)
_IN_FORMULA = frozenset(("=", "$", "\\[", "\\(", "<", ">"))
_OPERATOR_BEFORE = re.compile(
    r"(?:[-\u2212+^/\u00d7\u00b7*]|\\(?:cdot|times|div|pm|mp|sqrt))\s{0,3}(?:\\left)?[({]?\s?\Z"
)
_OPERATOR_AFTER = re.compile(
    r"\s{0,3}(?:/\s?[\d{\\(]|\^\s?\{?\s?[-\d]+(?![\da-z]|\s?\\circ)|\\(?:cdot|times|div)(?![A-Za-z])|[*\u00d7\u00b7]\s?\d|[-\u2212+]\s?[\d\\(])"
)
_NUMBER = re.compile(r"[\d.,]+|\\[dt]?frac\s?\{\d+\}\s?\{\d+\}")
_DASH = re.compile(r"\s{0,8}[-\u2212+*]\s{1,8}")


def whole_expression(text: str, box: str) -> str:
    """The formula that the final box stands in, as far as it is part of the answer; the box alone where none is."""
    before, after = around_final_box(text)
    head, tail = _head(before[-_READ_LEN:]), _tail(after[:_READ_LEN])
    end = _ENDS.search(after, 0, _READ_LEN)
    if not head and not tail or (end and end[0] == "="):
        return box
    if head in ("-", "\u2212") and not tail and _NUMBER.fullmatch(box):
        return "-" + box
    return f"{head}({box}){tail}"


def _head(before: str) -> str:
    starts = list(_STARTS.finditer(before))
    delimiter = starts[-1][0] if starts else ""
    head = before[starts[-1].end() :] if starts else before
    if not _OPERATOR_BEFORE.search(head) or (delimiter not in _IN_FORMULA and _DASH.fullmatch(head)):
        return ""
    return head.strip()


def _tail(after: str) -> str:
    if not _OPERATOR_AFTER.match(after):
        return ""
    end = _ENDS.search(after)
    return after[: end.start()].strip() if end else after.strip()
