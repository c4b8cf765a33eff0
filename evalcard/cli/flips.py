"""Flipped items on a terminal of 80 columns: the question, what is right, and what each model said instead."""

import json
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence

import click
from rich.console import Console
from rich.text import Text

from evalcard.card import numbers
from evalcard.card.labels import model_labels
from evalcard.card.tables import is_percent
from evalcard.cli.layout import plain_table, print_table
from evalcard.cli.lines import WIDTH, cut, fact, num_tokens, visible
from evalcard.compare.choices import pick_of
from evalcard.compare.flips import Flip, Reply
from evalcard.results.compared import Comparison, CompressedScore
from evalcard.results.records import Finish, RunRecord, ScoredChoice

_LINES_BEFORE, _LINES_AFTER = 3, 1
"""Of a reply, around the line that holds its answer."""
_LONG_LINE, _LONG_QUESTION = 320, 1200
"""Characters beyond which a text is cut in its middle."""
_ENDED: dict[Finish, str] = {
    "stop": "ended by itself",
    "stop_string": "ended by a stop string",
    "length": "cut off by the limit",
    "error": "failed",
    "not_told": "how it ended is not told",
}


def echo(lines: Iterable[str]) -> None:
    """As it is: no markup, no control characters, and what the terminal cannot spell as an escape."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    for line in lines:
        click.echo(visible(line).encode(encoding, "backslashreplace").decode(encoding))


def print_counts(run: RunRecord, comparison: Comparison, console: Console | None = None) -> None:
    """Per row and model how many items flipped, whether chance alone would do that, and what it comes to in points."""
    table = plain_table()
    table.add_column("Row", overflow="fold")
    table.add_column("Model", overflow="fold")
    for head in ("Lost", "Gained", "p"):
        table.add_column(head, justify="right")
    table.add_column(Text(f"Difference, points\n[{100 * comparison.confidence:g} % interval]"), justify="right")
    labels = model_labels(run.models)
    for row in comparison.tasks:
        as_percent = is_percent(run, row)
        for one in row.compressed:
            counts = (numbers.count(one.lost), numbers.count(one.gained), numbers.p_value(one.mcnemar_p))
            cells = (row.task, labels[one.model], *counts, _change(one, as_percent))
            table.add_row(*(Text(visible(cell)) for cell in cells))
    print_table(table, console or Console())


def _change(one: CompressedScore, as_percent: bool) -> str:
    change = one.difference
    if change is None:
        return numbers.DASH
    told = numbers.difference(change.value, as_percent)
    if change.low is None or change.high is None:
        return told
    return f"{told}\n[{numbers.difference(change.low, as_percent)}, {numbers.difference(change.high, as_percent)}]"


def not_shown(missing: Sequence[str]) -> Iterator[str]:
    """Why questions are missing, once."""
    for why in missing:
        yield from _wrapped(f"note: questions are not shown where they could not be read: {why}")


def flip_lines(flip: Flip, is_full: bool, label: str | None = None) -> Iterator[str]:
    """One item; ``is_full`` shows questions and replies whole, ``label`` names the model where there are several."""
    row = flip.row if flip.task == flip.row else f"{flip.row}: {flip.task}"
    whose = f", {label}" if label else ""
    which = f", repeat {flip.repeat}" if flip.repeats > 1 else ""
    yield from _wrapped(f"{flip.direction.upper()}  {row}, item {flip.item_id}{which}{whose}")
    if flip.question:
        question = flip.question if is_full else shortened(flip.question, _LONG_QUESTION)
        yield "  question"
        yield from _quoted(question.split("\n"))
    yield from fact("gold", _on_one_line(flip.gold, is_full))
    if flip.baseline.sample.choices is not None and flip.compressed.sample.choices is not None:
        yield from _choices(flip, is_full)
        return
    for label, reply in (("baseline", flip.baseline), ("compressed", flip.compressed)):
        yield from fact(label, _said(reply, is_full))
        if reply.sample.text:
            yield from _quoted(excerpt(reply.sample.text, reply.verdict.extracted, is_full))


def excerpt(text: str, extracted: str | None, is_full: bool = False) -> list[str]:
    """The lines of a reply that matter: those around the last mention of what was extracted, else the last ones.

    What is left out is counted in its place.
    """
    lines = text.strip().split("\n")
    if is_full:
        return lines
    wanted = extracted.strip().split("\n")[-1] if extracted and extracted.strip() else None
    last = len(lines) - 1
    at = next((number for number in range(last, -1, -1) if wanted and wanted in lines[number]), last)
    start, end = max(0, at - _LINES_BEFORE), min(len(lines), at + _LINES_AFTER + 1)
    shown = [shortened(line, _LONG_LINE) for line in lines[start:end]]
    before = [f"[{_num_lines(start)} before]"] if start else []
    after = [f"[{_num_lines(len(lines) - end)} after]"] if end < len(lines) else []
    return [*before, *shown, *after]


def shortened(text: str, limit: int) -> str:
    """``text`` without its middle where it is longer than ``limit``, and how many characters that were."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} [... {len(text) - 2 * half} characters ...] {text[-half:]}"


def _said(reply: Reply, is_full: bool) -> str:
    sample, verdict = reply.sample, reply.verdict
    found = "no answer found" if verdict.extracted is None else json.dumps(verdict.extracted, ensure_ascii=False)
    tokens = f" after {num_tokens(sample.output_tokens)}" if sample.output_tokens else ""
    fault = f": {sample.fault}" if sample.fault else ""
    outcome = verdict.outcome.replace("_", " ")
    return f"{_on_one_line(found, is_full)} ({outcome}); {_ENDED[sample.finish]}{tokens}{fault}"


def _choices(flip: Flip, is_full: bool) -> Iterator[str]:
    """Every choice with both log-probabilities; a star marks each model's pick."""
    ours, theirs = flip.baseline.sample.choices or [], flip.compressed.sample.choices or []
    picks = [pick_of(given, one.verdict) for one, given in ((flip.baseline, ours), (flip.compressed, theirs))]
    yield "    baseline  compressed  choice (log-probabilities; * picked)"
    for number in range(max(len(ours), len(theirs))):
        cells = [_logprob(given, number, pick) for given, pick in zip((ours, theirs), picks, strict=True)]
        text = (ours if number < len(ours) else theirs)[number].text
        head = f"  {cells[0]:>10}  {cells[1]:>10}  "
        yield from textwrap.wrap(
            visible(_on_one_line(text, is_full)) or "(empty)", WIDTH, initial_indent=head,
            subsequent_indent=" " * len(head), break_on_hyphens=False,
        )  # fmt: skip
    for label, reply in (("baseline", flip.baseline), ("compressed", flip.compressed)):
        if reply.sample.finish == "error":
            yield from fact(label, _said(reply, is_full))


def _logprob(choices: Sequence[ScoredChoice], number: int, pick: int | None) -> str:
    if number >= len(choices):
        return "- "
    logprob = choices[number].logprob
    return ("-" if logprob is None else f"{logprob:.3f}") + ("*" if number == pick else " ")


def _quoted(lines: Iterable[str]) -> Iterator[str]:
    """Text of others, marked at its left; a line that goes on says so."""
    for line in lines:
        for part, text in enumerate(cut(visible(line.expandtabs(4)), WIDTH - 6)):
            yield (("    : " if part else "    | ") + text).rstrip()


def _on_one_line(text: str, is_full: bool) -> str:
    joined = " ".join(text.split())
    return joined if is_full else shortened(joined, _LONG_LINE)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(visible(text), WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _num_lines(count: int) -> str:
    return f"{count} line{'' if count == 1 else 's'}"
