"""The gate's word as GitHub workflow commands, which annotate a build.

Their form: https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

from collections.abc import Iterator
from typing import Literal

from evalcard.card.limits import as_data, decided_by_no_limit, ended, limit_view, spelled
from evalcard.gate.verdict import GateVerdict, Outcome
from evalcard.results.records import RunRecord

Level = Literal["error", "warning", "notice"]
Told = tuple[Level, str, str]
"""Level, the outcome in a word, the message."""

MOST_OF_A_LEVEL = 10
"""Annotations of each level that GitHub shows for one step."""
_LEVELS: dict[Outcome, Level] = {
    "PASS": "notice", "FAIL": "error", "CANNOT_JUDGE": "error", "INCONCLUSIVE": "warning"
}  # fmt: skip


def annotations(verdict: GateVerdict, run: RunRecord, *, fails_inconclusive: bool = False) -> list[str]:
    """What did not pass, errors first, at most as many of a level as GitHub shows; one notice where all passed.

    ``fails_inconclusive``: what is not decided is an error instead of a warning.
    """
    told = list(dict.fromkeys(_told(verdict, fails_inconclusive))) or [_all_passed(verdict)]
    told += [("notice", "note", note) for note in verdict.notes]
    lines = []
    for level in ("error", "warning", "notice"):
        own = [(word, message) for one, word, message in told if one == level]
        if len(own) > MOST_OF_A_LEVEL:
            left = len(own) - MOST_OF_A_LEVEL + 1
            own[MOST_OF_A_LEVEL - 1 :] = [(spelled(verdict.outcome), f"and {left} more: see the table in the log.")]
        lines += [_command(level, f"evalcard {word}: {run.name}", message) for word, message in own]
    return lines


def _told(verdict: GateVerdict, fails_inconclusive: bool) -> Iterator[Told]:
    def level(outcome: Outcome) -> Level:
        return "error" if outcome == "INCONCLUSIVE" and fails_inconclusive else _LEVELS[outcome]

    for model in verdict.models:
        for limit in model.limits:
            if limit.outcome != "PASS":
                view = limit_view(limit)
                where = f"{view.place}, {model.model}, asked: {view.wanted}."
                yield level(limit.outcome), view.outcome, f"{where} {ended(limit.reason)}"
        if model.outcome != "PASS" and (reason := decided_by_no_limit(model)):
            yield level(model.outcome), spelled(model.outcome), f"{model.model}: {reason}"
    if not verdict.models:
        yield from ((level(verdict.outcome), spelled(verdict.outcome), reason) for reason in verdict.reasons)


def _all_passed(verdict: GateVerdict) -> Told:
    total = sum(len(model.limits) for model in verdict.models)
    names = ", ".join(model.model for model in verdict.models)
    return "notice", spelled(verdict.outcome), f"{names}: every limit is met, {total} in all."


def _command(level: Level, title: str, message: str) -> str:
    title = _escaped(as_data(title)).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={title}::{_escaped(as_data(message))}"


def _escaped(text: str) -> str:
    """The percent sign first, as it starts every escape."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
