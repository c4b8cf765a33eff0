"""One limit of the gate in words and figures, the same on a terminal, in JUnit XML and in a job summary."""

import re
from dataclasses import dataclass

from evalcard.card import numbers
from evalcard.card.paths import without_paths
from evalcard.gate.measure import reaches
from evalcard.gate.verdict import GateVerdict, Kind, LimitVerdict, ModelVerdict, Scope

_MOST_DECIMALS = 12
_PLACES: dict[Scope, str] = {"task": "{name}", "average": "average of {name}", "overall": "overall average"}
_WANTED: dict[Kind, str] = {
    "min_recovery": "recovery >= {limit} %",
    "max_drop": "drop <= {limit} point{s}",
    "min_score": "score >= {limit} %",
}
_SIGNS: dict[Kind, str] = {"min_recovery": ">=", "max_drop": "<=", "min_score": ">="}
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no XML 1.0 document may hold, lone surrogates (which UTF-8 cannot hold either) and other control characters."""


@dataclass(frozen=True, slots=True)
class LimitView:
    """Everything as text; a figure always stands on the side of the limit that it was judged to be on."""

    place: str
    """Row, or what the average is over."""
    wanted: str
    """``recovery >= 97 %``."""
    rule: str
    """``min_recovery >= 97``, as a gate file spells it."""
    measured: str
    """With its unit; a dash where it is undefined."""
    interval: str
    """``[95.98, 99.87]``; empty where none was taken."""
    outcome: str
    reason: str


def limit_view(limit: LimitVerdict) -> LimitView:
    unit = "" if limit.kind == "max_drop" else " %"
    return LimitView(
        place=place_of(limit),
        wanted=wanted(limit.kind, limit.limit),
        rule=f"{limit.kind} {_SIGNS[limit.kind]} {limit.limit:.12g}",
        measured=numbers.DASH if limit.value is None else f"{beside(limit.kind, limit.value, limit.limit)}{unit}",
        interval=_interval(limit),
        outcome=spelled(limit.outcome),
        reason=limit.reason,
    )


def wanted(kind: Kind, limit: float) -> str:
    """``recovery >= 97 %``."""
    return _WANTED[kind].format(limit=f"{limit:.12g}", s="" if limit == 1 else "s")


def place_of(limit: LimitVerdict) -> str:
    """The row, or which average."""
    return _PLACES[limit.scope].format(name=limit.name)


def reasons_beside_figures(verdict: GateVerdict) -> list[str]:
    """What a table of limits does not say: why a limit did not pass, and findings that bear on the outcome.

    Models that share a limit's reason share a line, as what is wrong is most often their baseline.
    """
    if not verdict.models:
        return verdict.reasons
    sharing: dict[tuple[str, str], list[str]] = {}
    for model in verdict.models:
        for limit in model.limits:
            if limit.outcome != "PASS":
                sharing.setdefault((place_of(limit), _why(limit, verdict)), []).append(model.model)
    lines = [f"{place}, {', '.join(dict.fromkeys(models))}: {ended(text)}" for (place, text), models in sharing.items()]
    return list(dict.fromkeys([*lines, *(reason for model in verdict.models for reason in model.reasons)]))


def has_failed(verdict: GateVerdict) -> bool:
    """Whether a limit was missed, so that there are answers to look at."""
    return any(limit.outcome == "FAIL" for model in verdict.models for limit in model.limits)


def _why(limit: LimitVerdict, verdict: GateVerdict) -> str:
    """The limit's reason; of a failure also that it is more than a bad measurement."""
    best = limit.low if limit.kind == "max_drop" else limit.high
    is_whole = verdict.decide == "interval" and best is not None and not reaches(limit.kind, best, limit.limit)
    if limit.outcome != "FAIL" or not is_whole:
        return limit.reason
    return f"{limit.reason.removesuffix('.')}: its whole interval is"


def reasons_held_back(verdict: GateVerdict) -> list[str]:
    """What decided beside the limits, each once, where a model's outcome is that of none of its limits."""
    held_back = [model for model in verdict.models if decided_by_no_limit(model)]
    return list(dict.fromkeys(reason for model in held_back for reason in model.reasons))


def decided_by_no_limit(model: ModelVerdict) -> str | None:
    """Why the model's outcome is that of none of its limits, such as a finding that forbids a pass; else None."""
    if model.outcome in [limit.outcome for limit in model.limits]:
        return None
    return " ".join(ended(reason) for reason in model.reasons) or spelled(model.outcome)


def ended(sentence: str) -> str:
    """With its full stop."""
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def as_data(text: str) -> str:
    """Text of models and tasks for a file: on one line, no path of the machine, no character that XML forbids."""
    return " ".join(_FORBIDDEN.sub("\ufffd", without_paths(text)).split())


def spelled(outcome: str) -> str:
    """``CANNOT JUDGE`` for CANNOT_JUDGE."""
    return outcome.replace("_", " ")


def beside(kind: Kind, value: float, limit: float) -> str:
    """The value with two decimals, or with so many that rounding does not take it to the limit's other side."""
    for decimals in range(numbers.DECIMALS, _MOST_DECIMALS):
        text = numbers.fixed(value, decimals)
        if reaches(kind, float(text), limit) == reaches(kind, value, limit):
            return text
    return repr(value)


def _interval(limit: LimitVerdict) -> str:
    if limit.low is None and limit.high is None:
        return ""
    low = "(-∞" if limit.low is None else f"[{beside(limit.kind, limit.low, limit.limit)}"
    high = "∞)" if limit.high is None else f"{beside(limit.kind, limit.high, limit.limit)}]"
    return f"{low}, {high}"
