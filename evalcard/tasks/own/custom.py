"""A data file of one's own as a task: ``invoices.jsonl``, or with the judge said, ``invoices.jsonl:contains``."""

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalcard.errors import UserError
from evalcard.tasks.data.readers import PACKED, SUFFIXES, read_rows
from evalcard.tasks.judges.judge import Judge
from evalcard.tasks.judges.registry import parse_judge
from evalcard.tasks.own.columns import Question, Table, read_table
from evalcard.tasks.own.documents import Documents, golds_for
from evalcard.tasks.own.inference import infer_judge, letters_offered, num_letters

MAX_ANSWER_TOKENS = 1024
_NAME = re.compile(rf"(?P<path>.+?(?:{'|'.join(map(re.escape, SUFFIXES))}))(?::(?P<judge>.*))?", re.DOTALL | re.I)
_STOP = "\nQuestion:"
"""A model that goes on after its answer asks itself the next question, in the form in which it was asked."""
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class DataFile:
    """What ``--tasks PATH[:JUDGE]`` asks for."""

    path: Path
    judge: str | None = None
    """As it was said; None lets the answers in the file tell."""

    @property
    def task_name(self) -> str:
        """The file's name without its ending."""
        return self.path.stem


def parse_data_file(name: str) -> DataFile | None:
    """The data file that ``name`` asks for, None where it is no data file's name.

    Raises UserError for a file that does not exist and for an unknown judge.
    """
    match = _NAME.fullmatch(name.strip())
    if match is None:
        _refuse_packed(Path(name.strip()).expanduser())
        return None
    is_whole = Path(name.strip()).expanduser().is_file()
    path = Path(name.strip() if is_whole else match["path"]).expanduser()
    judge = None if is_whole else match["judge"]
    if not path.is_file():
        raise UserError(
            f"there is no data file {path}. Give the path of a file ({', '.join(SUFFIXES)}) on this machine with a "
            "question and an answer in each row."
        )
    if judge is not None:
        parse_judge(judge)
    return DataFile(path, judge)


def _refuse_packed(path: Path) -> None:
    if path.suffix.lower() in PACKED and Path(path.stem).suffix.lower() in SUFFIXES and path.is_file():
        raise UserError(
            f"the data file {path} is packed, and packed files are not read. Unpack it and give {path.stem}."
        )


def data_task(file: DataFile) -> dict[str, Any]:
    """The config of the harness's ConfigurableTask for a data file, its documents read and checked.

    Raises UserError, with file and line, for rows that are no question with an answer, and for answers that the judge
    could never find right.
    """
    table = read_table(read_rows(file.path), str(file.path))
    judge, note = _judge(file, table)
    golds = _checked_golds(table.questions, judge, str(file.path))
    count = num_letters(table.questions) if judge is not None and judge.name == "choice" else 0
    config = {
        "task": file.task_name,
        "custom_dataset": Documents(file.path, table, golds, judge, count),
        "test_split": "test",
        "fewshot_split": "test",
        "doc_to_text": "prompt",
        "doc_to_target": "target",
        "target_delimiter": "" if all(one.text[-1:].isspace() for one in table.questions) else " ",
        "fewshot_config": {"sampler": _sampler(), "doc_to_target": "shot"},
        "metadata": {"version": _digest(file.path), "evalcard": _settings(table, judge, note, count)},
    }
    if table.questions[0].choices is not None or count:
        config["doc_to_choice"] = "letters"
    if any(one.system for one in table.questions):
        config["description"] = "system"
    return config | (_scored() if judge is None else _generated(table))


def _scored() -> dict[str, Any]:
    return {
        "output_type": "multiple_choice",
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    }


def _generated(table: Table) -> dict[str, Any]:
    until = [] if table.is_prompt else [_STOP]
    return {
        "output_type": "generate_until",
        "generation_kwargs": {
            "until": until, "do_sample": False, "temperature": 0.0, "max_gen_toks": MAX_ANSWER_TOKENS
        },
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    }  # fmt: skip


def _sampler() -> type:
    from evalcard.tasks.own.sampler import OtherQuestions

    return OtherQuestions


def _judge(file: DataFile, table: Table) -> tuple[Judge | None, str]:
    """(None: letters are scored by their log-probability, note for the plan)."""
    name = file.path.name
    has_choices = table.questions[0].choices is not None
    if file.judge is not None:
        notes = [f"scored by {file.judge}, as asked"]
    elif has_choices:
        notes = ["scored by the likeliest letter of its choices"]
    else:
        found, why = infer_judge(table.questions, str(file.path))
        notes = [f"scored by {found}: {why} (to score otherwise: {name}:exact, contains, number, math, choice, "
                 "regex=PATTERN)"]  # fmt: skip
    stated = file.judge if file.judge is not None or has_choices else found
    return None if stated is None else parse_judge(stated), "; ".join(notes + _more_notes(table))


def _more_notes(table: Table) -> list[str]:
    notes = []
    if table.is_prompt and table.questions[0].choices is not None:
        notes.append("the prompts are sent as they are and must list the choices by letter themselves")
    if table.counted_from_one:
        notes.append("no answer is 0: indices of choices count from 0 here")
    if table.ignored:
        notes.append(f"columns not used: {', '.join(table.ignored)}")
    if table.mended:
        shown = ", ".join(table.mended[:_SHOWN]) + (" and more" if len(table.mended) > _SHOWN else "")
        notes.append(f"half of a surrogate pair became U+FFFD in {shown}")
    return notes


def _checked_golds(questions: Sequence[Question], judge: Judge | None, name: str) -> list[tuple[str, ...]]:
    """What the judge compares with, for each question. Raises UserError for a gold that no answer could meet."""
    if judge is None:
        return [() for _ in questions]
    golds = [golds_for(question, judge) for question in questions]
    for question, found in zip(questions, golds, strict=True):
        for gold in found:
            if why := judge.check_gold(gold):
                raise UserError(
                    f"{name}, {question.place}: no answer could ever be right by {judge.name}: {why}. Correct the "
                    f"answer, or score by another judge, such as {name}:exact."
                )
    return golds


def _settings(table: Table, judge: Judge | None, note: str, count: int) -> dict[str, Any]:
    settings: dict[str, Any] = {"category": "Custom", "note": note}
    if judge is not None:
        settings["judge"] = judge.name
    if table.questions[0].id is not None:
        settings["id_field"] = "id"
    if judge is None or judge.name == "choice":
        settings["chance"] = _chance(table.questions, count)
    return settings


def _chance(questions: Sequence[Question], letters: int) -> float:
    """What guessing scores: the mean of right choices over choices; ``letters`` where questions list none."""
    shares = []
    for question in questions:
        count = len(question.choices or ()) or letters or len(letters_offered(question.text))
        shares.append(len(question.right or question.golds) / count if count else 0.0)
    return math.fsum(shares) / len(shares)


def _digest(path: Path) -> str:
    """The version of a file is what is in it: 8 hex of its bytes' sha256."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:8]
