"""The judges ``exact`` and ``contains``: answers that are words. Light: the standard library only.

Both compare texts in Unicode's NFC form and without case, with single spaces, without quotes and emphasis around
them, punctuation at their ends, or an article before them: " The **Eiffel Tower**." is "eiffel tower". Signs that
mean something stay: "-5", ".5", "C++", "5 %". Typographic apostrophes and minus signs are plain ones.

``exact`` compares the stated final answer (a ``####`` line, a box, "the answer is ..." up to the end of its line or
of its first sentence); where nothing is stated, the whole reply. ``contains`` looks for the gold as whole words
anywhere: gold "5" is not in "15", "5.5" or "-5", "C" not in "C++", "-5" not in "10-5". A script without spaces
between words (Chinese, Japanese, Thai; Korean joins its particles) has no whole words: there any place counts.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from evalcard.tasks.judges.judge import Answer, Judgement
from evalcard.tasks.judges.statement import answer_statements, before_invented_question, final_box, first_sentence

_QUOTES = "\"'`\u2018\u2019\u201c\u201d\u00ab\u00bb\u2039\u203a\u300c\u300d\u300e\u300f*_"
_CJK_STOPS = "\u3001\u3002\uff01\uff0c\uff0e\uff1a\uff1b\uff1f\uff61"
_ENDS = ".,;:!?\u2026" + _CJK_STOPS
_STARTS = ",;:!?\u2026" + _CJK_STOPS
_PLAIN_SIGNS = str.maketrans("\u2018\u2019\u02bc\u2212", "'''-")
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\U00020000-\U0003ffff"
)
_UNSPACED_SIGN = re.compile(f"[{_UNSPACED}]")
_ARTICLE = re.compile(r"(?:a|an|the)\s(?=.)")
_TEXT_COMMAND = re.compile(r"\\(?:text|textbf|mathrm|mbox)\s?\{([^{}]*)\}")
_MARKED = re.compile(r"^####[ \t]*(\S[^\n]*)", re.MULTILINE)
_SHOWN_LEN = 500


@dataclass(frozen=True, slots=True)
class ExactJudge:
    name: str = "exact"

    def judge(self, answers: Sequence[Answer]) -> list[Judgement]:
        return [self._judge(answer) for answer in answers]

    def _judge(self, answer: Answer) -> Judgement:
        golds = {plain_words(gold) for gold in answer.golds}
        candidates = [found for found in stated_texts(answer.text) if found.strip()]
        right = next((found for found in candidates if plain_words(found) in golds), None)
        found = right if right is not None else next(iter(candidates), None)
        return Judgement(found[:_SHOWN_LEN].strip() if found else None, right is not None)

    def check_gold(self, gold: str) -> str | None:
        return None if gold.strip() else "it is empty"


@dataclass(frozen=True, slots=True)
class ContainsJudge:
    name: str = "contains"

    def judge(self, answers: Sequence[Answer]) -> list[Judgement]:
        return [self._judge(answer) for answer in answers]

    def _judge(self, answer: Answer) -> Judgement:
        text = _folded(answer.text)
        for gold in answer.golds:
            wanted = plain_words(gold)
            if wanted and _whole_words(wanted).search(text):
                return Judgement(gold, True)
        return Judgement(answer.text.strip()[:_SHOWN_LEN] or None, False)

    def check_gold(self, gold: str) -> str | None:
        return None if gold.strip() else "it is empty"


def stated_texts(text: str) -> list[str]:
    """Readings of the final answer, the likeliest first; the whole reply where none is stated."""
    kept = before_invented_question(text)
    box = final_box(kept)
    if box is not None:
        return [_TEXT_COMMAND.sub(r"\1", box)]
    marked = _MARKED.search(kept)
    statement = marked[1] if marked else next(answer_statements(kept), None)
    if statement is None:
        return [kept, text] if kept != text else [text]
    return list(dict.fromkeys((first_sentence(statement), statement)))


def plain_words(text: str) -> str:
    """The form in which texts are compared; a text of nothing but punctuation stays as it is."""
    folded = _folded(text)
    words = folded.rstrip(_QUOTES + _ENDS + " ").lstrip(_QUOTES + _STARTS + " ")
    return _ARTICLE.sub("", words, count=1) if _ARTICLE.match(words) else words or folded


def _folded(text: str) -> str:
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
    folded = folded.replace("**", "").translate(_PLAIN_SIGNS)
    return " ".join(folded.split())


def _whole_words(wanted: str) -> re.Pattern[str]:
    """Where the edges of ``wanted`` are letters, digits or a number's sign, no word or number may go on beyond them."""
    before = after = ""
    word = rf"[^\W{_UNSPACED}]"
    first, last = wanted[0], wanted[-1]
    if first.isalnum() and not _UNSPACED_SIGN.match(first):
        before = rf"(?<!{word})(?<!\d[.,])"
    elif first in "-+.":  # behind a number or a bracket it is an operator, not a sign
        before = rf"(?<!{word})(?<![)\]])"
    if first.isdigit():
        before += r"(?<!\W-)(?<!^-)(?<!\.)"
    if last.isalnum() and not _UNSPACED_SIGN.match(last):
        after = rf"(?!{word})(?![.,]\d)(?!\+\+|[+#](?!\w))"
    return re.compile(before + re.escape(wanted) + after)
