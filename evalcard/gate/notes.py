"""What is worth knowing of limits beside their outcome: those that catch little, or flap, and a baseline that moved."""

import math
from collections.abc import Iterator, Mapping, Sequence

from evalcard.compare.intervals import normal_quantile
from evalcard.compare.power import items_for_margin, margin_in_errors, smallest_margin
from evalcard.gate.decide import Held
from evalcard.gate.spec import GateSpec
from evalcard.results.compared import Comparison, CompressedScore

LOOSE_POINTS = 10.0
"""A limit that lets more points of score go unseen is said to catch little."""
LOOSE_RECOVERY = 90.0
SAFE_MARGIN = 2.0
"""Standard errors between a score and a limit on it, below which chance alone turns the gate red now and then."""
MOVED = 0.02
"""Relative change of the baseline's score from which on it is told."""
_NO_MARGIN = 1e-6
"""A score this near its limit lies on it: no number of items is worth naming."""


Note = tuple[str | None, str]
"""(slug of the one compressed model that it concerns, or None where it concerns them all; the text)."""


def notes_on(comparison: Comparison, held: Mapping[str, Sequence[Held]], spec: GateSpec) -> Iterator[Note]:
    """For a person; every line names its places."""
    yield from ((None, said) for said in _moved(comparison, spec))
    places: dict[str, list[str]] = {}
    for one in next(iter(held.values()), ()):
        for said in _loose(one):
            places.setdefault(said, []).append(one.target.where)
    yield from ((None, f"{', '.join(where)}: {said}.") for said, where in places.items())
    for slug, limits in held.items():
        for one in limits:
            where = f"{one.target.where}, {slug}"
            yield from ((slug, f"{where}: {said}.") for said in (*_far_below(one), *_flapping(one, spec)))


def _moved(comparison: Comparison, spec: GateSpec) -> Iterator[str]:
    """Limits on scores were set for another baseline than this one; recovery moves along with it."""
    stored = spec.set_for.scores if spec.set_for else {}
    for row in comparison.tasks:
        before, now = stored.get(row.task), row.baseline.score
        if before and abs(now - before) >= MOVED * abs(before) * (1 - 1e-12):
            unit = 100 if row.higher_is_better else 1
            sign = " %" if row.higher_is_better else f" of {row.metric}"
            yield (
                f"{row.task}: the baseline moved from {unit * before:.2f}{sign} to {unit * now:.2f}{sign} "
                f"({100 * (now / before - 1):+.1f} %) since the limits were set."
            )


def _loose(held: Held) -> Iterator[str]:
    """A limit far from harmless, whatever is measured."""
    target = held.target
    if target.kind == "min_recovery" and target.limit < LOOSE_RECOVERY:
        yield f"the limit {target.limit:g} % would miss a loss of {100 - target.limit:g} % of the baseline's score"
    elif target.kind == "max_drop" and target.limit > LOOSE_POINTS and target.row and target.row.higher_is_better:
        yield f"the limit would miss a loss of {target.limit:g} points"


def _far_below(held: Held) -> Iterator[str]:
    """A least score far below the one that is measured."""
    target, value = held.target, held.measured.value
    if target.kind == "min_score" and value is not None and value - target.limit > LOOSE_POINTS:
        below = value - target.limit
        yield (
            f"the limit {target.limit:g} % is {below:.2f} points below the measured {_score(held)}: "
            f"it would miss a loss of {math.floor(below):g} points"
        )


def _score(held: Held) -> str:
    value, stderr = held.measured.value, held.score.stderr if held.score else None
    return f"{value:.2f} %" if stderr is None else f"{value:.2f} ± {100 * stderr:.2f} %"


def _flapping(held: Held, spec: GateSpec) -> Iterator[str]:
    """A limit on a score that lies within its luck: another set of such items may well say the opposite."""
    target, score, value = held.target, held.score, held.measured.value
    if target.kind != "min_score" or value is None or score is None or not 0 <= score.score <= 1:
        return
    if spec.decide == "interval":
        # Its interval is wider than its luck, and an open limit says itself how many more items it takes.
        return
    margin = abs(value - target.limit) / 100
    items = sum(part.n for part in target.parts)
    found = _margins(score, items, margin, spec.confidence)
    if found is None:
        return
    errors, least, needed = found
    if errors >= SAFE_MARGIN or margin >= least:
        return
    points = f"{100 * margin:.3g}"
    enough = f" or {needed} items" if needed is not None else ""
    yield (
        f"the limit is {points} point{'' if points == '1' else 's'} from the score, {errors:.1f} standard "
        f"errors of {items} items, so luck alone can turn this gate; a margin of {100 * least:.1f} points{enough} "
        "would tell a loss from luck"
    )


def _margins(
    score: CompressedScore, items: int, margin: float, confidence: float
) -> tuple[float, float, int | None] | None:
    """(margin in standard errors, least margin that is told, items at which this one is); None where nothing varies."""
    is_told_apart = margin > _NO_MARGIN
    if score.paired is not None and score.paired.is_binary:
        if not 0 < score.score < 1:
            return None
        needed = items_for_margin(score.score, margin, confidence) if is_told_apart else None
        return margin_in_errors(items, score.score, margin), smallest_margin(items, score.score, confidence), needed
    if not score.stderr:
        return None
    least = normal_quantile(confidence) * score.stderr
    return margin / score.stderr, least, math.ceil(items * (least / margin) ** 2) if is_told_apart else None
