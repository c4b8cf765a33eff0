"""``evalcard doctor``: what a checkpoint's files hold, what is wrong with them, how far they are from a baseline."""

import json
import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

import click

from evalcard.card import numbers
from evalcard.cli.layout import wrap_name
from evalcard.cli.lines import WIDTH, disarmed

if TYPE_CHECKING:
    from evalcard.backends.inspect import Difference, Inspection, KindRow

_SHOWN = 10
"""Layers of the comparison that are printed; --json has all of them."""
_FEW = 3
"""Layers that are named where others of their kind are stored in another way."""
_RIGHT = (False, True, False, False, True)
"""Columns of the table that hold numbers."""
_WRAPPED, _LEAST, _GAP = (0, 2, 3), 12, 2
"""Columns of words, which are wrapped at their parts, their least width, and the blanks between two columns."""
_FIGURES = 24
"""Columns that error and cosine take beside a layer's name."""
_BREAKS = "._"
"""What ends a part of a layer's name."""


@click.command("doctor")
@click.argument("model")
@click.option(
    "--against", metavar="BASELINE", help="Compare the dequantized weights with this model's, layer by layer."
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON on stdout.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
def command(model: str, against: str | None, as_json: bool, quiet: bool) -> int:
    """Look into MODEL's files: format, scheme of every kind of layer, bits per weight as stored, and all faults.

    MODEL is a folder, a GGUF file or a Hub id. No model is loaded. With --against every weight is read, one layer at a
    time: a wrong packing or a forgotten scale stands out at once. Exit code 2: the checkpoint has faults.
    """
    from evalcard.backends.inspect import compare_models, inspect_model, report
    from evalcard.cli.progress import make_progress
    from evalcard.modelspec import parse_model

    spec = parse_model(model)
    baseline = parse_model(against) if against else None
    found = inspect_model(spec)
    if baseline is not None:
        inspect_model(baseline)
    compared = None
    if baseline is not None and not found.faults:
        compared = compare_models(spec, baseline, make_progress(quiet or as_json))
    if as_json:
        click.echo(json.dumps(report(found, compared), indent=1))
    else:
        for line in (*_summary(found), *_compared(compared, against)):
            click.echo(line)
    _say_faults(found)
    return 2 if found.faults else 0


def _summary(found: "Inspection") -> Iterator[str]:
    from evalcard.backends.inspect import kind_rows

    yield from _wrapped(f"{found.name}: {found.model_type}, {_format(found)}")
    bits = found.bits_per_weight
    share = "" if bits is None else f"; {numbers.bits(bits)} bits per weight of the decoder's linears, scales included"
    yield from _wrapped(f"{found.num_bytes / 1e6:,.1f} MB of weights in the files{share}")
    rows = kind_rows(found)
    if not rows:
        return
    yield ""
    yield from _table(rows)
    for words, count in found.extras.items():
        yield from _wrapped(f"and {count} x {words}")
    plain = [row for row in rows if not row.is_compressed and row.bits_per_weight is not None]
    if found.schemes:
        yield ""
        kinds = [row.kind if row.count == row.of else f"{row.kind} ({row.count} of {row.of})" for row in plain]
        yield from _wrapped(f"In full precision: {', '.join([*kinds, 'norms and biases'])}.")
    for note in found.notes:
        yield from _wrapped(disarmed(f"Note: {note}."))


def _format(found: "Inspection") -> str:
    if found.format is None:
        return "in a format or with settings that are not read"
    if found.faults and not found.layers:
        return found.format
    return f"{found.format}, {'compressed' if found.schemes else 'not compressed'}"


def _table(rows: "Sequence[KindRow]") -> Iterator[str]:
    cells = [("Layer", "Count", "Stored as", "Inputs", "Bits")]
    for row in rows:
        count = str(row.count) if row.count == row.of else f"{row.count} of {row.of}"
        bits = "" if row.bits_per_weight is None else numbers.bits(row.bits_per_weight)
        cells.append((row.kind, count, row.stored, row.inputs or "", bits))
    widths = _fitting([max(map(len, column)) for column in zip(*cells, strict=True)])
    for number, line in enumerate(cells):
        yield from _lines(line, widths)
        if number and (row := rows[number - 1]).count < row.of and row.count <= _FEW:
            for name in row.names:
                yield from (f"    {part}" for part in wrap_name(name, WIDTH - 4, _BREAKS).split("\n"))


def _fitting(widths: list[int]) -> list[int]:
    """The widths of columns in a table of 80 columns, taken from the widest of those that may be wrapped."""
    widths = list(widths)
    while sum(widths) + _GAP * (len(widths) - 1) > WIDTH:
        widest = max(_WRAPPED, key=widths.__getitem__)
        if widths[widest] <= _LEAST:
            break
        widths[widest] -= 1
    return widths


def _lines(cells: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """One row of the table; what is wider than its column goes on below."""
    parts = [wrap_name(text, size).split("\n") for text, size in zip(cells, widths, strict=True)]
    for texts in zip_longest(*parts, fillvalue=""):
        sides = zip(texts, widths, _RIGHT, strict=True)
        line = (text.rjust(size) if at_end else text.ljust(size) for text, size, at_end in sides)
        yield (" " * _GAP).join(line).rstrip()


def _compared(compared: "Sequence[Difference] | None", against: str | None) -> Iterator[str]:
    if compared is None:
        return
    yield ""
    shown = compared[:_SHOWN]
    yield from _wrapped(f"Against {against}, the worst {len(shown)} of {len(compared)} weights:")
    width = min(max((len(one.name) for one in shown), default=0), WIDTH - _FIGURES)
    yield f"{'Layer'.ljust(width)}  Relative error  Cosine"
    for one in shown:
        first, *more = wrap_name(one.name, width, _BREAKS).split("\n")
        yield f"{first.ljust(width)}  {one.error:14.4f}  {one.cosine:6.3f}"
        yield from more
    yield ""
    yield from _findings(compared)


def _findings(compared: "Sequence[Difference]") -> Iterator[str]:
    """Each finding once, with the layers that share it."""
    groups: dict[str, list[str]] = {}
    for one in compared:
        if one.finding is not None:
            groups.setdefault(one.finding, []).append(one.name)
    if not groups:
        yield "Every weight is as close to the baseline's as rounding to its bits brings it."
    for finding, names in groups.items():
        more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
        many = len(names) > 1
        yield from _wrapped(f"{', '.join(names[:_FEW])}{more}: {'each ' if many else ''}{finding}.")


def _say_faults(found: "Inspection") -> None:
    if not found.faults:
        return
    count = len(found.faults)
    click.echo(f"{count} fault{'' if count == 1 else 's'}; this model is not evaluated as it is:", err=True)
    for fault in found.faults:
        for line in _wrapped(disarmed(f"- {fault}")):
            click.echo(line, err=True)
    if found.advice:
        click.echo(found.advice, err=True)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
