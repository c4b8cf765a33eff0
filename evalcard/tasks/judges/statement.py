"""Where a reply states its answer: boxes and "the answer is". Light: the standard library only.

Every search here is linear in the text, since it runs without a time limit on whatever a model wrote.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_BRACES = re.compile(r"\\(?:boxed|fbox)\s{0,4}\{|\\.|[{}]", re.DOTALL)
_BARE_BOX = re.compile(r"\\(?:boxed|fbox)\s{1,4}([^\s{}$\\]{1,40})")
_BOX_AT_END = re.compile(r"\\(?:boxed|fbox)\s{0,4}\Z")
_JOIN = re.compile(r"[\s$]{0,8}(?:\\\))?[\s$]{0,4}(?:,|and\b|or\b|,\s?and\b|,\s?or\b)[\s$]{0,8}(?:\\\()?[\s$]{0,4}")
_QUESTION = re.compile(
    r"^[ \t]{0,8}[*#_]{0,4}[ \t]{0,4}(?:Question|Q|Problem)\b[ \t\d*_]{0,8}[:.]|\bQuestion:", re.MULTILINE
)
_ANSWER = re.compile(
    r"\banswers?(?![A-Za-z'])"
    r"(?:\s(?:to|for|of)\s[^\n.:?!=]{1,80}?)?"
    r"[\s*_]{0,8}"
    r"(?:(?:is|are|was|will\sbe|would\sbe|should\sbe|must\sbe|equals)(?![A-Za-z])(?!\s(?:not|n't)\b)[\s*_]{0,8}:?|[:=])"
    r"[*_]{0,4}",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<!\\)[.!?](?=\s|$|[*\"'])")
_STATEMENTS_READ = 50
_STATEMENT_LEN = 4000


@dataclass(frozen=True, slots=True)
class _Box:
    """One box: text[start:end] with its command, and what stands inside."""

    start: int
    end: int
    content: str


def final_box(text: str) -> str | None:
    """What stands in the last outermost complete ``\\boxed`` or ``\\fbox``; "1, 2" for boxes joined by "and" or commas.

    Empty where a box was begun and never closed: an earlier complete one is no answer then.
    None where there is no box at all.
    """
    boxes, is_cut = _final_boxes(text)
    if is_cut:
        return ""
    return ", ".join(dict.fromkeys(_unboxed(box.content) for box in boxes)) if boxes else None


def around_final_box(text: str) -> tuple[str, str]:
    """What stands before and after the box that ``final_box`` reads, or all the boxes that it joins."""
    boxes, _ = _final_boxes(text)
    return (text[: boxes[0].start], text[boxes[-1].end :]) if boxes else (text, "")


def _final_boxes(text: str) -> tuple[list[_Box], bool]:
    """The last box and those joined to it, and whether the text ends inside one."""
    boxes, is_cut = _boxes(text)
    first = len(boxes) - 1
    while first > 0 and _JOIN.fullmatch(text, boxes[first - 1].end, boxes[first].start):
        first -= 1
    return boxes[max(first, 0) :], is_cut


def _boxes(text: str) -> tuple[list[_Box], bool]:
    """Outermost complete boxes in order, and whether the text ends inside one.

    A box that was left open counts as given up where a complete one begins on a later line.
    """
    found: list[_Box] = []
    open_braces: list[tuple[int | None, int]] = []  # (where its box begins, None for a plain brace; where it opens)
    for token in _BRACES.finditer(text):
        if token[0] == "}" and open_braces:
            start, inner = open_braces.pop()
            if start is not None:
                while found and found[-1].start > start:
                    found.pop()
                found.append(_Box(start, token.end(), text[inner : token.start()]))
        elif token[0] == "{":
            open_braces.append((None, token.end()))
        elif token[0].endswith("{") and token[0] != "\\{":
            open_braces.append((token.start(), token.end()))
    found += [_Box(bare.start(), bare.end(), bare[1].rstrip(".,;")) for bare in _BARE_BOX.finditer(text)]
    found.sort(key=lambda box: box.start)
    last_open = max((start for start, _ in open_braces if start is not None), default=None)
    if last_open is not None:
        line_end = text.find("\n", last_open)
        return found, line_end < 0 or not found or found[-1].start < line_end
    return found, _BOX_AT_END.search(text, max(0, len(text) - 16)) is not None


def _unboxed(content: str) -> str:
    """Without boxes around the whole of it."""
    for _ in range(8):
        inner, _ = _boxes(content)
        if len(inner) != 1 or content[: inner[0].start].strip() or content[inner[0].end :].strip():
            break
        content = inner[0].content
    return content.strip()


def before_invented_question(text: str) -> str:
    """The reply up to where it goes on to pose itself another question; the whole where it does not."""
    for question in _QUESTION.finditer(text):
        if text[: question.start()].strip():
            return text[: question.start()]
    return text


def answer_statements(text: str) -> Iterator[str]:
    """What follows "the answer is" or "Answer:", to the end of that line or of a displayed formula; the last first.

    A label that ends its line states what stands on the next one that is not blank.
    """
    places = [found.end() for found in _ANSWER.finditer(text)]
    for place in reversed(places[-_STATEMENTS_READ:]):
        line = _line_or_display(text[place : place + _STATEMENT_LEN].lstrip())
        if line.strip("*_ .:"):
            yield line


def _line_or_display(text: str) -> str:
    for opening, closing in (("$$", "$$"), (r"\[", r"\]")):
        end = text.find(closing, len(opening))
        if text.startswith(opening) and end > 0:
            return text[: end + len(closing)]
    return text.partition("\n")[0].strip()


def first_sentence(line: str) -> str:
    """A statement up to the end of its first sentence; the point of "3.5" ends none."""
    end = _SENTENCE_END.search(line)
    return line[: end.start()] if end else line
