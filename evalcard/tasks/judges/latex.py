"""Formulas as text: made comparable, and compared where that needs no algebra. Light: the standard library only."""

import re
import unicodedata
from fractions import Fraction

from evalcard.tasks.judges.wording import scaled

_SYMBOLS = {
    "\u2212": "-", "\u2013": "-", "\u00d7": r"\times ", "\u00b7": r"\cdot ", "\u00f7": "/", "\u2044": "/",
    "\u03c0": r"\pi ", "\u221e": r"\infty ", "\u2264": r"\le ", "\u2265": r"\ge ", "\u2260": r"\ne ",
    "\u222a": r"\cup ", "\u2229": r"\cap ",
    "\u2205": r"\emptyset ",
    "\u2208": r"\in ", "\u00b1": r"\pm ", "\u00b0": r"^\circ ", "\u00a0": " ", "\u2009": " ", "\u202f": " ",
}  # fmt: skip
_FRACTIONS = {
    chr(code): f" {fraction.numerator}/{fraction.denominator}"
    for code in (0xBC, 0xBD, 0xBE, *range(0x2150, 0x215F))
    for fraction in [Fraction(unicodedata.numeric(chr(code))).limit_denominator(10)]
}
"""The signs for one half, two thirds and the like."""
_SCRIPTS = re.compile("([\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+)|([\u2080-\u2089]+)")
_ROOT = re.compile(r"(?P<sign>[\u221a\u221b\u221c])\s?(?:\(([^()]*)\)|\{([^{}]*)\}|(\d+|[A-Za-z]))")
_DELIMITERS = (("$$", "$$"), ("$", "$"), (r"\[", r"\]"), (r"\(", r"\)"), ("**", "**"), ("`", "`"))
_SPACING = re.compile(
    r"(?<!\\)\\(?:[!,;:> ]|quad(?![A-Za-z])|qquad(?![A-Za-z])|displaystyle(?![A-Za-z]))"
    r"|~|\\(?:left|right)(?![A-Za-z])\.?"
)
_THOUSANDS = re.compile(r"(?<=\d)(?:,?\\[!,]|\{,\}|(?<=\d)\\ )\s?(?=\d{3}(?!\d))")
_CURRENCY = re.compile(r"\\?\$|[\u20ac\u00a3\u00a5\u20b9]")
_DEGREE = re.compile(r"\^\s?(?:\\circ(?![A-Za-z])|\{\s?\\circ\s?\})\s?|\\degrees?(?![A-Za-z])")
_PERCENT = re.compile(r"(?<=[\d}. ])\s?(?:\\?%|(?:\\text\{\s?)?(?:percent|per\scent|pct)\b\.?\}?)", re.IGNORECASE)
_ROOT_OF_PARENTHESES = re.compile(r"(?:\\|(?<![\\A-Za-z]))sqrt\s?\(([^()]*)\)")
_DECIMAL_COMMA = re.compile(r"(?<=\d)\{,\}(?=\d)")
_ONE_EQUATION = re.compile(
    r"\A\\begin\{(?P<name>aligned|align\*?|gathered|split|equation\*?)\}(?P<inside>(?:(?!\\\\).)*?)(?:\\\\\s?)?"
    r"\\end\{(?P=name)\}\Z",
    re.DOTALL,
)
_MIXED = re.compile(r"(?<![\d.\w}])(-?)\s?(\d+)\s+(\d+)\s?/\s?(\d+)(?![\d.])")
_POWER_OF_TEN = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)[eE]([-+]?\d{1,4})(?!\w)")
_UNIT = re.compile(
    r"(?<=[\w}.)\]%])\s?\\(?:text|mbox|textrm|mathrm|rm)\s?\{(?!\s*(?:and|or)\b)[A-Za-z.\s/]+\}"
    r"(?:\s?\^\s?\{?\d\}?)?\s*\Z"
)
_PLAIN_UNIT = re.compile(
    r"(?<=\d)\s(?!(?:sin|cos|tan|cot|sec|csc|log|ln|exp|sqrt|pi|mod|and|or|to)\b)[a-z]{2,}(?:[\s/](?!(?:and|or)\b)[a-z]+)*"
    r"(?:\s?\^\s?\{?\d\}?)?\Z"
)
_TEXT_OF_NUMBER = re.compile(r"\A\\(?:text|mbox|textbf)\s?\{(-?\.?\d[^{}]*)\}\Z")
_ABOUT = re.compile(r"\A(?:\\approx(?![A-Za-z])|\u2248|=)\s?")
_SPACED_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:\s\d{3})+(?![\d.,])")
_GAP = re.compile(r"(?<=\d)(?<!frac\s\d)(?<!frac\d)\s(?=\d)")
_BOLD_NUMBER = re.compile(r"\\(?:text|textbf|mathbf|mathrm|boldsymbol|bm)\s?\{([^{}A-Za-z\\]*\d[^{}A-Za-z\\]*)\}")
_NAMED_THOUSANDS = re.compile(r"\A[A-Za-z]\s?=\s?-?\d{1,3}(?:,\d{3})+(?:\.\d+)?\s*\Z")
_NAME = re.compile(r"\A[A-Za-z]\s?=\s?")
_TEXT = re.compile(r"\\(?:text|mbox|textbf|textit|textrm|mathrm|mathbf|operatorname)\s?\{([^{}]*)\}")
_INTEGER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)")
_DECIMAL = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?\.?\d*")
_CLOCK = re.compile(r"\d{1,2}:\d{2}(?::\d{2})?")
_IN_BASE = re.compile(r"([0-9A-Fa-f]+)_\{?(\d+)\}?")
_WORD = re.compile(r"[^\W\d_]+(?:[\s'-][^\W\d_]+)*")
_FUNCTIONS = frozenset(("sin", "cos", "tan", "cot", "sec", "csc", "log", "exp", "sqrt", "lim", "max", "min"))
_WORD_LEN = 3
"""Letters in a row that make a word; fewer are a product of symbols."""


def cleaned(formula: str) -> str:
    """One spelling for what means the same: no dollars, no spacing commands, Unicode's signs as commands."""
    text = unicodedata.normalize("NFC", formula).strip()
    text = scaled(_undelimited(text))
    text = _ONE_EQUATION.sub(lambda one: one["inside"].replace("&", ""), text).strip()
    text = "".join(_SYMBOLS.get(sign) or _FRACTIONS.get(sign) or sign for sign in text)
    text = _SCRIPTS.sub(_script, _ROOT.sub(_root, text))
    text = _SPACING.sub(" ", _DECIMAL_COMMA.sub(".", _THOUSANDS.sub("", text)))
    text = _CURRENCY.sub("", _DEGREE.sub("", text)).replace(r"\dfrac", r"\frac").replace(r"\tfrac", r"\frac")
    text = text.replace(r"\varnothing", r"\emptyset")
    text = _PERCENT.sub(r"\\%", text)
    text = _ROOT_OF_PARENTHESES.sub(r"\\sqrt{\1}", text.replace("**", "^"))
    text = _POWER_OF_TEN.sub(r"\1\\times 10^{\2}", _MIXED.sub(r"\1(\2+\\frac{\3}{\4})", text))
    text = _ABOUT.sub("", _TEXT_OF_NUMBER.sub(r"\1", _BOLD_NUMBER.sub(r"\1", " ".join(text.split()))))
    text = _SPACED_THOUSANDS.sub(lambda number: "".join(number[0].split()), _PLAIN_UNIT.sub("", _UNIT.sub("", text)))
    return _NAMED_THOUSANDS.sub(lambda named: named[0].replace(",", ""), text).strip()


def _undelimited(text: str) -> str:
    for _ in range(4):
        text = text.strip().rstrip(".,;:").strip()
        for opening, closing in _DELIMITERS:
            if len(text) > len(opening + closing) and text.startswith(opening) and text.endswith(closing):
                inner = text[len(opening) : len(text) - len(closing)]
                if opening not in inner:
                    text = inner
    return text


def _script(found: re.Match[str]) -> str:
    digits = "".join(str(unicodedata.digit(sign)) for sign in found[0])
    return ("^{" if found[1] else "_{") + digits + "}"


def _root(found: re.Match[str]) -> str:
    degree = {"\u221a": "", "\u221b": "[3]", "\u221c": "[4]"}[found["sign"]]
    return rf"\sqrt{degree}{{{found[2] or found[3] or found[4] or ''}}}"


def cheap_verdict(gold: str, answer: str) -> bool | None:
    """Whether two cleaned formulas are equal, where their spelling decides it; None where it does not."""
    if _squeezed(gold) == _squeezed(answer):
        return True
    if _GAP.search(gold) or _GAP.search(answer):  # "3 4" is two numbers, and no product
        return False
    words = _words(gold)
    if words is not None:
        return words == _words(_NAME.sub("", answer), is_word=True)
    if _CLOCK.fullmatch(gold) or _CLOCK.fullmatch(answer):
        return False
    one, other = _IN_BASE.fullmatch(_squeezed(gold)), _IN_BASE.fullmatch(_squeezed(answer))
    if one and other:  # math-verify does not look at the base
        return one[1].lstrip("0").casefold() == other[1].lstrip("0").casefold() and one[2] == other[2]
    return _equal_numbers(gold, answer)


def _squeezed(formula: str) -> str:
    return "".join(_GAP.sub("|", _TEXT.sub(r"\1", formula)).split())


def _words(formula: str, is_word: bool = False) -> str | None:
    """What the formula says in words, without case; None for one of symbols.

    is_word: letters are taken as a word, however few they are.
    """
    plain = _TEXT.sub(r"\1", formula).strip().strip("()[]\"'").strip()
    if not _WORD.fullmatch(plain):
        return None
    is_word = is_word or plain != formula.strip("()[]\"' ")
    is_word = is_word or any(len(word) >= _WORD_LEN and word not in _FUNCTIONS for word in plain.split())
    return " ".join(plain.casefold().split()) if is_word else None


def _equal_numbers(gold: str, answer: str) -> bool | None:
    """Exact for integers; decimals that differ may still be one rounded."""
    if len(gold) > 400 or len(answer) > 400:
        return None
    if _INTEGER.fullmatch(gold) and _INTEGER.fullmatch(answer):
        return int(gold.replace(",", "")) == int(answer.replace(",", ""))
    both_decimal = _DECIMAL.fullmatch(gold) and _DECIMAL.fullmatch(answer)
    if both_decimal and any(c.isdigit() for c in gold) and any(c.isdigit() for c in answer):
        one, other = (Fraction(text.replace(",", "").lstrip("+").rstrip(".")) for text in (gold, answer))
        return True if one == other else None
    return None
