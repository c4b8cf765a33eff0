"""``evalcard tasks``: what a task name means, what a model would be sent, and fetching data before it is needed."""

import dataclasses
import json
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evalcard.cli.lines import WIDTH, cut, fact, num_tokens, visible

if TYPE_CHECKING:
    from evalcard.results.records import RowRecord
    from evalcard.tasks.data.prefetch import Fetched
    from evalcard.tasks.describe import Described, ShownItem, TaskFacts
    from evalcard.tasks.overview import Listed

_SHOWN = 10
"""Subtasks that are named; --json names all."""
_RULES = {"size": "pooled by size", "mean": "the mean of its tasks"}


@click.command("tasks")
@click.argument("names", required=False, metavar="[NAME,...]")
@click.option("--check", is_flag=True, help="Show the prompts of three items, their tokens and right answers.")
@click.option("--prefetch", metavar="NAME,...", help="Fetch the data sets of tasks and say where each lies.")
@click.option(
    "--tokenizer", metavar="DIR", help="Whose tokens are counted: a model folder or Hub id. Default: the demo's."
)
@click.option("--apply-chat-template", "chat_template", is_flag=True, help="Show prompts as turns (with --tokenizer).")
@click.option("--num-fewshot", type=click.IntRange(min=0), help="Worked examples in the prompt; default: the task's.")
@click.option("--system", metavar="TEXT", help="System message or instruction before every prompt.")
@click.option("--data-root", type=click.Path(), help="Folder that holds data sets by their Hub ids.")
@click.option("--trust-task-code", is_flag=True, help="Run Python that task files name or lead to.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
def command(names: str | None, prefetch: str | None, as_json: bool, data_root: str | None, **flags: Any) -> int:
    """Say what the tasks NAME mean here: data, shots, decoding, scoring. No model is loaded.

    A NAME is one of evalcard's or lm-eval's tasks, or the path of a YAML or data file (invoices.jsonl). Without one,
    evalcard's own tasks are listed.
    """
    if prefetch is not None:
        return _prefetch([one for one in (prefetch, names) if one], data_root, flags["trust_task_code"], as_json)
    if not names:
        return _list(data_root, as_json, flags)
    from evalcard.tasks.describe import describe

    described = describe([names], data_root=data_root, **flags)
    _print(_as_json(described) if as_json else _lines(described))
    return 0


def _list(data_root: str | None, as_json: bool, flags: dict[str, Any]) -> int:
    from evalcard.errors import UserError
    from evalcard.tasks.data.roots import data_roots
    from evalcard.tasks.overview import list_ours

    if flags["check"]:
        raise UserError("--check needs the name of a task: evalcard tasks NAME --check.")
    listed = list_ours(data_roots(data_root))
    _print(_as_json(listed) if as_json else _table(listed))
    return 0


def _prefetch(names: list[str], data_root: str | None, trust: bool, as_json: bool) -> int:
    from evalcard.errors import UserError
    from evalcard.tasks.data.prefetch import prefetch

    if not any(name.strip(", ") for name in names):
        raise UserError("--prefetch needs names: evalcard tasks --prefetch mmlu,gsm8k.")
    done = []
    for one in prefetch(names, data_root, trust):
        done.append(one)
        if not as_json:
            _print(_fetched(one))
    if as_json:
        _print(_as_json(done))
    return UserError.exit_code if any(one.error for one in done) else 0


def _print(lines: Iterable[str]) -> None:
    """As it is: no markup, no control characters, and what the terminal cannot spell as an escape."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    for line in lines:
        click.echo(visible(line).encode(encoding, "backslashreplace").decode(encoding))


def _as_json(found: Any) -> Iterator[str]:
    yield json.dumps(found, indent=1, default=_plain)


def _plain(value: Any) -> Any:
    return value.model_dump(exclude_none=True) if hasattr(value, "model_dump") else dataclasses.asdict(value)


def _table(listed: "list[Listed]") -> Iterator[str]:
    rows = [(one.name, str(one.num_tasks), one.shots, "-" if one.items is None else str(one.items), one.scored)
            for one in listed]  # fmt: skip
    header = ("Name", "Tasks", "Shots", "Items", "Scored by")
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(4)]
    for name, tasks, shots, items, scored in (header, *rows):
        numbers = "  ".join(cell.rjust(width) for cell, width in zip((tasks, shots, items), widths[1:], strict=True))
        head = f"{name.ljust(widths[0])}  {numbers}  "
        yield from textwrap.wrap(scored, WIDTH, initial_indent=head, subsequent_indent=" " * len(head))
    yield ""
    yield from textwrap.wrap(
        "Items: - where a data set is in no data root. Every task of lm-eval works too (evalcard list), and so does a "
        "YAML or data file of your own. evalcard tasks NAME says what a name means.", WIDTH
    )  # fmt: skip


def _fetched(one: "Fetched") -> Iterator[str]:
    if one.error:
        yield from fact(one.name, f"not there: {one.error}")
    else:
        yield from fact(one.name, f"{one.documents} documents; {', '.join(one.places)}")


def _lines(described: "Described") -> Iterator[str]:
    for number, row in enumerate(described.rows):
        yield from [""] if number else []
        yield from _row(row, described.of(row))
    for note in described.notes:
        yield from textwrap.wrap(f"note: {note}", WIDTH, subsequent_indent="  ")
    if described.missing:
        yield from ["", *textwrap.wrap(f"Documents that are not here: {described.missing}", WIDTH,
                                       break_long_words=False, break_on_hyphens=False)]  # fmt: skip
    if described.tokenizer:
        yield from ["", *textwrap.wrap(f"Tokens are those of the tokenizer of {described.tokenizer}.", WIDTH)]
    for item in described.items:
        yield ""
        yield from _item(item)


def _row(row: "RowRecord", tasks: "list[TaskFacts]") -> Iterator[str]:
    known = [task.documents for task in tasks if task.documents is not None]
    if len(tasks) == 1:
        yield f"{row.name} ({tasks[0].source}, version {tasks[0].version})"
    else:
        yield f"{row.name}: {len(tasks)} tasks, {_RULES.get(row.rule, row.rule)}"
        counts = ["" if task.documents is None else f" ({task.documents})" for task in tasks]
        shown = ", ".join(f"{task.name}{count}" for task, count in zip(tasks[:_SHOWN], counts, strict=False))
        yield from fact("tasks", shown + (f", and {len(tasks) - _SHOWN} more" if len(tasks) > _SHOWN else ""))
    of = _each(_dataset(task) for task in tasks)
    if len(known) == len(tasks):
        yield from fact("documents", f"{sum(known)} of {of}")
        yield from fact("at", _where([task.place for task in tasks]))
    else:
        yield from fact("documents", f"not here: {of}")
    yield from fact("shots", _each(str(task.num_fewshot) for task in tasks))
    yield from fact("answers", _each(_answers(task) for task in tasks))
    stops = _each(", ".join(map(json.dumps, task.stop_strings)) or "none of its own" for task in tasks)
    yield from fact("stop at", stops) if any(task.max_tokens for task in tasks) else []
    yield from fact("scored by", _each(_scored(task) for task in tasks))
    yield from fact("category", _each(task.category for task in tasks))
    chances = [task.chance for task in tasks if task.chance is not None]
    yield from fact("guessing", _each(f"{100 * one:.4g} %" for one in chances)) if chances else []


def _each(values: Iterable[str]) -> str:
    """The values that tasks share, or the first few of many."""
    distinct = list(dict.fromkeys(values))
    return "; ".join(distinct[:3]) + (f"; ... ({len(distinct)} kinds)" if len(distinct) > 3 else "")


def _dataset(task: "TaskFacts") -> str:
    return ", ".join(part for part in (task.dataset or "the task's own file", task.split) if part)


def _where(places: Sequence[str | None]) -> str:
    """One folder, or the one that holds the folders of many subsets."""
    known = [place for place in places if place]
    if len(known) < len(places):
        return "made by the task's own code"
    folder = os.path.commonpath(known)
    return folder if folder in known or len(Path(folder).parts) > 2 else _each(known)


def _answers(task: "TaskFacts") -> str:
    text = task.answers + (f", at most {num_tokens(task.max_tokens)}" if task.max_tokens else "")
    return text + (f", {task.repeats} samples each" if task.repeats > 1 else "")


def _scored(task: "TaskFacts") -> str:
    if task.judge:
        return f"judge {task.judge} ({task.metric})"
    also = f" (also graded: {', '.join(task.other_filters)})" if task.other_filters else ""
    return f"{task.metric}, filter {task.filter}{also}" if task.max_tokens else task.metric


def _item(item: "ShownItem") -> Iterator[str]:
    yield f"--- {item.task}, item {item.item_id}: {num_tokens(item.prompt_tokens, 'prompt ')} ---"
    for line in item.prompt.split("\n"):
        for part, text in enumerate(cut(visible(line), WIDTH - 4)):
            yield ("  : " if part else "  | ") + text
    for choice, tokens in zip(item.choices, item.choice_tokens, strict=True):
        yield from fact("choice", f"{json.dumps(choice, ensure_ascii=False)} ({num_tokens(tokens)})")
    if item.max_tokens is not None:
        stops = ", ".join(json.dumps(text, ensure_ascii=False) for text in item.stop_strings)
        yield from fact("answer", f"at most {num_tokens(item.max_tokens)}; stop at {stops or 'nothing of its own'}")
    yield from fact("gold", " or ".join(json.dumps(gold, ensure_ascii=False) for gold in item.golds))
