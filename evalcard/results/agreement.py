"""Does a comparison.json agree with itself and with its run.json? Asked before anything is judged or shown by it."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from evalcard.errors import ComparisonRefused, UserError
from evalcard.results.compared import ComparedRow, Comparison, CompressedScore, FidelityRecord, PairedRecord
from evalcard.results.files import is_file
from evalcard.results.incomplete import is_incomplete
from evalcard.results.madefrom import check_files
from evalcard.results.records import RunRecord
from evalcard.results.store import COMPARISON_FILE, RunFolder

_LARGEST = 2**53
"""Up to here a count is exact as a float too."""
_CLOSE = 1e-6
"""Relative: figures are rounded once, and only a hand moves them by more."""
_ADVICE = "Give the `evalcard run` command again, which makes it anew: stored answers are kept."


def check_comparison(comparison: Comparison, run: RunRecord, where: str) -> None:
    """Raise UserError naming ``where`` and the first fault; ComparisonRefused where it is another run's.

    A run that is incomplete may have fewer models or rows than the comparison of its last attempt.
    """
    fault = next(chain(_numbers(comparison.model_dump()), _figures(comparison)), None)
    if fault is not None:
        raise UserError(f"{where} is damaged: {fault}. {_ADVICE}")
    fault = next(_foreign(comparison, run), None) if run.finished is not None else None
    if fault is not None:
        raise ComparisonRefused(f"{where} does not belong to the run.json beside it: {fault}. {_ADVICE}")


def read_agreeing(folder: RunFolder, run: RunRecord) -> Comparison:
    """The comparison of a run's folder, checked, also against the answers and verdicts that it was made from.

    Raises what ``read_comparison`` and ``check_comparison`` raise, and UserError for a file that is gone or another one
    now. Files of a run without an end may have grown since, and it may not have a comparison yet, a UserError too.
    """
    if run.finished is None and not is_file(folder.path / COMPARISON_FILE):
        raise UserError(is_incomplete(run, ", so that there is no comparison yet"))
    comparison = folder.read_comparison()
    check_comparison(comparison, run, str(folder.path / COMPARISON_FILE))
    if run.finished is not None:
        check_files(folder, run, comparison.made_from)
    return comparison


def _numbers(data: Any) -> Iterator[str]:
    """Numbers that no measurement gives, wherever they are; without recursion, as the verdict may be nested at will."""
    left: list[tuple[str, Any]] = [("", data)]
    while left:
        place, value = left.pop()
        if isinstance(value, dict):
            left += [(f"{place}.{key}" if place else str(key), one) for key, one in value.items()]
        elif isinstance(value, list):
            left += [(f"{place}[{number}]", one) for number, one in enumerate(value)]
        elif isinstance(value, float) and not math.isfinite(value):
            yield f"{place} is {value}, which is no finite number"
        elif isinstance(value, int) and abs(value) > _LARGEST:
            yield f"{place} is a number beyond all bounds"


def _figures(comparison: Comparison) -> Iterator[str]:
    if not 0.5 < comparison.confidence < 1:
        yield f"its confidence is {comparison.confidence:g}, not between 0.5 and 1"
    for what, rows in (("row", comparison.tasks), ("average", comparison.averages)):
        yield from (f"it has the {what} {name!r} twice" for name in _several(row.task for row in rows))
    for row in _all_rows(comparison):
        yield from (f"{row.task}: {fault}" for fault in _of_row(row))
    for one in comparison.fidelity:
        yield from (f"the fidelity of {one.model} on {one.row}: {fault}" for fault in _of_fidelity(one))


def _of_row(row: ComparedRow) -> Iterator[str]:
    if row.n < 1:
        yield f"n is {row.n}, and 1 is the least"
    yield from (f"it has the model {slug!r} twice" for slug in _several(one.model for one in row.compressed))
    if (row.baseline.stderr or 0) < 0 or not 0 <= row.chance <= 1:
        yield f"the baseline's standard error is {row.baseline.stderr}, the chance level {row.chance:g}"
    for one in row.compressed:
        pairs = chain(_of_paired(one.paired), _of_counts(row, one, one.paired)) if one.paired else ()
        faults = chain(_of_score(one), _of_recovery(row, one), pairs)
        yield from (f"{one.model}: {fault}" for fault in faults)


def _of_score(one: CompressedScore) -> Iterator[str]:
    if (one.stderr or 0) < 0:
        yield f"its standard error is {one.stderr:g}"
    for name, count in (("lost", one.lost), ("gained", one.gained)):
        if count is not None and count < 0:
            yield f"{name} is {count}, and 0 is the least"
    if one.mcnemar_p is not None and not 0 <= one.mcnemar_p <= 1:
        yield f"mcnemar_p is {one.mcnemar_p:g}, not from 0 to 1"
    test = one.sequential
    if test is not None and not (0 <= test.used <= test.items and 0.5 < test.confidence < 1):
        yield f"its test used {test.used} of {test.items} items at a confidence of {test.confidence:g}"


def _of_recovery(row: ComparedRow, one: CompressedScore) -> Iterator[str]:
    """Recovery and difference follow from the scores; each lies in its interval, but the ends of a test that stopped
    early are those of all items, not of the ones that were used."""
    early = one.sequential is not None
    if one.recovery is not None:
        top, bottom = one.score, row.baseline.score
        if not row.higher_is_better:
            top, bottom = bottom, top
        value = one.recovery.value
        if bottom == 0 or not math.isclose(value, 100 * top / bottom, rel_tol=_CLOSE, abs_tol=_CLOSE):
            yield f"its recovery is {value:g} with scores of {one.score:g} and {row.baseline.score:g} of the baseline"
        # An interval of recovery ends at 0, also where a score without bounds is negative.
        yield from _of_interval("recovery", max(value, 0.0), one.recovery.low, one.recovery.high, early)
    if one.difference is not None:
        value, expected = one.difference.value, one.score - row.baseline.score
        slack = _CLOSE * max(1.0, abs(one.score), abs(row.baseline.score))
        if abs(value - expected) > slack:
            yield f"its difference is {value:g} with scores of {one.score:g} and {row.baseline.score:g} of the baseline"
        yield from _of_interval("difference", value, one.difference.low, one.difference.high, early)


def _of_interval(what: str, value: float, low: float | None, high: float | None, early: bool) -> Iterator[str]:
    if low is not None and high is not None and low > high:
        yield f"the interval of its {what} goes from {low:g} to {high:g}"
    slack = _CLOSE * max(1.0, abs(value))
    is_below = high is not None and high < value - slack
    is_above = low is not None and low > value + slack
    if not early and (is_below or is_above):
        yield f"its {what} of {value:g} lies outside its interval, {low} to {high}"


def _of_paired(paired: PairedRecord) -> Iterator[str]:
    if paired.n < 2 or not 0 <= paired.different <= paired.n:
        yield f"paired has {paired.different} of {paired.n} items different; there are 2 or more"
    counts = [paired.both, paired.lost, paired.gained]
    known = [count for count in counts if count is not None]
    if len(known) not in (0, 3) or (paired.is_binary and not known):
        yield f"paired has both {counts[0]}, lost {counts[1]}, gained {counts[2]}; all three are known, or none"
    if known and (min(known) < 0 or sum(known) > paired.n * (1 + _CLOSE)):
        yield f"paired counts {counts} of {paired.n} items"
    variances = (paired.baseline_variance, paired.compressed_variance)
    if min(variances) < 0 or abs(paired.covariance) > (1 + _CLOSE) * math.sqrt(variances[0] * variances[1]) + 1e-15:
        yield f"paired has the variances {variances[0]:g}, {variances[1]:g} and a covariance of {paired.covariance:g}"
    if paired.degrees is not None and paired.degrees <= 0:
        yield f"paired has {paired.degrees:g} degrees of freedom"


def _of_counts(row: ComparedRow, one: CompressedScore, paired: PairedRecord) -> Iterator[str]:
    """Where all items are right or wrong, the scores and the flips follow from how many are so with which model."""
    if not paired.is_binary or one.sequential is not None or paired.n != row.n or paired.both is None:
        return
    lost, gained = paired.lost or 0.0, paired.gained or 0.0
    for name, told, count in (("lost", one.lost, lost), ("gained", one.gained, gained)):
        if told is not None and told != count:
            yield f"{name} is {told}, and its pairs count {count:g}"
    of_baseline, of_compressed = (paired.both + lost) / paired.n, (paired.both + gained) / paired.n
    if max(abs(row.baseline.score - of_baseline), abs(one.score - of_compressed)) > _CLOSE:
        yield (
            f"its scores are {row.baseline.score:g} and {one.score:g}, and its pairs make {of_baseline:g} and "
            f"{of_compressed:g}"
        )


def _of_fidelity(one: FidelityRecord) -> Iterator[str]:
    """Sizes may be a hair below 0 where another program, which rounds, measured them."""
    told = one.generated
    shares = {"top_agreement": one.top_agreement, "gold_shift": one.gold_shift}
    if told is not None:
        shares |= {"identical": told.identical, "token_agreement": told.token_agreement}
    for name, share in shares.items():
        if share is not None and not 0 <= share <= 1:
            yield f"{name} is {share:g}, not from 0 to 1"
    sizes = [size for size in (one.kl_median, one.kl_p90, one.kl_p99, one.kl_max) if size is not None]
    if sizes != sorted(sizes) or (sizes and sizes[0] < -_CLOSE and one.unit == "choices"):
        yield f"its divergences of median, 90 %, 99 % and most are {', '.join(f'{size:g}' for size in sizes)}"
    counts = [one.items, one.gold_items, *one.left_out.values(), *((told.answers, told.with_tokens) if told else ())]
    if min(counts) < 0 or (one.kl_bins is not None and sum(one.kl_bins) != one.items):
        yield f"it counts {one.items} items, in bins {one.kl_bins}"


def _foreign(comparison: Comparison, run: RunRecord) -> Iterator[str]:
    """Rows and models of the run that have no score are named by a finding."""
    if comparison.run != run.name:
        yield f"it is the comparison of the run {comparison.run!r}, not of {run.name!r}"
    rows, slugs = [row.name for row in run.rows], [model.slug for model in run.models[1:]]
    yield from (f"it has the row {row.task!r}, which the run lacks" for row in comparison.tasks if row.task not in rows)
    for row in _all_rows(comparison):
        others = [one.model for one in row.compressed if one.model not in slugs]
        yield from (f"it has the model {slug!r} on {row.task}, which the run lacks" for slug in others)
    others = [one.model for one in comparison.fidelity if one.model not in slugs]
    yield from (f"it has the fidelity of the model {slug!r}, which the run lacks" for slug in others)
    scored = {row.task: {one.model for one in row.compressed} for row in comparison.tasks}
    for name in rows:
        missing = [slug for slug in slugs if slug not in scored.get(name, ())]
        if name not in scored and not _is_told(comparison, name, None):
            yield f"it lacks the row {name!r} of the run"
        yield from (
            f"it lacks the model {slug!r} on {name}" for slug in missing if not _is_told(comparison, name, slug)
        )


def _is_told(comparison: Comparison, row: str, slug: str | None) -> bool:
    return any(
        one.severity == "blocker" and one.row in (None, row) and one.model in (None, slug) for one in comparison.health
    )


def _all_rows(comparison: Comparison) -> list[ComparedRow]:
    overall = [comparison.overall] if comparison.overall is not None else []
    return [*comparison.tasks, *comparison.averages, *overall]


def _several(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]
