"""Limits of the gate as flags: ``--task gsm8k=98`` and its like, merged with a gate file."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from evalcard.gate.spec import GateSpec
    from evalcard.gate.verdict import Decide
    from evalcard.results.records import RunRecord

NamedLimit = tuple[str, float]


class RowLimit(click.ParamType):
    """``NAME=PERCENT``, split at the last ``=``, as a row's name may hold one."""

    name = "limit"

    def __init__(self, what: str = "ROW") -> None:
        self._what = what

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return f"{self._what}=P"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> NamedLimit:
        if isinstance(value, tuple):
            return value
        row, equals, text = str(value).rpartition("=")
        form = f"Write {self._what}=PERCENT, such as {'gsm8k' if self._what == 'ROW' else 'maths'}=98."
        if not equals or not row.strip():
            self.fail(f"{value!r} names no {self._what.lower()}. {form}", param, ctx)
        try:
            return row.strip(), float(text)
        except ValueError:
            self.fail(f"{value!r}: {text!r} is no number. {form}", param, ctx)


@dataclass(frozen=True, slots=True)
class GivenLimits:
    """What the flags of a gate say; None and () where they were not given."""

    gate_file: Path | None
    min_recovery: float | None
    max_drop: float | None
    tasks: tuple[NamedLimit, ...]
    averages: tuple[NamedLimit, ...]
    overall: float | None
    scores: tuple[NamedLimit, ...]
    confidence: float | None
    decide: "Decide | None"

    def resolve(self) -> "GateSpec":
        """These limits over those of the gate file. Raises UserError for what is no limit, before anything is read."""
        from evalcard.gate.gatefile import load_gate, merge
        from evalcard.gate.spec import Bounds

        self._check()
        recoveries, scores = _by_name("--task", self.tasks), _by_name("--min-score", self.scores)
        rows = {name: Bounds(recoveries.get(name), None, scores.get(name)) for name in recoveries | scores}
        averages = {name: Bounds(limit) for name, limit in _by_name("--average", self.averages).items()}
        return merge(
            load_gate(self.gate_file) if self.gate_file is not None else None,
            every=Bounds(self.min_recovery, self.max_drop),
            tasks=rows,
            averages=averages,
            overall=Bounds(self.overall),
            confidence=self.confidence,
            decide=self.decide,
        )

    @property
    def gives_no_limit(self) -> bool:
        """Whether neither a flag nor a file gives any; how to decide is no limit."""
        given = (self.gate_file, self.min_recovery, self.max_drop, self.overall)
        return all(one is None for one in given) and not (self.tasks or self.averages or self.scores)

    def resolve_for(self, run: "RunRecord") -> tuple["GateSpec", str | None]:
        """(the limits, and where they are from, in words, where none was given): then they are those of the run."""
        if not self.gives_no_limit:
            return self.resolve(), None
        from evalcard.gate.default import default_limits
        from evalcard.gate.gatefile import merge

        limits, origin = default_limits(run)
        return merge(limits, confidence=self.confidence, decide=self.decide), f"no limit was given: {origin}"

    def _check(self) -> None:
        from evalcard.errors import UserError
        from evalcard.percent import percent_fault

        named = {"--task": self.tasks, "--average": self.averages, "--min-score": self.scores}
        percents = [("--min-recovery", self.min_recovery), ("--overall", self.overall)]
        percents += [(f"{flag} {name}", limit) for flag, limits in named.items() for name, limit in limits]
        for flag, limit in percents:
            # Said again where limits are made, but there without the flag's name.
            if limit is not None and (fault := percent_fault(limit)):
                raise UserError(f"{flag} {fault}.")


def _by_name(flag: str, limits: Iterable[NamedLimit]) -> dict[str, float]:
    from evalcard.errors import UserError

    found: dict[str, float] = {}
    for name, limit in limits:
        # A second NaN is not equal to the first, and is refused like any other number that is not it.
        if name in found and found[name] != limit:
            raise UserError(f"{flag} {name} is given twice, as {found[name]:g} and {limit:g}; give one limit.")
        found[name] = limit
    return found
