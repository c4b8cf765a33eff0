"""Words of a user's own before they go into evalcard's section: what would make an error of the card."""

from evalcard.card.check.check import check_card
from evalcard.card.section import BEGIN, END

# A card without a fault but what the notes bring.
_ABOVE = f"---\nlicense: mit\nbase_model: a/b\nbase_model_relation: quantized\n---\n\n# Notes\n\n{BEGIN}\n\n"
_BELOW = f"\n\n{END}\n"


def fault_of_notes(notes: str) -> str | None:
    """The first error that ``--check`` would find in a card by these notes, with its line of them; None for none.

    Images are not looked for: they are put beside the card later.
    """
    first = _ABOVE.count("\n")
    last = first + notes.count("\n") + 1
    for problem in check_card(f"{_ABOVE}{notes}{_BELOW}", own=True):
        if problem.level == "error" and problem.line is not None and first < problem.line <= last:
            return f"line {problem.line - first} of the notes: {problem.what}. {problem.advice}"
    return None
