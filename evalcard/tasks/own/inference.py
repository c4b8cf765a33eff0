"""How the answers to a data file of one's own are judged where that is not said: by the look of its golds. Light."""

import re
from collections.abc import Sequence

from evalcard.errors import UserError
from evalcard.tasks.own.columns import Question

_NUMBER = re.compile(
    r"[-+\u2212]?[$€£]?\s?(\d{1,3}(,\d{3})+|\d+)?(\.\d+)?\s?%?|[-+]?\d+/\d+|[-+]?\d+(\.\d+)?[eE][-+]?\d+"
)
_MATHS = re.compile(
    r"\\[A-Za-z]+|\\[({\[]"  # a LaTeX command or bracket
    r"|[\w)}\]]\s?\^\s?[\w{(+-]"  # a power
    r"|\$(?=\S)[^$\n]+(?<=\S)\$(?!\d)"  # between dollars, but not two prices in a sentence
)
"""A date or a range of pages has none of them."""
_FILE_PATH = re.compile(r"[A-Za-z]:\\")
_LETTER = re.compile(r"\(?([A-Z])\)?")
_OPTION = re.compile(r"^[ \t]*\(?([A-Z])[).:][ \t]*\S", re.MULTILINE)
_LAST_LETTER = "J"
"""Single letters beyond it are seldom the names of options."""
_LONG = 100
"""Characters from which an answer is seldom repeated word for word."""


def letters_offered(text: str) -> list[str]:
    """Letters of the options a question lists on lines of their own (``A. red``, ``(B) green``), in order from A."""
    found = _OPTION.findall(text)
    offered = [chr(ord("A") + place) for place in range(len(found))]
    return offered if found == offered and len(found) >= 2 else []


def letter_of(gold: str) -> str | None:
    """The letter of ``B`` or ``(B)``; None for any other text."""
    match = _LETTER.fullmatch(gold.strip())
    return match[1] if match else None


def infer_judge(questions: Sequence[Question], name: str) -> tuple[str, str]:
    """(judge, why). Raises UserError where nothing fits, so that it must be said."""
    golds = [gold.strip() for question in questions for gold in question.golds]
    if all(_is_number(gold) for gold in golds):
        return "number", "every answer is a number"
    if all(_is_number(gold) or _is_formula(gold) for gold in golds):
        return "math", "every answer is a number or a formula"
    if all(_names_options(question) for question in questions):
        return "choice", "every answer is the letter of an option in its question"
    if count := num_letters(questions):
        return "choice", f"every answer is one letter, so its choices are A to {chr(ord('A') + count - 1)}"
    shortest = [min(len(gold) for gold in question.golds) for question in questions]
    if sorted(shortest)[len(shortest) // 2] > _LONG:
        raise UserError(
            f"{name}: most answers are longer than {_LONG} characters, and such texts are seldom repeated word for "
            f"word. Say how to score them: {name}:exact, :contains or :regex=PATTERN, or shorten the answers to what "
            "must be found."
        )
    return "contains", "the answers are short texts"


def num_letters(questions: Sequence[Question]) -> int:
    """How many letters the answers choose among where not every question lists them: up to the largest that is an
    answer or is offered. 0 where an answer is no letter up to J or is not among those its question lists, where all
    answers are the same letter, and where every question says it itself."""
    golds = [letter_of(gold) for question in questions for gold in question.golds]
    known = {gold for gold in golds if gold is not None and gold <= _LAST_LETTER}
    if None in golds or len(known) < 2 or known != set(golds) or any(one.choices is not None for one in questions):
        return 0
    offered = [letters_offered(question.text) for question in questions]
    if all(offered) or any(some and not _names_options(one) for one, some in zip(questions, offered, strict=True)):
        return 0
    return max(ord(letter) for letter in known.union(*offered)) - ord("A") + 1


def _is_number(gold: str) -> bool:
    return bool(_NUMBER.fullmatch(gold)) and any(char.isdigit() for char in gold)


def _is_formula(gold: str) -> bool:
    return bool(_MATHS.search(gold)) and not _FILE_PATH.match(gold)


def _names_options(question: Question) -> bool:
    offered = letters_offered(question.text)
    return bool(offered) and all(letter_of(gold) in offered for gold in question.golds)
