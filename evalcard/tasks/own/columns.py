"""Rows of a data file of one's own -> questions with their right answers; each fault is named with its line. Light."""

import ast
import difflib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evalcard.errors import UserError
from evalcard.tasks.data.readers import Row

MAX_CHOICES = 26
_ROLES = {"question": "question", "prompt": "question", "answer": "answer", "target": "answer", "choices": "choices",
          "id": "id", "system": "system"}  # fmt: skip
"""Names a column may have -> what it is for."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_SHOWN = 60
_INT64 = 2**63


@dataclass(frozen=True, slots=True)
class Question:
    """One row, read."""

    place: str
    text: str
    golds: tuple[str, ...]
    """Right answers as texts; with choices those of the file, before they are looked up."""
    choices: tuple[str, ...] | None
    right: tuple[int, ...]
    """Places of the right choices, from 0; empty without choices."""
    id: int | str | None
    system: str | None


@dataclass(frozen=True, slots=True)
class Table:
    """A whole file."""

    questions: tuple[Question, ...]
    is_prompt: bool
    """Whether the texts are sent as they are."""
    ignored: tuple[str, ...]
    """Columns that nothing is made of."""
    mended: tuple[str, ...]
    """Places of rows in which halves of surrogate pairs, which no tokenizer reads, became U+FFFD."""
    counted_from_one: bool
    """Whether answers are indices, none of which is 0."""


class Fault(Exception):
    """What is wrong with one row, without its place."""


def read_table(rows: Sequence[Row], name: str) -> Table:
    """Raises UserError, naming ``name`` and the line, for whatever makes a row no question with a right answer."""
    columns, ignored = _columns(rows, name)
    mended: list[str] = []
    questions = [_at(name, row.place, _question, row, columns, mended) for row in rows]
    _refuse_twins(questions, name)
    indexed = [row.values[columns["answer"]] for row in rows] if "choices" in columns else []
    return Table(
        tuple(questions),
        columns["question"].strip().lower() == "prompt",
        ignored,
        tuple(dict.fromkeys(mended)),
        bool(indexed) and all(re.fullmatch(r"[1-9]\d?", str(one)) for one in indexed),
    )


def _at(name: str, place: str, function: Any, *args: Any) -> Any:
    try:
        return function(*args)
    except Fault as fault:
        raise UserError(f"{name}, {place}: {fault}") from None


def _columns(rows: Sequence[Row], name: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """(what a column is for -> its name in the file, the names of all others)."""
    found = list(dict.fromkeys(key for row in rows for key in row.values))
    columns: dict[str, str] = {}
    for column in found:
        role = _ROLES.get(column.strip().lower())
        if role and role in columns:
            raise UserError(
                f"{name} has both a column {columns[role]!r} and a column {column!r}; keep the one that is meant."
            )
        if role:
            columns[role] = column
    for role, names in (("question", ("question", "prompt")), ("answer", ("answer", "target"))):
        if role not in columns:
            raise UserError(_missing(name, names, [one for one in found if one not in columns.values()], found))
    return columns, tuple(one for one in found if one not in columns.values())


def _missing(name: str, wanted: tuple[str, str], free: list[str], found: list[str]) -> str:
    text = f"{name} has no column {wanted[0]!r} or {wanted[1]!r}; it has {', '.join(map(repr, found)) or 'none'}."
    lowered = {one.strip().lower(): one for one in free}
    near = [(close, one) for one in wanted for close in difflib.get_close_matches(one, lowered, n=1, cutoff=0.7)]
    if near:
        return f"{text} Rename {lowered[near[0][0]]!r} to {near[0][1]!r} if that is it."
    if len(found) == 1 and re.search(r"[;\t]", found[0]):
        return f"{text} Columns of a .csv file are parted by commas, those of a .tsv file by tabs."
    return f"{text} A row needs a question (or a prompt, sent as it is) and an answer (or a target)."


def _question(row: Row, columns: dict[str, str], mended: list[str]) -> Question:
    values = {role: row.values.get(column) for role, column in columns.items()}
    for role, value in values.items():
        if value is None or value == "" and role in ("answer", "choices", "id"):
            if role == "system":
                continue
            has = ", ".join(repr(key) for key, given in row.values.items() if given not in (None, "")) or "nothing"
            raise Fault(f"it has no {columns[role]!r}, which every row needs where one has it; it has {has}")
    text, system = _clean("question", values["question"], row, mended), values.get("system")
    if not text.strip():
        raise Fault(f"its {columns['question']!r} is empty")
    choices = _choices(values["choices"], row, mended) if "choices" in columns else None
    golds = _golds(_listed(values["answer"], choices is not None), row, mended)
    right = () if choices is None else tuple(dict.fromkeys(_resolve(gold, choices) for gold in golds))
    return Question(
        row.place, text, golds, choices, right, _id(values["id"], row, mended) if "id" in columns else None,
        None if system is None else _clean("system", system, row, mended),
    )  # fmt: skip


def as_text(value: Any) -> str:
    """A single value as JSON spells it, texts without quotes: 5, 5.0, true. Raises Fault for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        raise Fault(f"{value} is no number that an answer could meet")
    if value is None or isinstance(value, (list, dict, tuple, bytes)):
        raise Fault(f"it holds {str(value)[:_SHOWN]} where one text or number belongs")
    return str(value)


def _clean(what: str, value: Any, row: Row, mended: list[str]) -> str:
    try:
        text = as_text(value)
    except Fault as fault:
        raise Fault(f"{what}: {fault}") from None
    clean = _SURROGATE.sub("\ufffd", text)
    if clean != text:
        mended.append(row.place)
    return clean


def _listed(value: Any, has_choices: bool) -> Any:
    """A CSV cell that is a list is that list; without choices [1, 2] may be an interval and stays a text."""
    found = _read_list(value) if isinstance(value, str) else None
    return found if found and (has_choices or all(isinstance(one, str) for one in found)) else value


def _read_list(text: str) -> list[Any] | None:
    """A list in a cell: JSON, or as Python's csv and pandas write one (['a', 'b']); None for any other text."""
    if not (text.lstrip().startswith("[") and text.rstrip().endswith("]")):
        return None
    for read in (json.loads, ast.literal_eval):
        try:
            found = read(text.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        return found if isinstance(found, list) else None
    return None


def _golds(value: Any, row: Row, mended: list[str]) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else [value]
    if not listed:
        raise Fault("its answer is an empty list; name at least one right answer")
    golds = tuple(dict.fromkeys(_clean("answer", one, row, mended) for one in listed))
    if not all(gold.strip() for gold in golds):
        raise Fault("its answer is empty; every row needs a right answer")
    return golds


def _choices(value: Any, row: Row, mended: list[str]) -> tuple[str, ...]:
    listed = _read_list(value) if isinstance(value, str) else value
    if not isinstance(listed, list):
        raise Fault(f'choices must be a list such as ["red", "green"], not {str(value)[:_SHOWN]}')
    if not 2 <= len(listed) <= MAX_CHOICES:
        raise Fault(f"it has {len(listed)} choices; give 2 to {MAX_CHOICES}")
    choices = tuple(_clean("choices", one, row, mended) for one in listed)
    if not all(choice.strip() for choice in choices):
        raise Fault("one of its choices is empty")
    plain = [choice.strip() for choice in choices]
    if twice := next((one for place, one in enumerate(plain) if one in plain[:place]), None):
        raise Fault(
            f"the choice {twice[:_SHOWN]!r} stands twice among its choices, so an answer may mean both; give each once"
        )
    return choices


def _resolve(gold: str, choices: tuple[str, ...]) -> int:
    """The place of the right choice: by its text, its letter or its index from 0. Raises Fault unless these agree."""
    plain = gold.strip()
    meant = {place: "its text" for place, choice in enumerate(choices) if choice.strip() == plain}
    if re.fullmatch(r"[A-Za-z]", plain) and (place := ord(plain.upper()) - ord("A")) < len(choices):
        meant.setdefault(place, "its letter")
    if re.fullmatch(r"\d{1,2}", plain, re.ASCII) and (place := int(plain)) < len(choices):
        meant.setdefault(place, "its index, counted from 0")
    if not meant:
        last = chr(ord("A") + len(choices) - 1)
        raise Fault(
            f"the answer {gold[:_SHOWN]!r} is none of its {len(choices)} choices. Give a letter (A to {last}), an "
            f"index (0 to {len(choices) - 1}) or the text of a choice"
        )
    if len(meant) > 1:
        read = " or ".join(f"{choices[place][:_SHOWN]!r} ({how})" for place, how in meant.items())
        raise Fault(f"the answer {gold[:_SHOWN]!r} may mean {read}. Say it so that only one is meant")
    return next(iter(meant))


def _id(value: Any, row: Row, mended: list[str]) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and -_INT64 <= value < _INT64:
        return value
    return _clean("id", value, row, mended)


def _refuse_twins(questions: Sequence[Question], name: str) -> None:
    first: dict[str, Question] = {}
    for question in questions if questions[0].id is not None else ():
        known = first.setdefault(str(question.id), question)
        if known is not question:
            raise UserError(
                f"{name}: the id {question.id!r} stands in {known.place} and in {question.place}. Give every row an "
                "id of its own, or leave the column out."
            )
