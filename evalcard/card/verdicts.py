"""The gate's last word on one model, as a card shows it."""

from dataclasses import dataclass

from evalcard.card.limits import LimitView, limit_view, place_of
from evalcard.card.paths import without_paths
from evalcard.gate.verdict import Decide, GateVerdict, LimitVerdict, ModelVerdict, Outcome
from evalcard.gate.wording import would_show
from evalcard.results.compared import Comparison


@dataclass(frozen=True, slots=True)
class LimitLine:
    """One limit in the table."""

    limit: LimitView
    outcome: Outcome
    more_items: str | None
    """About how many more items would show it on which side of the limit, where that can be said."""


@dataclass(frozen=True, slots=True)
class GateView:
    """One model against all limits."""

    outcome: Outcome
    decide: Decide
    confidence: str
    """In percent."""
    limits: tuple[LimitLine, ...]
    reasons: tuple[str, ...]
    """What the table does not show: why a limit was not decided, and what decided beside the limits."""
    notes: tuple[str, ...]


def stored_verdict(comparison: Comparison) -> GateVerdict | None:
    """None where no gate was asked, or an older evalcard wrote its word in another form."""
    from pydantic import ValidationError

    if comparison.verdict is None:
        return None
    try:
        return GateVerdict.model_validate(comparison.verdict)
    except ValidationError:
        return None


def outcome_of(comparison: Comparison, slug: str) -> Outcome | None:
    """The gate's word on one model, where there is one."""
    model = _model(stored_verdict(comparison), slug)
    return model.outcome if model else None


def gate_view(comparison: Comparison, slug: str) -> GateView | None:
    verdict = stored_verdict(comparison)
    model = _model(verdict, slug)
    if verdict is None or model is None:
        return None
    unsaid = [one for one in model.limits if one.outcome not in ("PASS", "FAIL") and one.more_items is None]
    told = [f"{place_of(limit)}: {limit.reason}" for limit in unsaid]
    return GateView(
        outcome=model.outcome,
        decide=verdict.decide,
        confidence=f"{100 * verdict.confidence:g}",
        limits=tuple(map(_line, model.limits)),
        reasons=tuple(dict.fromkeys(map(without_paths, (*told, *model.reasons)))),
        notes=tuple(map(without_paths, verdict.notes_for(slug))),
    )


def _line(limit: LimitVerdict) -> LimitLine:
    if limit.more_items is None or limit.value is None:
        return LimitLine(limit_view(limit), limit.outcome, None)
    more = would_show(limit.kind, limit.value, limit.limit, limit.more_items)
    return LimitLine(limit_view(limit), limit.outcome, more)


def _model(verdict: GateVerdict | None, slug: str) -> ModelVerdict | None:
    return next((model for model in verdict.models if model.model == slug), None) if verdict else None
