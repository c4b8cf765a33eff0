"""Numbers as replies write them, and their exact values. Light: the standard library only.

A thousand may be set off by a comma or by a space, or be a k ("70k"); "0,5" has a decimal comma, since no thousands
begin with 0. A currency may stand before its number as a sign or as a word (Rs 18, USD18).
"""

import re
import unicodedata
from collections.abc import Iterator
from fractions import Fraction

_THOUSANDS = re.compile(r"(?<=\d)(?:,?\\[!,]|\{,\}|[\u2009\u202f\u00a0])\s?(?=\d{3}(?!\d))")
_SPACED_THOUSANDS = re.compile(r"(?<![\d.,/^])(?<![\d.,/^][ ])[1-9]\d{0,2}(?:[ ]\d{3})+(?![\d/]|[.,]\d|\s?/\s?\d)")
_KILO = re.compile(r"(?<![\w.,])(\d{1,6}(?:\.\d{1,3})?)[kK](?!\w)")
_DECIMAL_COMMA = re.compile(r"(?<![\d.,(\[{])(?<![\d.,(\[{][ ])0(?:,|\{,\})(?=\d{1,12}(?![\d,]))")
_CURRENCY_WORD = re.compile(r"(?<![A-Za-z])(?:Rs\.?|USD|EUR|GBP|INR|JPY|CNY|CAD|AUD|CHF)[ ]?(?=\d)")
_LATEX_FRACTION = re.compile(r"\\[dt]?frac\s{0,2}\{\s{0,4}(-?\d{1,400})\s{0,4}\}\s{0,2}\{\s{0,4}(\d{1,400})\s{0,4}\}")
_FRACTION_SIGNS = {
    chr(code): f"{fraction.numerator}/{fraction.denominator}"
    for code in (0xBC, 0xBD, 0xBE, *range(0x2150, 0x215F))
    for fraction in [Fraction(unicodedata.numeric(chr(code))).limit_denominator(10)]
}
_FRACTION_SIGN = re.compile(f"[{''.join(_FRACTION_SIGNS)}]")
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
_NUMBER = re.compile(
    r"(?<![A-Za-z_\d])"
    r"(?P<sign>(?<![\w)\]}.])[-\u2212])?[$\u20ac\u00a3\u00a5\u20b9]?(?P<inner_sign>(?<=[$\u20ac\u00a3\u00a5\u20b9])-)?"
    r"(?:(?P<whole>\d{1,400})\s{1,2}(?P<top>\d{1,400})/(?P<bottom>\d{1,400})"
    r"|(?P<over>" + _DIGITS + r")\s?/\s?(?P<under>" + _DIGITS + r")(?!/?\d)"
    r"|(?P<digits>" + _DIGITS + r")(?:[eE](?P<exponent>[-+]?\d{1,3})(?![\w.])"
    r"|\s?(?:[x\u00d7*]|\\times|\\cdot)\s?10\s?\^\s?\{?(?P<power>[-\u2212]?\d{1,3})\}?)?)"
)
_MAX_DIGITS = 400


def numbers_in(text: str) -> list[str]:
    """The numbers of a text as they are written, but for their separators of thousands."""
    return [found[0].strip() for found in number_matches(one_spelling(text))]


def number_matches(spelled: str) -> Iterator[re.Match[str]]:
    """Where the numbers stand in a text that has one spelling."""
    return (found for found in _NUMBER.finditer(spelled) if _value(found) is not None)


def one_spelling(text: str) -> str:
    """Without separators of thousands, words for currencies, and signs or commands for fractions."""
    text = _CURRENCY_WORD.sub("$", _DECIMAL_COMMA.sub("0.", _THOUSANDS.sub("", text)))
    text = _SPACED_THOUSANDS.sub(lambda number: number[0].replace(" ", ""), text)
    text = _KILO.sub(lambda number: str(Fraction(number[1]) * 1000), text)
    text = _FRACTION_SIGN.sub(lambda sign: _behind_whole(sign) + _FRACTION_SIGNS[sign[0]], text)
    return _LATEX_FRACTION.sub(lambda found: f"{_behind_whole(found)}{found[1]}/{found[2]}", text)


def _behind_whole(fraction: re.Match[str]) -> str:
    """A fraction behind a digit is the rest of a mixed number, and a sign stays where it was."""
    return " " if fraction.string[fraction.start() - 1 : fraction.start()].isdigit() else ""


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
