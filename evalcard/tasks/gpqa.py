"""GPQA's documents: four options in an order that depends on the item alone, and the letter of the right one."""

import hashlib
from typing import Any

from evalcard.errors import UserError

_QUESTION = "Question"
_OPTIONS = ("Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")
"""The right one first, as in the data set; a prompt must not show that."""
_SALT = "evalcard gpqa 1"


def process_docs(dataset: Any) -> Any:
    """``question``, ``choices`` (four texts) and ``answer`` (A to D) of each row of a ``datasets.Dataset``.

    Raises UserError for missing columns and empty cells.
    """
    missing = [name for name in (_QUESTION, *_OPTIONS) if name not in dataset.column_names]
    if missing:
        raise UserError(
            f"GPQA's documents have no column {' or '.join(map(repr, missing))}; they have "
            f"{', '.join(dataset.column_names)}. Take the file as the Hub has it (Idavidrein/gpqa)."
        )
    docs = [_document(position, row) for position, row in enumerate(dataset)]
    return type(dataset).from_list(docs)


def _document(position: int, row: dict[str, Any]) -> dict[str, Any]:
    empty = [name for name in (_QUESTION, *_OPTIONS) if not isinstance(row[name], str) or not row[name].strip()]
    if empty:
        raise UserError(f"GPQA's document at position {position} has no text under {empty[0]!r}.")
    question, options = row[_QUESTION].strip(), [row[name].strip() for name in _OPTIONS]
    order = shuffled(question, options)
    return {
        "question": question,
        "choices": [options[index] for index in order],
        "answer": "ABCD"[order.index(0)],
    }


def shuffled(question: str, options: list[str]) -> list[int]:
    """Indices of ``options`` in the order in which they are shown: by a hash of question and option.

    The order is as random as a hash, and stays the same whatever other items there are and however the data set orders
    its columns, as long as the options differ.
    """
    keys = [hashlib.sha256("\0".join((_SALT, question, option)).encode()).digest() for option in options]
    return sorted(range(len(options)), key=keys.__getitem__)
