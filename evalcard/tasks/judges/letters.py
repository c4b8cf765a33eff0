"""Patterns by which a reply names an option by its letter. Light: the standard library only.

Letters reach as far as the question has options. The words "a" and "I" are no letters: a small letter counts only with
nothing but punctuation behind it, I only where no small word follows, and where nothing announces a letter, A likewise.
Every search is linear in the text, since it runs without a time limit on whatever a model wrote.
"""

import re
from functools import lru_cache

MOST_CHOICES = 10
"""Letters read where the number of options is not known: A to J."""

_DECORATION = re.compile(r"\\(?:text|textbf|mathbf|mathrm|mathit|emph)\s{0,2}\{|[*$`\"{}\u201c\u201d]|\\[()\[\],]")
_BOX = re.compile(r"\\(?:boxed|fbox)\s{0,4}\{?")
_IS = r"(?:(?:is|was|would\sbe|should\sbe|must\sbe|will\sbe)\b(?!\snot\b)\s{0,4}:?|[:=\u2013-])"
_ADVERB = r"(?:(?:therefore|thus|indeed|clearly|most\slikely|probably|definitely|likely|simply),?\s{1,2})?"
_NO_FORMULA = r"(?!\s{0,2}[=+^/\\<>])"
_NOUN = r"(?:(?:the\s{1,2})?(?:correct\s|right\s|best\s)?(?:option|choice|letter|answer)\b\s{0,2}:?\s{0,4})?"


def undecorated(text: str) -> str:
    """Without bold, dollars, quotes and \\text; a box reads as "answer:"."""
    return _DECORATION.sub("", _BOX.sub(" answer: ", text)).strip()


@lru_cache(maxsize=32)
def statement_patterns(num_choices: int) -> dict[str, re.Pattern[str]]:
    """Ways to state a letter, the strongest first, for text without decoration; each has a group ``letter``.

    The last match of the first pattern that matches at all is what the reply states.
    """
    capitals, smalls = letters(num_choices), letters(num_choices).lower()
    letter = (
        rf"(?P<letter>(?-i:[{capitals}](?![\w'\u2019])(?!(?<=I)\s(?!because|since|as\b|and\b|is\b)[a-z]){_NO_FORMULA})"
        rf"|(?-i:[{smalls}](?=[)\].,:;!]{{1,4}}(?:\s|\Z)|[ \t]{{0,8}}(?:\n|\Z))))"
    )
    subject = (
        r"\b(?:answer|(?:correct|right|best)\s(?:option|choice|letter))(?![a-z'])(?:\s(?:to|for)\s[^\n.:?!]{1,80}?)?"
    )
    sources = {
        "answer is": rf"{subject}\s{{0,4}}(?:{_IS}\s{{0,4}}{_ADVERB}{_NOUN}[(\[]?|[(\[]){letter}",
        "nothing else": rf"\A(?:option|choice|answer)?\s{{0,2}}[(\[]?(?P<letter>[{capitals}])[)\].:,;!\s]{{0,8}}\Z",
        "start": (
            rf"\A(?:(?:option|choice)\s)?[(\[]?(?:(?P<letter>(?-i:[{capitals}{smalls}]))[)\].:]{{1,2}}(?:\s(?!or\b|and\b)|\Z))"
        ),
        "start of a line": rf"\A(?:(?:option|choice)\s)?[(\[]?(?P<letter>(?-i:[{capitals}]))[)\]]?[ \t]{{0,8}}\n",
        "start of a reason": (
            rf"\A(?:(?:option|choice)\s)?[(\[]?(?P<letter>(?-i:[{capitals}]))[)\]]?,?\s(?:because|since|as|[-\u2013\u2014])\s"
        ),
        "choose": (
            r"\b(?:pick|choose|select|chose|picked|selected|go\swith|going\swith|opt\sfor)\s{1,2}"
            rf"{_NOUN}[(\[]?{letter}"
        ),
        "is correct": (
            rf"(?<![\w'])(?P<letter>(?-i:[{capitals}]))[)\]]?\s(?:is|seems|must\sbe)\s(?:the\s)?(?:most\s)?"
            r"(?:correct|right|best|true)\b"
        ),
    }
    return {name: re.compile(source, re.IGNORECASE) for name, source in sources.items()}


@lru_cache(maxsize=32)
def mention_patterns(num_choices: int) -> dict[str, re.Pattern[str]]:
    """Mere mentions of a letter, for text as it was written: they decide only where they all agree."""
    capitals = letters(num_choices)
    return {
        "marked": re.compile(rf"(?:\*\*|\(|\[)\(?(?P<letter>[{capitals}])\)?[.:]?(?:\*\*|\)|\])"),
        "alone": re.compile(
            rf"(?<![\w'\u2019.-])(?<!not\s)(?P<letter>[{capitals}])(?![\w'\u2019])"
            rf"(?!(?<=[AI])\s(?!or\b|and\b|is\b)[a-z])(?!-\w){_NO_FORMULA}"
        ),
    }


def letters(num_choices: int) -> str:
    """The first capitals, at least A and at most A to Z."""
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: max(1, num_choices)]
