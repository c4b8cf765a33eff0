"""``evalcard doctor``: what a checkpoint's files hold, what is wrong with them, how far they are from a baseline."""

import json
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from evalcard.backends.inspect import Difference, Inspection, KindRow

_SHOWN = 10
"""Layers of the comparison that are printed; --json has all of them."""
_FEW = 3
"""Layers that are named where others of their kind are stored in another way."""


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

    yield f"{found.name}: {found.model_type}, {_format(found)}"
    bits = found.bits_per_weight
    share = "" if bits is None else f"; {bits:.2f} bits per weight of the decoder's linears, scales included"
    yield f"{found.num_bytes / 1e6:,.1f} MB of weights in the files{share}"
    rows = kind_rows(found)
    if not rows:
        return
    yield ""
    yield from _table(rows)
    for words, count in found.extras.items():
        yield f"and {count} x {words}"
    plain = [row for row in rows if not row.is_compressed and row.bits_per_weight is not None]
    if found.schemes:
        yield ""
        kinds = [row.kind if row.count == row.of else f"{row.kind} ({row.count} of {row.of})" for row in plain]
        yield from _wrapped(f"In full precision: {', '.join([*kinds, 'norms and biases'])}.")


def _format(found: "Inspection") -> str:
    if found.format is None:
        return "in a format or with settings that are not read"
    return f"{found.format}, {'compressed' if found.schemes else 'not compressed'}"


def _table(rows: "Sequence[KindRow]") -> Iterator[str]:
    cells = [("Layer", "Count", "Stored as", "Inputs", "Bits")]
    for row in rows:
        count = str(row.count) if row.count == row.of else f"{row.count} of {row.of}"
        bits = "" if row.bits_per_weight is None else f"{row.bits_per_weight:.2f}"
        cells.append((row.kind, count, row.stored, row.inputs or "", bits))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = (False, True, False, False, True)
    for number, line in enumerate(cells):
        texts = zip(line, widths, right, strict=True)
        yield "  ".join(text.rjust(size) if at_end else text.ljust(size) for text, size, at_end in texts).rstrip()
        if number and (row := rows[number - 1]).count < row.of and row.count <= _FEW:
            yield f"    {', '.join(row.names)}"


def _compared(compared: "Sequence[Difference] | None", against: str | None) -> Iterator[str]:
    if compared is None:
        return
    yield ""
    shown = compared[:_SHOWN]
    yield f"Against {against}, the worst {len(shown)} of {len(compared)} weights:"
    width = max((len(one.name) for one in shown), default=0)
    yield f"{'Layer'.ljust(width)}  Relative error  Cosine"
    for one in shown:
        yield f"{one.name.ljust(width)}  {one.error:14.4f}  {one.cosine:6.3f}"
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
        for line in _wrapped(f"- {fault}"):
            click.echo(line, err=True)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 100, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
