"""The answer in how a reply closes, where nothing states it in so many words. Light: the standard library only.

What is bold in the last line comes first, then a first line that is nothing else but bold; a bold label ("**Step 2:**")
is none. Then the last sentence that has a number:

1. the first number after its last equals sign ("2 * 9 = 18 for 4 days");
2. without what stands in parentheses, where a number is left;
3. the only sum of money in it ("$18 from 9 eggs", "18 dollars for 9");
4. the last number that no preposition stands before ("540 meters in 1 week") and no purpose ("15 hours to clean 45
   rooms"), where there is one;
5. the last number.
"""

import re

from evalcard.tasks.judges.numerals import number_matches, numbers_in, one_spelling

_BOLD = re.compile(r"\*\*(?P<bold>[^*\n]{1,200})\*\*(?P<after>[ ]{0,2}[:=]?)")
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!\b[A-Z]\.)(?<!\bMr\.)(?<!\bMs\.)(?<!\bDr\.)(?<!\bMrs\.)\s+")
_PARENTHESES = re.compile(r"\([^()]*\)")
_PREPOSITION = re.compile(
    r"\b(?:from|in|for|after|before|over|per|each|every|of|at|by|with|within|than|during|on|out\sof|into|and|or|(?<=\d\s)to)\s"
    r"(?:(?:the|all|these|those|his|her|their|its|my|your|our|about|only|just|another|first|last|next)\s){0,2}"
    r"[$\u20ac\u00a3\u00a5\u20b9\\*]{0,3}\Z",
    re.IGNORECASE,
)
_PURPOSE = re.compile(r"(?<!needs )(?<!need )(?<!has )(?<!have )(?<!had )(?<!able )(?<!going )\bto\s[a-z]{2,20}\s\Z")
_OF_TOTAL = re.compile(r"\b(?:total|sum|average|cost|price|profit|rest|result|amount)\sof\s\S{0,3}\Z", re.IGNORECASE)
_MONEY_BEFORE = "$\u20ac\u00a3\u00a5\u20b9"
_MONEY_AFTER = re.compile(
    r"\s?(?:dollars?|cents?|euros?|pounds|rupees|[\u20ac\u00a3\u00a5\u00a2])(?!\w)", re.IGNORECASE
)
_BEFORE_LEN = 60
_SENTENCE_LEN = 2000


def bold_answer(text: str) -> str | None:
    """What is bold in the last line or makes up the first; a number there is preferred to words."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if not lines:
        return None
    bolds = _bolds(lines[-1])
    with_number = [bold for bold in bolds if any(sign.isdigit() for sign in bold)]
    if with_number:
        return with_number[-1]
    if bolds and not any(sign.isdigit() for sign in lines[-1]):
        return bolds[-1]
    first = _bolds(lines[0]) if _BOLD.fullmatch(lines[0].rstrip(".! ")) else []
    return first[0] if first and any(sign.isdigit() for sign in first[0]) else None


def _bolds(line: str) -> list[str]:
    found = [(bold["bold"].strip(), bold["after"].strip()) for bold in _BOLD.finditer(line)]
    return [bold for bold, after in found if bold and not after and not bold.endswith(":")]


def closing_number(text: str) -> str | None:
    """The number that the last sentence with one gives; None where the text has no number."""
    for line in reversed(text.splitlines()):
        for sentence in reversed(_SENTENCE_END.split(_end_of(line))):
            if numbers_in(sentence):
                return _of_sentence(sentence)
    return None


def _end_of(line: str) -> str:
    """As much of a line as a sentence has, from the start of a word."""
    return line if len(line) <= _SENTENCE_LEN else line[-_SENTENCE_LEN:].partition(" ")[2] or line[-_SENTENCE_LEN:]


def _of_sentence(sentence: str) -> str:
    after = numbers_in(sentence.rpartition("=")[2]) if "=" in sentence else []
    if after:
        return after[0]
    outside = _PARENTHESES.sub(" ", sentence)
    spelled = one_spelling(outside if numbers_in(outside) else sentence)
    places = list(number_matches(spelled))
    money = [place for place in places if _is_money(place)]
    free = [place for place in places if not _is_context(place)] or places
    meant = [place for place in free if not _PURPOSE.search(_before(place))] or free
    return (money if len(money) == 1 else meant)[-1][0].strip()


def _is_money(place: re.Match[str]) -> bool:
    before = place.string[place.start() - 1 : place.start()]
    is_signed = any(sign in place[0] for sign in _MONEY_BEFORE) or (before != "" and before in _MONEY_BEFORE)
    return is_signed or _MONEY_AFTER.match(place.string, place.end()) is not None


def _is_context(place: re.Match[str]) -> bool:
    before = _before(place)
    return _PREPOSITION.search(before) is not None and _OF_TOTAL.search(before) is None


def _before(place: re.Match[str]) -> str:
    return place.string[max(0, place.start() - _BEFORE_LEN) : place.start()]
