"""A forecast in words, short enough for the start of a run. All figures of a forecast are formatted here."""

import math
import re
import textwrap
from collections.abc import Sequence

from evalcard.forecast import AskedLimit, RowForecast
from evalcard.gate.verdict import Kind, Scope

_FEW_ROWS = 3
_FEW_WARNINGS = 3
_FEW_PLACES = 4
_FEW_NAMED = 3
_WIDTH = 80
_PLACES: dict[Scope, str] = {"task": "{}", "average": "the average of {}", "overall": "the overall average"}
KINDS: dict[Kind, str] = {"min_recovery": "recovery", "max_drop": "drop", "min_score": "score"}


def start_lines(forecasts: Sequence[RowForecast], confidence: float) -> list[str]:
    """What the items can show: a line for each of few rows, those that are alike together; one in all for many."""
    rows = [one for one in forecasts if one.scope == "task"]
    shown = sorted((one for one in rows if one.smallest_drop is not None), key=lambda one: one.smallest_drop or 0.0)
    if not shown:
        return []
    at = f"at {percent(confidence)}"
    if len(rows) > _FEW_ROWS:
        least, most = shown[0], shown[-1]
        assumed = "" if all(one.score_is_from and one.flips_are_from for one in shown) else " (some are assumed)"
        return [
            f"These items can show drops of recovery of {points(least.smallest_drop)} ({least.name}) to "
            f"{points(most.smallest_drop)} ({most.name}) or more {at}, by scores and flips that --power tells{assumed}"
        ]
    alike: dict[tuple[str, str], list[str]] = {}
    for one in shown:
        alike.setdefault((points(one.smallest_drop), _basis(one)), []).append(one.name)
    what = "These items can show a drop of recovery of"
    return [f"{what} {drop} or more {at} ({', '.join(names)}; {basis})" for (drop, basis), names in alike.items()]


def warnings(forecasts: Sequence[RowForecast]) -> list[str]:
    """Limits that are finer than the items can show: those that are alike together; of many different ones where the
    first are, and the one that asks for the most items."""
    alike: dict[tuple[object, ...], list[tuple[RowForecast, AskedLimit]]] = {}
    for one in forecasts:
        for asked in (asked for asked in one.asked if asked.is_too_fine):
            alike.setdefault((asked.kind, asked.limit, one.items, _more_than(asked)), []).append((one, asked))
    if len(alike) <= _FEW_WARNINGS:
        return [f"warning: {_too_fine(group)}" for group in alike.values()]
    found = [pair for group in alike.values() for pair in group]
    worst = max(found, key=lambda pair: pair[1].items or math.inf)
    total = sum(len(one.asked) for one in forecasts)
    where = _places([one for one, _ in found], _FEW_NAMED)
    said = f"{len(found)} of {total} limits are finer than the items can show ({where})"
    return [f"warning: {said}; {_too_fine([worst])}"]


def wrapped(line: str) -> list[str]:
    """At 80 columns, no figure apart from its unit."""
    kept = re.sub(r"(?<=\d) (?=%|items|points?\b)", "\N{NO-BREAK SPACE}", line)
    lines = textwrap.wrap(kept, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    return [one.replace("\N{NO-BREAK SPACE}", " ") for one in lines]


def at_most(value: float) -> str:
    """One decimal, rounded down."""
    return _short(math.floor(round(10 * value, 9)) / 10)


def in_points(value: float) -> str:
    text = f"{value:.10g}"
    return f"{text} point" if text == "1" else f"{text} points"


def about(count: int) -> str:
    """Two leading digits, rounded up."""
    unit = 10 ** max(len(str(count)) - 2, 0)
    return str(-(-count // unit) * unit)


def points(value: float | None) -> str:
    """Of recovery."""
    assert value is not None
    return f"{value:.1f} points"


def percent(fraction: float | None) -> str:
    """``60 %``, ``71.2 %``."""
    return "" if fraction is None else f"{_short(round(100 * fraction, 1))} %"


def _basis(one: RowForecast) -> str:
    """What the figures rest on."""
    score = f"score {percent(one.score)}"
    flips = f"{percent(one.flip_rate)} flips"
    if one.score_is_from is None and one.flips_are_from is None:
        return f"{score} and {flips} assumed"
    score += f" from {one.score_is_from}" if one.score_is_from else " assumed"
    return f"{score}, {flips}" + ("" if one.flips_are_from else " assumed")


def _too_fine(group: Sequence[tuple[RowForecast, AskedLimit]]) -> str:
    """Of limits with the same figures."""
    first, asked = group[0]
    places = _places([one for one, _ in group], _FEW_PLACES)
    each = " each" if len(group) > 1 else ""
    return f"the limit {_asked(asked)} on {places} is finer than {first.items} items{each} {_more_than(asked)}"


def _places(forecasts: Sequence[RowForecast], most: int) -> str:
    """The first of them by name, the others counted."""
    named = list(dict.fromkeys(_PLACES[one.scope].format(one.name) for one in forecasts))
    more = f" and {len(named) - most} more" if len(named) > most else ""
    return ", ".join(named[:most]) + more


def _more_than(asked: AskedLimit) -> str:
    more = "no number of items would do" if asked.items is None else f"about {about(asked.items)} items would do"
    return f"can show ({_finest(asked)}); {more}"


def _finest(asked: AskedLimit) -> str:
    """Rounded towards what is easier to reach, so that it is true as printed."""
    if asked.finest is None:
        return "no limit at all"
    if asked.kind == "max_drop":
        return f"about {in_points(math.ceil(round(10 * asked.finest, 9)) / 10)}"
    return f"about {at_most(asked.finest)} %"


def _asked(asked: AskedLimit) -> str:
    if asked.kind == "max_drop":
        return f"max_drop {in_points(asked.limit)}"
    return f"{asked.limit:g} %" if asked.kind == "min_recovery" else f"min_score {asked.limit:g} %"


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
