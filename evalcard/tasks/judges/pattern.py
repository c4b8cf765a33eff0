"""The judge ``regex=PATTERN``: what the pattern finds last, compared as ``exact`` compares. Light: the standard
library only.

The first group of the last match counts, the whole match where the pattern has no group. Patterns run in the worker
processes of pool.py, since some take longer than the universe lasts on some texts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from evalcard.errors import UserError
from evalcard.tasks.judges.judge import Answer, Judgement
from evalcard.tasks.judges.pool import CPU_LIMIT_S, WorkerPool
from evalcard.tasks.judges.words import plain_words


@dataclass(frozen=True, slots=True)
class PatternJudge:
    """Raises UserError for a pattern that is none."""

    pattern: str
    cpu_limit_s: float = CPU_LIMIT_S

    def __post_init__(self) -> None:
        if not self.pattern:
            raise UserError(r"regex= names no pattern. Write one after it, such as regex=Total: (\d+).")
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise UserError(
                f"regex={self.pattern} is no regular expression: {error}. Write it as Python's re module reads it."
            ) from None

    @property
    def name(self) -> str:
        return f"regex={self.pattern}"

    def judge(self, answers: Sequence[Answer]) -> list[Judgement]:
        texts = list(dict.fromkeys(answer.text for answer in answers))
        with WorkerPool("regex", self.cpu_limit_s) as pool:
            found = dict(zip(texts, pool.ask([{"pattern": self.pattern, "text": text} for text in texts]), strict=True))
        return [_judgement(found[answer.text], answer.golds) for answer in answers]

    def check_gold(self, gold: str) -> str | None:
        return None if gold.strip() else "it is empty"


def _judgement(found: str | None, golds: Sequence[str]) -> Judgement:
    if found is None or not found.strip():
        return Judgement(None, False)
    return Judgement(found, plain_words(found) in {plain_words(gold) for gold in golds})
