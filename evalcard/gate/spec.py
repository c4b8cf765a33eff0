"""Limits of the release gate: frozen, strict, the same from flags and from a gate file."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from evalcard.errors import UserError
from evalcard.gate.verdict import Decide, Kind, Scope
from evalcard.percent import confidence_fault, percent_fault
from evalcard.results.compared import OVERALL

if TYPE_CHECKING:
    from evalcard.gate.lmeval_yaml import LmevalSetup

DEFAULT_MIN_RECOVERY = 99.0
DEFAULT_CONFIDENCE = 0.95
MAX_LIMIT = 200.0
_SHARES: tuple[Kind, ...] = ("min_recovery", "min_score")
"""Limits that a fraction instead of a percentage would undo; half a point of drop is a limit like any other."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one row or average has to reach, each in percent or points; None asks nothing.

    Raises UserError for a limit outside 0 to 200, and for a fraction where percent are meant.
    """

    min_recovery: float | None = None
    """Least recovery, in percent of the baseline's score."""
    max_drop: float | None = None
    """Greatest loss of score, in percentage points (of the metric itself where lower is better)."""
    min_score: float | None = None
    """Least score of the compressed model by itself, in percent."""

    def __post_init__(self) -> None:
        for kind, limit in self:
            if not math.isfinite(limit) or not 0 <= limit <= MAX_LIMIT:
                example = 1 if kind == "max_drop" else 99
                raise UserError(
                    f"the limit {kind} is {limit:g}; give a number from 0 to {MAX_LIMIT:g}, such as {example}."
                )
            if kind in _SHARES and (fault := percent_fault(limit)):
                raise UserError(f"the limit {kind} {fault}.")

    def __iter__(self) -> Iterator[tuple[Kind, float]]:
        """The limits that are set."""
        for kind in fields(self):
            limit = getattr(self, kind.name)
            if limit is not None:
                yield kind.name, limit  # type: ignore[misc]

    def over(self, other: "Bounds") -> "Bounds":
        """These limits, and those of ``other`` where nothing is said here."""
        return Bounds(**(dict(other) | dict(self)))


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the limits were set for."""

    baseline: str
    """Hub id, or the last part of a folder's path, with ``:scheme`` where one was applied on the fly."""
    baseline_revision: str | None
    """The Hub commit, where there is one."""
    compressed: Mapping[str, str | None]
    """Likewise: every compressed model's name, and its revision."""
    date: str
    """ISO 8601."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """The baseline's score by row at that time, as fractions."""


@dataclass(frozen=True, slots=True)
class GateSpec:
    """All limits of a gate and how they are decided. Raises UserError for a confidence of 0.5 or less, or near 1."""

    every: Bounds = Bounds(min_recovery=DEFAULT_MIN_RECOVERY)
    """Of every row, kind by kind, unless the row has a limit of its own."""
    tasks: Mapping[str, Bounds] = field(default_factory=dict)
    """By row."""
    averages: Mapping[str, Bounds] = field(default_factory=dict)
    """By category."""
    overall: Bounds = Bounds()
    """Of the average over all rows."""
    confidence: float = DEFAULT_CONFIDENCE
    decide: Decide = "interval"
    """What is held against a limit: the end of the interval, or the measured value itself."""
    set_for: Calibration | None = None
    asked_by: "LmevalSetup | None" = None
    """The file of llm-compressor's that asks for these limits; None for a gate of our own."""

    def __post_init__(self) -> None:
        if fault := confidence_fault(self.confidence):
            raise UserError(f"the confidence {fault}.")
        if self.decide not in ("interval", "point"):
            raise UserError(f"decide is {self.decide!r}; the gate decides by 'interval' (the default) or by 'point'.")

    @property
    def asks_nothing(self) -> bool:
        """Whether there is no limit at all."""
        bounds = (self.every, self.overall, *self.tasks.values(), *self.averages.values())
        return not any(list(one) for one in bounds)

    def of_row(self, row: str) -> Bounds:
        own = self.tasks.get(row)
        return own.over(self.every) if own is not None else self.every

    def limits(self, rows: list[str]) -> Iterator[tuple[Scope, str, Kind, float]]:
        """(scope, name, kind, limit) of everything that is asked, rows first."""
        for row in rows:
            yield from (("task", row, kind, limit) for kind, limit in self.of_row(row))
        for category, bounds in self.averages.items():
            yield from (("average", category, kind, limit) for kind, limit in bounds)
        yield from (("overall", OVERALL, kind, limit) for kind, limit in self.overall)
