"""One compressed model against its limits: each by itself, then all of them together.

PASS needs every limit to pass at its own level, uncorrected: the worst of them decides, so several limits cannot make a
wrong PASS likelier (intersection-union). For FAIL one limit is enough, so the chances of a wrong one add up, and only
failures that stand after Holm's correction count.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from evalcard.compare.holm import adjust
from evalcard.compare.intervals import Interval, PairedCounts
from evalcard.compare.power import more_items, more_items_of, more_items_of_score
from evalcard.gate.holm import p_value
from evalcard.gate.measure import Measured, interval_at, measure, reaches
from evalcard.gate.spec import GateSpec
from evalcard.gate.targets import Target
from evalcard.gate.verdict import Outcome
from evalcard.results.compared import CompressedScore


@dataclass(frozen=True, slots=True)
class Held:
    """One compressed model held against one limit."""

    target: Target
    score: CompressedScore | None
    measured: Measured
    outcome: Outcome
    p: float | None = None
    """Holm's adjusted p-value of a failure that does not stand beside the other limits; None elsewhere."""
    num_limits: int = 1
    """Limits that were corrected for."""
    more_items: int | None = None
    """About how many more would decide; None where it is decided, or no number would."""


def hold(targets: Sequence[Target], slug: str, spec: GateSpec, stored_confidence: float) -> list[Held]:
    """Every limit's outcome for one model, in the order of the targets."""
    held = [_alone(target, slug, spec, stored_confidence) for target in targets]
    if spec.decide == "point":
        return held
    return [_with_need(one, spec.confidence) for one in _together(held, spec.confidence)]


def _alone(target: Target, slug: str, spec: GateSpec, stored_confidence: float) -> Held:
    measured = measure(target, slug, spec.confidence, stored_confidence)
    score = target.score_of(slug)
    return Held(target, score, measured, _decide(target, score, measured, spec))


def _decide(target: Target, score: CompressedScore | None, measured: Measured, spec: GateSpec) -> Outcome:
    if measured.value is None or score is None:
        return "CANNOT_JUDGE"
    if spec.decide == "point":
        return "PASS" if reaches(target.kind, measured.value, target.limit) else "FAIL"
    test = score.sequential
    if test is not None and test.limit == target.limit and test.decision is not None:
        return test.decision
    worst, best = _ends(target, measured.low, measured.high)
    if worst is not None and reaches(target.kind, worst, target.limit):
        return "PASS"
    if best is not None and not reaches(target.kind, best, target.limit):
        return "FAIL"
    return "INCONCLUSIVE"


def _ends(target: Target, low: float | None, high: float | None) -> tuple[float | None, float | None]:
    """(the end that speaks against the model, the one that speaks for it)."""
    return (high, low) if target.kind == "max_drop" else (low, high)


def _together(held: Sequence[Held], confidence: float) -> list[Held]:
    """Failures that do not stand beside all the other limits become inconclusive.

    A run that stopped early has shared the error out among its rows before it began: its decisions stand.
    """
    family = [place for place, one in enumerate(held) if one.score is None or one.score.sequential is None]
    failed = [place for place in family if held[place].outcome == "FAIL"]
    if len(family) < 2 or not failed:
        return list(held)
    # What does not fail by itself has a greater p-value than alpha, and is never rejected.
    p_values = [_p_of(held[place], confidence) if place in failed else 1.0 for place in family]
    adjusted = dict(zip(family, adjust(p_values), strict=True))
    alpha, found = (1 - confidence) / 2, list(held)
    for place in failed:
        if adjusted[place] > alpha:
            found[place] = replace(held[place], outcome="INCONCLUSIVE", p=adjusted[place], num_limits=len(family))
    return found


def _p_of(held: Held, confidence: float) -> float:
    """Of a failure; the greatest that it can have where the interval was stored but not what it was made from."""

    def fails(at: float) -> bool:
        assert held.score is not None
        found = interval_at(held.target, held.score, at)
        _, best = _ends(held.target, found.low, found.high) if found else (None, None)
        return best is not None and not reaches(held.target.kind, best, held.target.limit)

    return p_value(fails, confidence)


def _with_need(held: Held, confidence: float) -> Held:
    if held.outcome != "INCONCLUSIVE":
        return held
    alone = confidence if held.p is None else 1 - (1 - confidence) / held.num_limits
    return replace(held, more_items=_more_items(held, alone))


def _more_items(held: Held, confidence: float) -> int | None:
    """About how many items more would decide at this confidence, if they come as these did; at least one."""
    target, score, value = held.target, held.score, held.measured.value
    assert score is not None and target.row is not None and value is not None, held
    paired = score.paired
    if paired is None or score.sequential is not None:
        return None
    if target.kind == "min_recovery" and paired.is_binary:
        lost, gained = (paired.lost, paired.gained) if target.row.higher_is_better else (paired.gained, paired.lost)
        assert paired.both is not None and lost is not None and gained is not None, paired
        more = more_items_of(PairedCounts(paired.both, lost, gained, paired.n), target.limit / 100, confidence)
    elif target.kind == "min_score" and paired.is_binary:
        more = more_items_of_score(paired.n, value / 100, target.limit / 100, confidence)
    else:
        found = interval_at(target, score, confidence)
        ends = Interval(found.low, found.high) if found else None
        more = more_items(paired.n, value, ends, target.limit) if ends else None
    return None if more is None else max(more, 1)
