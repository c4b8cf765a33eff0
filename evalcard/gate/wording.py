"""Why a limit came out as it did, in words; every printed figure stands on its own side of the limit."""

import math

from evalcard.compare.evidence import why_no_interval
from evalcard.gate.decide import Held
from evalcard.gate.measure import reaches
from evalcard.gate.spec import GateSpec
from evalcard.gate.verdict import Kind
from evalcard.results.records import RunRecord

MOST_TIMES, MOST_ITEMS = 100, 100_000
"""More items than so many times those that were used, or so many in all, nobody has: such a number decides nothing."""
_SHOWN: dict[Kind, tuple[str, str]] = {
    "min_recovery": ("at or above", "below"),
    "min_score": ("at or above", "below"),
    "max_drop": ("at or below", "above"),
}
"""On which side of the limit a figure is that passes, and one that fails."""
_SAID: dict[Kind, dict[str, str]] = {
    "min_recovery": {"PASS": "is at or above", "FAIL": "is below"},
    "min_score": {"PASS": "is at or above", "FAIL": "is below"},
    "max_drop": {"PASS": "is at most", "FAIL": "is more than"},
}


def reason_of(held: Held, spec: GateSpec, run: RunRecord | None) -> str:
    """One line without its place and its full stop."""
    target, measured = held.target, held.measured
    if measured.value is None:
        assert measured.why is not None, held
        return measured.why
    figures = f"{_name(held)} {shown(held, measured.value)}{unit(held)}"
    if spec.decide == "interval":
        figures += _interval(held, spec.confidence)
    limit = f"{target.limit:.12g}{unit(held)}"
    if held.outcome in _SAID[target.kind]:
        return f"{figures} {_SAID[target.kind][held.outcome]} {limit}{_test(held)}"
    if held.p is not None:
        alone = f"{figures} {_SAID[target.kind]['FAIL']} {limit} by itself"
        allowed = (1 - spec.confidence) / 2
        return (
            f"{alone}, but not for sure among {held.num_limits} limits (Holm's correction: p = {_p(held.p, allowed)}, "
            f"at most {allowed:g} is allowed): {_needed(held, run)}"
        )
    return f"{figures} does not decide {limit}: {_needed(held, run)}{_decidable(held)}"


def would_show(kind: Kind, value: float, limit: float, more: int) -> str:
    """``about 300 more items like these would show it below the limit``: the side on which it was measured."""
    side = _SHOWN[kind][0 if reaches(kind, value, limit) else 1]
    return f"about {more} more item{'s' if more != 1 else ''} like these would show it {side} the limit"


def more_in_practice(held: Held) -> int | None:
    """How many more items would decide, where anybody could have so many."""
    used = sum(part.n for part in held.target.parts)
    most = min(MOST_TIMES * used, MOST_ITEMS)
    return held.more_items if held.more_items is not None and held.more_items <= most else None


def shown(held: Held, figure: float) -> str:
    """Two decimals, or as many as it takes for the figure to stand on its own side of the limit."""
    kind, limit = held.target.kind, held.target.limit
    for decimals in range(2, 12):
        text = f"{figure:.{decimals}f}"
        if reaches(kind, float(text), limit) == reaches(kind, figure, limit):
            return text if float(text) else text.removeprefix("-")
    return repr(figure)


def unit(held: Held) -> str:
    """Of the limit's figures, with the space before it."""
    row = held.target.row
    if held.target.kind != "max_drop":
        return " %"
    return " points" if row is None or row.higher_is_better else f" of {row.metric}"


def _name(held: Held) -> str:
    return {"min_recovery": "recovery", "min_score": "score", "max_drop": "loss of"}[held.target.kind]


def _interval(held: Held, confidence: float) -> str:
    low, high = held.measured.low, held.measured.high
    if low is None and high is None:
        return ""
    first = shown(held, low) if low is not None else ""
    ends = f"{first} or more" if high is None else f"up to {shown(held, high)}" if low is None else None
    return f" ({100 * confidence:g} % interval {ends or f'{first} to {shown(held, high or 0.0)}'})"


def _test(held: Held) -> str:
    """How many items it took, where the run was to stop early."""
    test = held.score.sequential if held.score is not None else None
    return f", after {test.used} of {test.items} items" if test is not None else ""


def _needed(held: Held, run: RunRecord | None) -> str:
    """How many more items would decide, and whether there are so many."""
    assert held.score is not None and held.target.row is not None, held
    test = held.score.sequential
    if test is not None:
        return f"{test.used} of {test.items} items were used when the run ended"
    if held.measured.low is None and held.measured.high is None:
        return f"there is no interval to decide by{_why(held)}, only the value can be compared (decide: point)"
    if held.more_items is None:
        return "no number of items like these would decide"
    more, value = more_in_practice(held), held.measured.value
    if more is None:
        return "too close to the limit to be decided in practice"
    assert value is not None, held
    said = would_show(held.target.kind, value, held.target.limit, more)
    used, total = sum(part.n for part in held.target.parts), _total(held, run)
    if total is None:
        return said
    left = total - used
    if left <= 0:
        return f"{said}, but all {used} are used"
    return f"{said}, and there are {left}" if left >= more else f"{said}, but there are only {left}"


def _why(held: Held) -> str:
    """Why there is no interval, as far as the items of both models tell."""
    row, paired = held.target.row, held.score.paired if held.score else None
    why = why_no_interval(paired, row.higher_is_better) if row is not None and paired is not None else None
    return f" ({why})" if why else ""


def _total(held: Held, run: RunRecord | None) -> int | None:
    """Items that the rows have in all; None where that is not known."""
    if run is None:
        return None
    rows, tasks = {row.name: row for row in run.rows}, {task.name: task for task in run.tasks}
    records = [rows.get(part.task) for part in held.target.parts]
    return (
        sum(record.total(tasks[name] for name in record.tasks) for record in records if record)
        if all(records)
        else None
    )


def _decidable(held: Held) -> str:
    """The limit that the interval's end on the bad side reaches."""
    low, high = held.measured.low, held.measured.high
    if held.target.kind == "max_drop":
        return (
            "" if high is None else f"; these can show a limit of {math.ceil(100 * high) / 100:.2f}{unit(held)} or more"
        )
    return "" if low is None else f"; these can show a limit of {math.floor(100 * low) / 100:.2f} % or less"


def _p(p: float, allowed: float) -> str:
    """Enough digits that it is seen to be too large."""
    for digits in range(2, 17):
        if float(text := f"{p:.{digits}g}") > allowed:
            return text
    return repr(p)
