"""Judges by the name they are asked for. Light: the standard library only."""

from evalcard.errors import UserError
from evalcard.tasks.judges.choice import ChoiceJudge
from evalcard.tasks.judges.judge import Judge
from evalcard.tasks.judges.mathematics import MathJudge
from evalcard.tasks.judges.number import NumberJudge
from evalcard.tasks.judges.pattern import PatternJudge
from evalcard.tasks.judges.words import ContainsJudge, ExactJudge

JUDGES = {
    "math": "formulas that mean the same, by math-verify",
    "number": "the number the answer ends on, compared exactly",
    "choice": "the letter of an option",
    "exact": "the stated answer or the whole reply, without case, articles and punctuation",
    "contains": "the gold as whole words anywhere in the reply",
    "regex=": "regex=PATTERN: what the pattern finds last, compared as exact does",
}
"""Name -> what it compares, in one line."""


def parse_judge(text: str) -> Judge:
    """The judge of that name. Raises UserError for an unknown one and for a pattern that is no regular expression."""
    name = text.strip()
    if name.startswith("regex="):
        return PatternJudge(text.lstrip()[len("regex=") :])
    judges: dict[str, Judge] = {
        "math": MathJudge(),
        "number": NumberJudge(),
        "choice": ChoiceJudge(),
        "exact": ExactJudge(),
        "contains": ContainsJudge(),
    }
    if name not in judges:
        raise UserError(
            f"{name!r} is no way to score an answer. Known are {', '.join(judges)} and regex=PATTERN, such as "
            r"regex=Total: (\d+)."
        )
    return judges[name]
