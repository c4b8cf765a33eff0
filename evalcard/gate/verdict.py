"""What the gate says, in a form that is stored and printed."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from evalcard.results.records import Record

Outcome = Literal["PASS", "FAIL", "INCONCLUSIVE", "CANNOT_JUDGE"]
Scope = Literal["task", "average", "overall"]
Kind = Literal["min_recovery", "max_drop", "min_score"]
Decide = Literal["interval", "point"]

EXIT_CODES: Mapping[str, int] = MappingProxyType({"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3, "CANNOT_JUDGE": 4})
OUTCOMES_WORST_FIRST: tuple[Outcome, ...] = ("CANNOT_JUDGE", "FAIL", "INCONCLUSIVE", "PASS")


class LimitVerdict(Record):
    """One compressed model held against one limit."""

    scope: Scope
    name: str
    """Row, category of an average, or "overall"."""
    kind: Kind
    limit: float
    """In percent of the baseline's score, in points of drop, or in percent of all that can be scored."""
    outcome: Outcome
    value: float | None
    """What was measured, in the unit of the limit, unrounded; None where it is undefined. A drop is positive where the
    compressed model scores less."""
    low: float | None
    """Ends of its interval at the gate's confidence, in the same unit; None where there is none."""
    high: float | None
    reason: str
    """In words, with the figures that decided."""
    more_items: int | None = None
    """About how many more items would decide, where it is inconclusive and anybody could have so many."""


class ModelVerdict(Record):
    """One compressed model against all limits."""

    model: str
    """Slug."""
    outcome: Outcome
    limits: list[LimitVerdict]
    reasons: list[str]
    """What decided, beyond the limits: findings that forbid a judgement or a pass, unless a limit says the same."""
    notes: list[str] = []
    """Of the verdict's notes those that concern this model only."""


class GateVerdict(Record):
    """The gate's word on a comparison: that of its worst model."""

    outcome: Outcome
    exit_code: int
    decide: Decide
    confidence: float
    models: list[ModelVerdict]
    reasons: list[str]
    """Every limit's reason and the findings that forbid a judgement or a pass, each once."""
    run: str | None = None
    """Name of the stored run that was judged; None for a comparison that is no run's own."""
    finished: str | None = None
    """When that run was; ISO 8601, UTC."""
    limits_from: str | None = None
    """In words, where the limits are from where none was given."""
    notes: list[str] = []
    """Worth knowing, without weight in the outcome: a baseline that moved, a limit that catches little. All there are,
    each once."""

    def notes_for(self, slug: str) -> list[str]:
        """The notes without those that concern other models only."""
        own = {note for model in self.models if model.model == slug for note in model.notes}
        others = {note for model in self.models for note in model.notes} - own
        return [note for note in self.notes if note not in others]
