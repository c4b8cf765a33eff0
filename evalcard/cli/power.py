"""``evalcard run --power``: the table of what the items can show, at 80 columns."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from evalcard.cli.layout import plain_table, print_table
from evalcard.cli.lines import visible
from evalcard.compare.plans import ASSUMED_FLIPS, ASSUMED_POWER
from evalcard.forecast import ASSUMED_SCORE, AskedLimit, RowForecast
from evalcard.outlook import KINDS, about, at_most, in_points, percent, points, warnings, wrapped

if TYPE_CHECKING:
    from evalcard.plan import Plan

_ASSUMED = "*"
_DASH = "–"
_STORED_SHOWN = 4


def print_power(plan: "Plan", console: Console | None = None) -> None:
    """The table, what it rests on, and where the gate asks for more."""
    console = console or Console()
    _print_table(plan.forecasts, console)
    said = [*_meaning(plan), *_sources(plan.forecasts)]
    said += [] if plan.spec.sequential else [f"{one}." for one in warnings(plan.forecasts)]
    for line in said:
        for part in wrapped(visible(line)):
            console.print(part, highlight=False, soft_wrap=True, markup=False)


def _print_table(forecasts: Sequence[RowForecast], console: Console) -> None:
    is_gated = any(one.asked for one in forecasts)
    table = plain_table()
    table.add_column("Row", overflow="fold")
    for head in ("Items", "Score", "Flips", "Smallest\ndrop shown", "Finest\nlimit"):
        table.add_column(head, justify="right", no_wrap=True)
    if is_gated:
        table.add_column("Limit\nasked", justify="right")
        table.add_column("Items\nfor it", justify="right", no_wrap=True)
    scope = None
    for one in forecasts:
        if one.scope != scope and scope is not None:
            table.add_section()
        scope = one.scope
        cells = [Text(cell) for cell in _cells(one)]
        if is_gated:
            cells += [_stacked(map(_asked, one.asked)), _stacked(map(_items, one.asked))]
        table.add_row(*cells)
    print_table(table, console)


def _cells(one: RowForecast) -> list[str]:
    name = {"task": one.name, "average": f"average of {one.name}", "overall": "overall average"}[one.scope]
    score = percent(one.score) + ("" if one.score_is_from or one.score is None else _ASSUMED)
    flips = percent(one.flip_rate) + ("" if one.flips_are_from or one.flip_rate is None else _ASSUMED)
    drop = points(one.smallest_drop).removesuffix(" points") if one.smallest_drop is not None else _DASH
    finest = f"{at_most(one.finest_limit)} %" if one.finest_limit is not None else _DASH
    return [visible(name), str(one.items), score or _DASH, flips, drop, finest]


def _asked(one: AskedLimit) -> Text:
    value = f"{one.limit:g} %" if one.kind != "max_drop" else in_points(one.limit)
    kind = "" if one.kind == "min_recovery" else f"{KINDS[one.kind]} "
    return Text(kind + value, style="yellow" if one.is_too_fine else "")


def _items(one: AskedLimit) -> Text:
    return Text(about(one.items) if one.items is not None else _DASH)


def _stacked(texts: Iterable[Text]) -> Text:
    return Text("\n").join(texts)


def _meaning(plan: "Plan") -> list[str]:
    often = f"in {100 * ASSUMED_POWER:g} of 100 runs"
    said = [
        f"Drops are in points of recovery, shown at {100 * plan.confidence:g} % confidence {often}. A model that lost "
        f"nothing passes the finest limit {often}.",
    ]
    if any(one.asked for one in plan.forecasts):
        said.append("On so many items it would pass the limit that is asked; a dash: on no number of them.")
    if any(task.record.repeats > 1 for task in plan.prepared.tasks):
        said.append("Items that are answered several times count once, so they show somewhat more than is said here.")
    if plan.spec.sequential:
        said.append(
            "The run is sequential: its verdict is about these very items, all of which decide any limit exactly. The "
            "figures here are about other items of their kind."
        )
    return said


def _sources(forecasts: Sequence[RowForecast]) -> list[str]:
    rows = [one for one in forecasts if one.scope == "task" and one.score is not None]
    said = []
    parts = [f"a score of {percent(ASSUMED_SCORE)}"] if any(one.score_is_from is None for one in rows) else []
    has_assumed_score = bool(parts)
    if any(one.flips_are_from is None for one in rows):
        parts.append(f"that {percent(ASSUMED_FLIPS)} of the items flip")
    if parts:
        halved = " At half the score, drops are twice as large." if has_assumed_score else ""
        who = "this baseline" if has_assumed_score else "these models"
        said.append(f"{_ASSUMED} assumed: {', and '.join(parts)}.{halved} A stored run of {who} tells better.")
    runs = list(dict.fromkeys(run for one in rows for run in (one.score_is_from, one.flips_are_from) if run))
    if runs:
        more = f" and {len(runs) - _STORED_SHOWN} more" if len(runs) > _STORED_SHOWN else ""
        said.append(
            f"Scores and flips without {_ASSUMED} are from {', '.join(map(visible, runs[:_STORED_SHOWN]))}{more}."
        )
    unknown = [one.name for one in forecasts if one.score is None]
    if unknown:
        said.append(f"Nothing is known beforehand of scores that are no share: {', '.join(map(visible, unknown))}.")
    return said
