"""The judge ``choice``: the letter that a reply chooses. Light: the standard library only.

Read in this order (letters.py):

1. Struck out first: letters that are only supposed ("had it asked ..., it would be D"), denied ("not A", "A is wrong")
   or repeated as the list of options. Letters named together ("B or C") state no single answer.
2. What follows the last "wait", "actually" or "no," is read before the whole, if it states a letter at all.
3. The first way of stating that is found decides: "the answer is B", "Answer: B" or ``\\boxed{B}``; a reply that is or
   begins with a letter; "I choose B"; "B is correct"; "so B" or "it is B". The last such statement counts, but where an
   earlier one differs only with a sign between them ("so", "but", "final"); without any the reply has no answer.
4. Else the only letter in brackets or bold, then the only one that stands alone; two different ones are no answer.

A box that was cut off is no answer. What follows an invented "Question:" is not read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from evalcard.tasks.judges.judge import Answer, Judgement
from evalcard.tasks.judges.letters import (
    MOST_CHOICES,
    SEVERAL,
    after_correction,
    has_sign,
    letters,
    mention_patterns,
    plain_letters,
    statement_patterns,
    struck,
    undecorated,
)
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
    written = plain_letters(text)
    plain = struck(undecorated(written), num_choices)
    corrected = after_correction(plain)
    found = _stated(corrected, num_choices) if corrected else None
    found = found or _stated(plain, num_choices)
    if found is not None:
        return found or None
    for pattern in mention_patterns(num_choices).values():
        mentioned = {found["letter"] for found in pattern.finditer(struck(written, num_choices))}
        if mentioned:
            return mentioned.pop() if len(mentioned) == 1 else None
    return None


def _stated(text: str, num_choices: int) -> str | None:
    """The letter that is stated; empty where statements name no single one, None where there is no statement."""
    is_several = False
    for pattern in statement_patterns(num_choices).values():
        stated = list(pattern.finditer(text))
        if not stated:
            continue
        last = stated[-1]["letter"].upper()
        if last == SEVERAL:  # "A or B, but I lean B": a weaker statement may still settle it
            is_several, text = True, text[stated[-1].end() :]
            continue
        other = next((found for found in reversed(stated) if found["letter"].upper() != last), None)
        if other is None or has_sign(text[other.end("letter") : stated[-1].start("letter")]):
            return last
        return ""
    return "" if is_several else None
