"""A reply made plain before its answer is looked for: digits, signs, denials, courtesies. Light: standard library only.

Decisions: the digits of every script are digits, and full-width signs are plain ones. "negative 3" is -3, and so is
"minus 3" or "- 3" where a value is stated ("is minus 3", "= - 3"; "10 minus 3" is a difference and "- 3 eggs" an
item of a list). "2 million" is 2000000. A number that the reply denies ("is not 18", "cannot be 18", "I don't think
that the answer is 18") is no answer and is left out, and so is a last sentence that only offers more help.

Every search here is linear in the text, since it runs without a time limit on whatever a model wrote.
"""

import re
import unicodedata
from decimal import Decimal

_WIDE = {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
_VALUE = (
    r"(?:\*\*|\$|\\\(|\\\[){0,2}\s?"
    r"(?:\\(?:boxed|fbox)\s?\{[^{}]{0,60}\}|[-\u2212]?\\?[$\u20ac\u00a3\u00a5\u20b9]?\d(?:[\d.,/]{0,40}\d)?)"
    r"(?:\*\*|\$|\\\)|\\\]){0,2}"
)
_NOT = r"(?:\b(?:not|never|cannot)|n['\u2019]t)"
_DENIED = re.compile(
    rf"(?P<denial>{_NOT}(?:\s(?:be|equal|equal\sto|exactly|actually|simply|necessarily|possibly))?[\s:]\s?"
    rf"|{_NOT}\s(?:think|believe|say|guess|suppose|expect)\b[^.!?,;\n\d]{{0,60}}?"
    rf"|\b(?:doubt|unlikely|false|untrue)\s(?:that|if|whether)\b[^.!?,;\n\d]{{0,60}}?)" + _VALUE + r"(?![\d\w])",
    re.IGNORECASE,
)
_NEGATIVE = re.compile(r"\bnegative\s(?P<open>(?:\$|\\\()?)(?=[$.]?\d|\\[dt]?frac)", re.IGNORECASE)
_MINUS = re.compile(
    r"(?P<stated>(?:\b(?:is|are|be|was|equals|to)|[=:])[ ]?[*]{0,2}(?:\$|\\\()?|\A[*]{0,2})"
    r"(?:[ ]?minus[ ]|(?<!\A)[ ]?[-\u2212][ ])(?P<open>\$?)(?=[.]?\d)",
    re.IGNORECASE,
)
_SCALED = re.compile(
    r"(?<![\w.,])(\d[\d,]{0,30}(?:\.\d{1,30})?)\s?(thousand|million|billion|trillion)\b", re.IGNORECASE
)
_ZEROS = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_COURTESY = re.compile(
    r"(?:\n|(?<=[.!?*)$\]])\s)\s{0,8}[*_>]{0,3}(?:(?:please\s)?let\sme\sknow|(?:please\s)?feel\sfree|would\syou\slike"
    r"|do\syou\s(?:want\sme|need\s(?:any|more|help)|have\sany)|if\syou(?:['\u2019]d|\swould)\slike"
    r"|if\syou\s(?:want\s(?:me|more)|need\s(?:any|more|further|help)|have\s(?:any|more|other|further))"
    r"|i\shope|hope\s(?:this|that)|is\sthere\sanything|shall\si|want\sme\sto)\b[^\n]{0,400}\Z",
    re.IGNORECASE,
)
_COURTESY_LEN = 1000


def plain(text: str) -> str:
    """The reply as it is searched for its answer."""
    if not text.isascii():
        text = "".join(sign if sign.isascii() else _plain_sign(sign) for sign in text)
    text = _signed(scaled(_DENIED.sub(lambda denied: denied["denial"], text)))
    return _without_courtesy(text)


def scaled(text: str) -> str:
    """Thousands, millions and more in digits."""
    return _SCALED.sub(_in_digits, text)


def _plain_sign(sign: str) -> str:
    if sign.isdecimal():
        return str(unicodedata.decimal(sign))
    return ". " if sign == "\u3002" else _WIDE.get(sign, sign)


def _signed(text: str) -> str:
    text = _NEGATIVE.sub(r"\g<open>-", text)
    return _MINUS.sub(lambda found: f"{found['stated'].rstrip(' ')} {found['open']}-".lstrip(), text)


def _in_digits(found: re.Match[str]) -> str:
    number = Decimal(found[1].replace(",", "")).scaleb(_ZEROS[found[2].lower()])
    return f"{number:f}".rstrip("0").rstrip(".") if "." in f"{number:f}" else f"{number:f}"


def _without_courtesy(text: str) -> str:
    for _ in range(3):
        text = text.rstrip()
        start = max(0, len(text) - _COURTESY_LEN)
        courtesy = _COURTESY.search(text, start)
        if courtesy is None or not text[: courtesy.start()].strip():
            break
        text = text[: courtesy.start()]
    return text
