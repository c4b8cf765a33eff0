"""The judge ``choice``: the letter that a reply chooses. Light: the standard library only.

Read in this order (letters.py), and the first that finds a letter decides: the last "the answer is B", "Answer: B" or
``\\boxed{B}``; a reply that is or begins with a letter; the last "I choose B"; the last "B is correct"; then the only
letter in brackets or bold, and the only one that stands alone. Two different letters without a statement are no
answer, and so is a box that was cut off. What follows an invented "Question:" is not read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from evalcard.tasks.judges.judge import Answer, Judgement
from evalcard.tasks.judges.letters import MOST_CHOICES, letters, mention_patterns, statement_patterns, undecorated
from evalcard.tasks.judges.statement import before_invented_question, final_box


@dataclass(frozen=True, slots=True)
class ChoiceJudge:
    name: str = "choice"

    def judge(self, answers: Sequence[Answer]) -> list[Judgement]:
        return [self._judge(answer) for answer in answers]

    def _judge(self, answer: Answer) -> Judgement:
        found = chosen_letter(answer.text, answer.num_choices or MOST_CHOICES)
        return Judgement(found, found is not None and found in {gold_letter(gold) for gold in answer.golds})

    def check_gold(self, gold: str) -> str | None:
        return None if gold_letter(gold) else f"{gold[:80]!r} is no letter from A to {letters(26)[-1]}"


def gold_letter(gold: str) -> str | None:
    """The capital of a gold such as ``B``, ``b``, ``(B)`` or ``B.``."""
    found = statement_patterns(26)["nothing else"].match(undecorated(gold))
    return found["letter"].upper() if found else None


def chosen_letter(text: str, num_choices: int) -> str | None:
    """The letter (a capital) that a reply chooses among the first ``num_choices``; None where it states none."""
    kept = before_invented_question(text)
    found = _chosen(kept, num_choices)
    return found if found is not None or kept == text else _chosen(text, num_choices)


def _chosen(text: str, num_choices: int) -> str | None:
    if final_box(text) == "":
        return None
    plain = undecorated(text)
    for pattern in statement_patterns(num_choices).values():
        stated = [found["letter"] for found in pattern.finditer(plain)]
        if stated:
            return stated[-1].upper()
    for pattern in mention_patterns(num_choices).values():
        mentioned = {found["letter"] for found in pattern.finditer(text)}
        if mentioned:
            return mentioned.pop() if len(mentioned) == 1 else None
    return None
