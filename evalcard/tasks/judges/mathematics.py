"""The judge ``math``: formulas that mean the same, by math-verify. Light: what is heavy runs in worker processes.

Decisions, the same for every model: a unit may be missing, on either side; a percent sign is one, so against 28 %
both 28 and 0.28 are right, and against 28 or 0.28 so is 28 %. An inequality and the interval it describes are the
same (x < 3 and (-oo, 3)), whichever of them is the gold. An answer with a decimal point meets an exact gold where the
two agree rounded to six places and to a ten-thousandth of their size. A number in another base may leave its base
out. Words are compared as words, without case.

What spelling decides is decided here; the rest is asked of worker processes, each pair once, the gold first. A pair
that takes too long or too much memory is wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from evalcard.tasks.judges.extraction import final_formula, gold_formula
from evalcard.tasks.judges.judge import Answer, Judgement
from evalcard.tasks.judges.latex import cheap_verdict, cleaned
from evalcard.tasks.judges.pool import CPU_LIMIT_S, WorkerPool

_LONGEST_FORMULA = 2000
"""Characters; what is longer than that and longer than twice the gold is no answer to anything."""


@dataclass(frozen=True, slots=True)
class MathJudge:
    cpu_limit_s: float = CPU_LIMIT_S
    name: str = "math"

    def judge(self, answers: Sequence[Answer]) -> list[Judgement]:
        found = [final_formula(answer.text) for answer in answers]
        verdicts = self._verdicts(answers, found)
        return [
            Judgement(formula, any(verdicts[pair] for pair in _pairs(answer, formula)))
            for answer, formula in zip(answers, found, strict=True)
        ]

    def _verdicts(self, answers: Sequence[Answer], found: Sequence[str | None]) -> dict[tuple[str, str], bool]:
        pairs = dict.fromkeys(
            pair for answer, formula in zip(answers, found, strict=True) for pair in _pairs(answer, formula)
        )
        verdicts = {pair: cheap_verdict(*pair) for pair in pairs}
        open_pairs = [pair for pair, verdict in verdicts.items() if verdict is None]
        with WorkerPool("math", self.cpu_limit_s) as pool:
            asked = pool.ask([{"gold": gold, "answer": answer} for gold, answer in open_pairs])
        verdicts.update((pair, result is True) for pair, result in zip(open_pairs, asked, strict=True))
        return {pair: verdict is True for pair, verdict in verdicts.items()}

    def check_gold(self, gold: str) -> str | None:
        return None if cleaned(gold_formula(gold)) else f"{gold[:80]!r} holds no formula"


def _pairs(answer: Answer, formula: str | None) -> list[tuple[str, str]]:
    """(gold, answer) as they are compared."""
    if formula is None:
        return []
    golds = [gold_formula(gold) for gold in answer.golds]
    return [(cleaned(gold), cleaned(formula)) for gold in golds if len(formula) <= max(_LONGEST_FORMULA, 2 * len(gold))]
