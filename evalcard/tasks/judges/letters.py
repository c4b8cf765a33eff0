"""Patterns by which a reply names an option by its letter. Light: the standard library only.

Letters reach as far as the question has options. The words "a" and "I" are no letters: a small letter counts only with
nothing but punctuation behind it, I only where no small word follows, A only where none follows but one that may go on
after an answer ("A because"). Letters that a reply does not choose are struck out before it is read (``struck``).
Every search is linear in the text, since it runs without a time limit on whatever a model wrote.
"""

import re
import unicodedata
from functools import lru_cache

MOST_CHOICES = 10
"""Letters read where the number of options is not known: A to J."""
SEVERAL = "\ue001"
"""Stands for letters named together ("B or C"): stated, and no single answer."""

_STRUCK = "\ue000"
_DECORATION = re.compile(r"\\(?:text|textbf|mathbf|mathrm|mathit|emph)\s{0,2}\{|[*$`\"{}\u201c\u201d]|\\[()\[\],]")
_BOX = re.compile(r"\\(?:boxed|fbox)\s{0,4}\{?")
_JOINED_BOXES = re.compile(r"\}[\s$]{0,4}(,|and\b|or\b)[\s$]{0,4}\\(?:boxed|fbox)\s{0,4}\{")
_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE)
_QUOTED = re.compile(r"(?<!\w)(?:'([A-Za-z])'|<([A-Za-z])>)(?!\w)")
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
_BESIDE_CJK = re.compile(rf"(?<=[{_CJK}])(?=[A-Z])|(?<=[A-Z])(?=[{_CJK}])")
_SIGN = re.compile(
    r"\b(?:wait|actually|oops|hold\son|scratch\sthat|correction|on\ssecond\sthought|or\srather|reconsider|my\smistake"
    r"|let\sme\sre-?(?:check|think|read|examine|evaluate)|i\smade\san?\s(?:error|mistake))\b"
    r"|(?:^|[.?!]\s{0,3})no\b(?=\s{0,2}[,.:;!\u2013\u2014-])",
    re.IGNORECASE | re.MULTILINE,
)
_CONCLUSION = re.compile(
    r"\b(?:so|thus|hence|therefore|final|finally|but|however|instead|overall|conclusion)\b"
    r"|\n\s{0,8}(?:#{1,6}\s)?(?:the\s)?(?:correct\s)?answer\b",
    re.IGNORECASE,
)
_IS = r"(?:(?:is|are|was|would\sbe|should\sbe|must\sbe|will\sbe)\b(?!\snot\b)\s{0,4}:?|[:=\u2013-])"
_ADVERB = r"(?:(?:therefore|thus|indeed|clearly|most\slikely|probably|definitely|likely|simply|either|both),?\s{1,2})?"
_NO_FORMULA = r"(?!\s{0,2}[=+^/\\<>])"
_NOUN = r"(?:(?:the\s{1,2})?(?:correct\s|right\s|best\s)?(?:option|choice|letter|answer)\b\s{0,2}:?\s{0,4})?"
_AFTER_A = (
    r"(?:because|since|as|and|or|is|isn|for|due|based|which|with|from|not|but|when|by|given|if|so|while|rather|instead"
    r"|on|in|would|must|will|has|here|then|though|although|where|it|this|we|you|the|are)\b"
)
_NO_WORD = rf"(?!(?<=A)\s(?!{_AFTER_A})[a-z])(?!(?<=I)\s(?!because|since|as\b|and\b|or\b|is\b)[a-z])"
_CORRECT = r"is\s(?:the\s)?(?:most\s)?(?:correct|right|best|true)\b"


def plain_letters(text: str) -> str:
    """Typographic letters, quotes and Chinese stops as plain ones, so that a letter beside them is seen."""
    folded = unicodedata.normalize("NFKC", text).translate({0xE000: " ", 0xE001: " ", 0x2019: "'", 0x2018: "'"})
    folded = _TAG.sub(lambda tag: "\n" if tag[1] else " final answer: ", folded.replace("\u3002", ". "))
    return _BESIDE_CJK.sub(" ", _QUOTED.sub(lambda found: found[1] or found[2], folded))


def undecorated(text: str) -> str:
    """Without bold, dollars, quotes and \\text; a box reads as "final answer:", boxes joined by "and" as one."""
    return _DECORATION.sub("", _BOX.sub(" final answer: ", _JOINED_BOXES.sub(r"\1 ", text))).strip()


def after_correction(text: str) -> str | None:
    """What follows the last "wait", "actually", "no," and the like; None where there is none."""
    end = max((sign.end() for sign in _SIGN.finditer(text)), default=None)
    return None if end is None else text[end:].lstrip(" \n\t,.:;!?\u2013\u2014-")


def has_sign(text: str) -> bool:
    """Whether words between two statements say that the later one holds."""
    return _SIGN.search(text) is not None or _CONCLUSION.search(text) is not None


def struck(text: str, num_choices: int) -> str:
    """Without the letters that a reply supposes, denies, or lists as options; letters named together are SEVERAL."""
    supposed, label, denied, together = strike_patterns(num_choices).values()
    letter = re.compile(rf"\b[{letters(num_choices)}](?!['\w])")
    text = supposed.sub(lambda found: letter.sub(_STRUCK, found[0]), text)
    text = denied.sub(lambda found: letter.sub(_STRUCK, found[0]), text)
    text = _without_listing(text, label, num_choices)
    return together.sub(lambda found: SEVERAL if len(set(letter.findall(found[0]))) > 1 else found[0], text)


def _without_listing(text: str, label: re.Pattern[str], num_choices: int) -> str:
    """Labels that run A, B, C and so on from the start of a line or sentence repeat the options and choose none."""
    places: list[int] = []
    run: list[int] = []
    for found in label.finditer(text):
        is_next = found["letter"].upper() == letters(26)[len(run) : len(run) + 1]
        if not is_next:
            places += run if len(run) >= min(3, num_choices) > 1 else []
            run = []
        if is_next or found["letter"] in "Aa":
            run = [*run, found.start("letter")] if run or found["start"] is not None else []
    places += run if len(run) >= min(3, num_choices) > 1 else []
    praised = re.compile(rf".[).:]{{1,2}}\s[^.\n]{{0,80}}?\b{_CORRECT}", re.IGNORECASE)
    listed = {place for place in places if not praised.match(text, place)}
    return "".join(_STRUCK if place in listed else sign for place, sign in enumerate(text)) if listed else text


@lru_cache(maxsize=32)
def strike_patterns(num_choices: int) -> dict[str, re.Pattern[str]]:
    """What names letters without choosing one, in the order in which it is struck; option labels have groups."""
    capitals = letters(num_choices)
    one = rf"(?:(?:options?|choices?)\s)?[(\[*]{{0,3}}(?-i:[{capitals}])(?!['\w])[)\]*]{{0,3}}"
    single = r"(?![(\[]?(?-i:[A-Z])[)\]]?\s(?:is|has|was|would|fits|seems)\b)"
    join = (
        rf"(?:\s{{0,2}},\s{{0,2}}{single}(?=[(\[*]{{0,3}}(?-i:[A-Z])[)\]*]{{0,3}}(?:\s?[,.;\n]|\s?\Z|\s(?:and|or|are)\b))"
        rf"|(?:\s{{0,2}},)?\s{{0,2}}(?:and|or|nor|&)\s{{1,2}}(?:not\s)?{single}|/|\.(?=(?-i:[A-Z])\b)"
        r"|[ \t]{0,2}\n{1,2}(?=[(\[*]{0,3}(?-i:[A-Z])[)\].*]{0,4}[ ]{0,4}(?:\n|\Z)))"
    )
    some = rf"(?<!['\w])(?>{one}(?:{join}{one}){{0,12}})(?-i:{_NO_WORD})"
    is_it = r"(?:is|are|would\sbe|should\sbe|could\sbe)\s"
    tail = rf"\s(?:(?:it(?:'s|\sis)\s)|(?:the\s)?(?:(?:correct|right|best|final)\s)?(?:answer|option|choice)\s{is_it})?"
    wrong = r"(?:not\b|never\b|incorrect|wrong|false|unlikely|(?:ruled\s)?out\b|eliminated|too\s|impossible)"
    sources = {
        "supposed": (
            r"\bif\b(?!\sI\b|\sforced|\spressed)(?>[^.!?;\n]{0,80}?\b(?:were|had|was|asked)\b)"
            r"(?:(?!\b(?:so|thus|hence|therefore)\b)[^.!?;\n]){0,120}?\bwould\b[^.!?;\n]{0,80}"
            rf"|{one}\swould\s(?!be\b|seem|fit|make)|{one}\swould\b(?=[^.!?;\n]{{0,80}}?\bif\b)"
        ),
        "label": rf"(?P<start>\A|\n\s{{0,4}}|[.;:]\s{{1,2}})?(?<!\w)[(]?(?P<letter>[{capitals}])[).:]{{1,2}}(?=\s)",
        "denied": (
            r"(?:\b(?:not|never|cannot|neither|nor)|n't|\u4e0d(?:\u662f|\u9009))(?:\s(?:be|choose|pick|select|go\swith|opt\sfor|either|both)){0,2}"
            rf"\s{{1,2}}{_NOUN}{some}"
            r"|(?:(?:\b(?:not|never|hardly)|n't)\s(?:think|believe|say|feel|true|likely|correct|the\scase)(?:\sthat)?"
            r"|\b(?:unlikely|false|untrue|wrong|incorrect|doubt|doubtful|impossible)\s(?:that|to\ssay))"
            rf"{tail}{_NOUN}{some}"
            rf"|\b(?:eliminat(?:e|ed|ing)|exclud(?:e|ed|ing)|rul(?:e|ed|ing)\sout|instead\sof|rather\sthan)\s{_NOUN}{some}"
            rf"|{some}\s(?:(?:is|are|was|seems)\s{wrong}|(?:is|are|was)n't\b|can(?:not|'t)\sbe\b)"
            rf"|(?:(?<![^\n])|(?<=[.;:]\s))[(]?(?-i:[{capitals}])[).:]{{1,2}}\s"
            rf"[^.,;\n]{{0,60}}?\s?(?:is|are)\s(?:incorrect|wrong|false|not\s(?:correct|right|true|the))\b"
        ),
        "together": rf"(?<!['\w])(?>{one}(?:{join}{one}){{1,12}})(?-i:{_NO_WORD})(?!\s{{0,2}}[=+^<>\\])",
    }
    return {name: re.compile(source, re.IGNORECASE) for name, source in sources.items()}


@lru_cache(maxsize=32)
def statement_patterns(num_choices: int) -> dict[str, re.Pattern[str]]:
    """Ways to state a letter, the strongest first, for text without decoration; each has a group ``letter``.

    The last match of the first pattern that matches at all is what the reply states.
    """
    capitals, smalls = letters(num_choices), letters(num_choices).lower()
    letter = (
        rf"(?P<letter>(?-i:[{capitals}](?!['\w\u2019]){_NO_WORD}{_NO_FORMULA})"
        rf"|(?-i:[{smalls}](?=[)\].,:;!]{{1,4}}(?:\s|\Z)|[ \t]{{0,8}}(?:\n|\Z)))|{SEVERAL})"
    )
    subject = (
        r"(?:\b(?:answers?|(?:correct|right|best)\s(?:option|choice|letter))(?![a-z'])"
        r"(?:\s(?:to|for)\s[^\n.:?!]{1,80}?)?"
    )
    sources = {
        "answer is": (
            rf"{subject}\s{{0,4}}(?:{_IS}\s{{0,4}}{_ADVERB}{_NOUN}[(\[]?|[(\[])|\u7b54\u6848(?:\u662f|\u4e3a|\u70ba)\s?){letter}"
        ),
        "nothing else": rf"\A(?:option|choice|answer)?\s{{0,2}}[(\[]?(?P<letter>[{capitals}])[)\].:,;!\s]{{0,8}}\Z",
        "start": (
            rf"\A(?:(?:option|choice)\s)?[(\[]?(?:(?P<letter>(?-i:[{capitals}{smalls}]))[)\].:]{{1,2}}(?:\s(?!or\b|and\b)|\Z))"
        ),
        "start of a line": rf"\A(?:(?:option|choice)\s)?[(\[]?(?P<letter>(?-i:[{capitals}]))[)\]]?[ \t]{{0,8}}\n",
        "start of a reason": (
            rf"\A(?:(?:option|choice)\s)?[(\[]?(?P<letter>(?-i:[{capitals}]))[)\]]?,?\s(?:because|since|as|[-\u2013\u2014])\s"
        ),
        "choose": (
            r"(?:\b(?:pick|choose|select|chose|picked|selected|go\swith|going\swith|opt\sfor|lean(?:ing)?(?:\s(?:to|towards?))?)"
            rf"\s{{1,2}}|[\u9009\u9078]\s?){_NOUN}[(\[]?{letter}"
        ),
        "is correct": (
            rf"(?<![\w'])(?P<letter>(?-i:[{capitals}])|{SEVERAL})(?:[)\]]?|[).:]\s[^.:;\n]{{1,60}}?)"
            r"\s(?:is|are|seems|must\sbe)\s(?:the\s|both\s)?(?:most\s)?(?:correct|right|best|better|true)\b"
        ),
        "so it is": (
            r"\b(?:(?:so|thus|hence|therefore),?|it(?:'s|\s(?:is|was|should\sbe|must\sbe|has\sto\sbe)))"
            rf"\s{{1,2}}{_ADVERB}{_NOUN}[(\[]?{letter}(?=[)\]]?\s{{0,2}}(?:[.,;!\n\u2014]|\Z|(?:because|since|not)\b))"
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
