"""What ``evalcard footprint`` prints: facts in lines, sizes in tables, at 80 columns."""

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.text import Text

from evalcard.card import numbers
from evalcard.cli.layout import plain_table, print_table, print_wrapped
from evalcard.cli.lines import visible
from evalcard.footprint.report import AS_STORED, FitRow, Report
from evalcard.footprint.sizes import gib_and_gb, memory
from evalcard.footprint.weights import PLAIN

DASH = "–"
_UNIT = "GiB (GB)"
_BEYOND, _MEASURED = "*", "+"
_LEAST_SAID = 0.001
"""Of the counted bytes: a smaller difference from the files is rounding of scales and the like."""


def print_report(report: Report, console: Console | None = None) -> None:
    """Parameters, weights, cache, and how many cards and requests."""
    console = console or Console()
    _say(console, _head(report))
    _print_parameters(report, console)
    _print_weights(report, console)
    _print_cache(report, console)
    _print_fits(report, console)
    _say(console, _notes(report))


def _say(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        print_wrapped(Text(visible(line)), console)


def _head(report: Report) -> Iterator[str]:
    found = report.footprint
    active = f", {numbers.parameters(found.num_active)} active for a token" if found.has_experts else ""
    yield f"{report.name} ({found.model_type}): {numbers.parameters(found.num_parameters)} parameters{active}"
    told = "Counted from the config"
    if report.measured is not None:
        files = report.measured.num_files
        told += f"; its {'file holds' if files == 1 else f'{files} files hold'} {memory(report.measured.num_bytes)}"
    yield f"{told}."
    difference, counted = report.difference, report.counted_bytes
    if difference and counted and abs(difference) > _LEAST_SAID * counted:
        yield (
            f"That is {memory(abs(difference))} {'more' if difference > 0 else 'less'} than the config lets expect, "
            f"{memory(counted)}: what was measured holds."
        )
    if report.stored is not None and report.counted_bytes is None and report.measured is None:
        yield (
            f"Its weights are compressed ({report.stored.method}) in a way that the config does not tell the bytes of; "
            "give the folder with the files to have them measured. The schemes below start from 16 bits."
        )


def _print_parameters(report: Report, console: Console) -> None:
    found = report.footprint
    table = plain_table()
    table.add_column("Kind")
    for title in ("Parameters", "Share"):
        table.add_column(title, justify="right")
    for kind, count in found.by_kind.items():
        table.add_row(kind, f"{count:,}", f"{numbers.in_percent(count / found.num_parameters)} %")
    if found.tied_head is not None:
        table.add_row("head", "the embedding", "")
    table.add_row("all", f"{found.num_parameters:,}", "")
    console.print()
    print_table(table, console)


def _print_weights(report: Report, console: Console) -> None:
    table = plain_table()
    table.add_column("Weights")
    for title in (_UNIT, "Bits per parameter"):
        table.add_column(title, justify="right")
    for row in report.weights:
        mark = _MEASURED if row.is_measured else ""
        table.add_row(row.scheme, gib_and_gb(row.num_bytes) + mark, numbers.fixed(row.bits_per_parameter))
    console.print()
    print_table(table, console)
    if any(row.is_measured for row in report.weights):
        _say(console, [f"{_MEASURED} measured: bytes of the tensors in the files"])


def _print_cache(report: Report, console: Console) -> None:
    dtypes = report.kv_dtypes
    table = plain_table()
    table.add_column("KV cache of a request", justify="right")
    for dtype in dtypes:
        table.add_column(f"{dtype}\n{_UNIT}", justify="right")
    for context in report.contexts:
        cells = [gib_and_gb(report.cache_bytes(context, dtype)) for dtype in dtypes]
        table.add_row(_tokens(report, context), *cells)
    console.print()
    print_table(table, console)
    _say(console, _cache_lines(report))


def _cache_lines(report: Report) -> Iterator[str]:
    cache, dtypes = report.footprint.cache, report.kv_dtypes
    yield "A token takes " + ", ".join(f"{cache.token_bytes(one):,} bytes in {one}" for one in dtypes) + "."
    for count, window in cache.windows:
        yield f"{count} of {report.footprint.num_layers} layers hold at most {window:,} tokens each."
    expanded = report.footprint.expanded_cache
    if expanded is not None:
        yield (
            "That is the latent vector of its multi-head latent attention; an engine that stores every head's keys "
            "and values takes " + ", ".join(f"{expanded.token_bytes(one):,} bytes in {one}" for one in dtypes) + "."
        )


def _tokens(report: Report, context: int) -> str:
    return f"{context:,} tokens{_BEYOND if report.is_beyond(context) else ''}"


def _print_fits(report: Report, console: Console) -> None:
    table = plain_table()
    table.add_column("GPUs: requests")
    table.add_column("KV")
    for context in report.contexts:
        mark = _BEYOND if report.is_beyond(context) else ""
        table.add_column(f"{context:,}{mark}", justify="right")
    by_row: dict[tuple[str, str], list[FitRow]] = {}
    for row in report.fits:
        by_row.setdefault((row.scheme, row.kv_dtype), []).append(row)
    for (scheme, dtype), rows in by_row.items():
        table.add_row(scheme, dtype, *map(_fit_cell, rows))
    console.print()
    print_table(table, console)
    _say(console, _fit_lines(report))


def _fit_cell(row: FitRow) -> str:
    if row.fit.free_bytes < 0:
        return f"{row.fit.gpus}: {DASH}"
    return f"{row.fit.gpus}: {row.fit.requests:,}"


def _fit_lines(report: Report) -> Iterator[str]:
    asked = report.asked
    room = asked.room
    used = f"{numbers.fixed(100 * room.share, 0)} % of it used" if room.share < 1 else "all of it used"
    if asked.gpus is None:
        how = f"fewest cards for weights and {_count(asked.requests, 'request')} of so many tokens"
    else:
        how = _count(asked.gpus, "card")
    yield (
        f"{how[0].upper()}{how[1:]}: how many requests they hold at once. A card ({room.gpu.name}) has "
        f"{memory(room.gpu.num_bytes)}, {used}."
    )
    if asked.gpus is not None:
        for row in report.weights:
            left = room.num_bytes(asked.gpus) - row.num_bytes
            yield f"{row.scheme} leaves {memory(left)}." if left >= 0 else f"{row.scheme} does not fit."


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _notes(report: Report) -> Iterator[str]:
    found = report.footprint
    if any(map(report.is_beyond, report.contexts)):
        yield f"{_BEYOND} more tokens than the config's max_position_embeddings, {found.max_positions:,}."
    if found.num_uncounted_layers:
        yield (
            f"Not counted: {_count(found.num_uncounted_layers, 'layer')} for predicting further tokens, which the "
            "files may hold and engines may leave out."
        )
    if found.assumed:
        said = ", ".join(f"{name} = {value:,}" for name, value in found.assumed.items())
        yield f"Not in the config, and taken from transformers' defaults for a {found.model_type}: {said}."
    yield from _parallel_notes(report)
    if {PLAIN, AS_STORED} != {row.scheme for row in report.weights}:
        tower = ", vision tower" if "vision" in found.by_kind else ""
        yield f"Schemes compress the decoder's linears; embedding, head, norms{tower} and routers stay in 16 bits."


def _parallel_notes(report: Report) -> Iterator[str]:
    """What tensor parallelism, which divides a model by its heads, makes of numbers of cards."""
    heads, kv_heads = report.footprint.num_heads, report.footprint.num_kv_heads
    found = sorted({row.fit.gpus for row in report.fits})
    for gpus in found:
        if heads % gpus:
            even = next((one for one in range(gpus, heads + 1) if heads % one == 0), None)
            takes = f": tensor parallelism takes {even}" if even else ", which tensor parallelism needs"
            yield f"{_count(gpus, 'card')} do not divide the {heads} heads{takes}."
    if found[-1] > kv_heads:
        yield (
            f"On more than {_count(kv_heads, 'card')} tensor parallelism stores copies of the cache, which "
            f"{'is one for all heads' if kv_heads == 1 else f'has {kv_heads} heads'}: fewer requests fit."
        )
