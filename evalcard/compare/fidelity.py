"""How alike are two models' answers, beyond right and wrong? Their choices' probabilities and the words they wrote.

A score moves only where an answer crosses the line between right and wrong; most of what compression does to a model
happens on either side of it. What is said here needs no gold, and shows a change long before it costs accuracy.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from evalcard.compare.choices import alternatives, gold_of
from evalcard.compare.divergence import bins, divergence, normalised, quantile, standard_error
from evalcard.results.compared import FidelityRecord, GeneratedFidelity, LeftOutWhy
from evalcard.results.journal import Address
from evalcard.results.records import RowRecord, RunRecord, Sample, ScoredChoice, Verdict


@dataclass
class Pairs:
    """What the answers of both models to one task come to, pair by pair."""

    divergences: list[float] = field(default_factory=list)
    """KL(baseline || compressed) over an item's choices, in nats."""
    agreeing: int = 0
    """Of them, pairs with the same most probable choice."""
    gold_shifts: list[float] = field(default_factory=list)
    """By how much the gold choice's probability differs, where the verdict tells which choice that is."""
    identical: list[bool] = field(default_factory=list)
    """Of generated answers, whether they are the same word for word."""
    common: list[tuple[int, int]] = field(default_factory=list)
    """(tokens before the first difference, tokens of the longer answer), where both models' tokens are known."""
    left_out: Counter[LeftOutWhy] = field(default_factory=Counter)


def pair_answers(verdicts: Iterable[Verdict], baseline: Iterable[Sample], compressed: Iterable[Sample]) -> Pairs:
    """Pair two models' answers to one task by (item, repeat); ``verdicts`` are the baseline's and say what counts.

    Scored answers count where their log-probabilities are those of two or more choices, not windows of one text.
    """
    ours, theirs = _by_address(baseline), _by_address(compressed)
    pairs = Pairs()
    for verdict in verdicts:
        address = (verdict.item_id, verdict.repeat)
        if address not in ours or address not in theirs:
            pairs.left_out["unpaired"] += 1
        else:
            _add(pairs, verdict, ours[address], theirs[address])
    return pairs


def fidelity_of(row: str, model: str, parts: Sequence[Pairs]) -> FidelityRecord | None:
    """One compressed model (its slug) on one row of the tasks ``parts``, every pair with the same weight.

    None where no pair of answers can be compared in this way.
    """
    divergences = sorted(one for part in parts for one in part.divergences)
    generated = _generated(parts)
    if not divergences and generated is None:
        return None
    left_out: Counter[LeftOutWhy] = sum((part.left_out for part in parts), Counter())
    shifts = [one for part in parts for one in part.gold_shifts]
    return FidelityRecord(
        row=row,
        model=model,
        unit="choices" if divergences else None,
        items=len(divergences),
        **_of_divergences(divergences),
        top_agreement=sum(part.agreeing for part in parts) / len(divergences) if divergences else None,
        gold_items=len(shifts),
        gold_shift=math.fsum(shifts) / len(shifts) if shifts else None,
        generated=generated,
        left_out=dict(sorted(left_out.items())),
    )


def fidelities(
    run: RunRecord,
    verdicts: Mapping[str, Mapping[str, Iterable[Verdict]]],
    samples: Mapping[str, Mapping[str, Iterable[Sample]]],
) -> list[FidelityRecord]:
    """Every compressed model on every row of the run, in the run's order; both are given as slug -> task -> list."""
    baseline, *compressed = [model.slug for model in run.models]
    ours = {task: list(given) for task, given in samples.get(baseline, {}).items()}
    graded = {task: list(given) for task, given in verdicts.get(baseline, {}).items()}
    found = []
    for slug in compressed:
        theirs = samples.get(slug, {})
        pairs = {
            task: pair_answers(graded[task], ours[task], theirs[task])
            for task in graded
            if task in ours and task in theirs
        }
        found += of_rows(run.rows, slug, pairs)
    return found


def of_rows(rows: Iterable[RowRecord], slug: str, pairs: Mapping[str, Pairs]) -> list[FidelityRecord]:
    """One compressed model on all rows; ``pairs`` are by task."""
    records = (fidelity_of(row.name, slug, [pairs[task] for task in row.tasks if task in pairs]) for row in rows)
    return [record for record in records if record is not None]


def _by_address(samples: Iterable[Sample]) -> dict[Address, Sample]:
    return {(sample.item_id, sample.repeat): sample for sample in samples}


def _add(pairs: Pairs, verdict: Verdict, ours: Sample, theirs: Sample) -> None:
    if ours.choices is not None and theirs.choices is not None:
        _add_scored(pairs, verdict, _choices(ours, verdict), _choices(theirs, verdict))
    elif "error" in (ours.finish, theirs.finish):
        pairs.left_out["failed"] += 1
    elif ours.text is not None and theirs.text is not None:
        pairs.identical.append(ours.text == theirs.text)
        if ours.token_ids is not None and theirs.token_ids is not None:
            pairs.common.append(_common(ours.token_ids, theirs.token_ids))


def _choices(sample: Sample, verdict: Verdict) -> Sequence[ScoredChoice]:
    """Empty where there are none to choose from."""
    choices = alternatives(sample, verdict)
    is_choice = len(choices) > 1 and all(one.text for one in choices)  # windows of one text have no text of their own
    return choices if is_choice else ()


def _add_scored(pairs: Pairs, verdict: Verdict, ours: Sequence[ScoredChoice], theirs: Sequence[ScoredChoice]) -> None:
    if not ours and not theirs:
        return
    if [one.text for one in ours] != [one.text for one in theirs]:
        pairs.left_out["other_choices"] += 1
        return
    first, second = _finite(ours), _finite(theirs)
    if first is None or second is None:
        pairs.left_out["failed"] += 1
        return
    p, q = normalised(first), normalised(second)
    pairs.divergences.append(divergence(p, q))
    pairs.agreeing += p.index(max(p)) == q.index(max(q))
    gold = gold_of(ours, verdict)
    if gold is not None:
        pairs.gold_shifts.append(abs(math.exp(p[gold]) - math.exp(q[gold])))


def _finite(choices: Sequence[ScoredChoice]) -> list[float] | None:
    """None where one of them is not."""
    found = [one.logprob for one in choices if one.logprob is not None and math.isfinite(one.logprob)]
    return found if len(found) == len(choices) else None


def _common(ours: Sequence[int], theirs: Sequence[int]) -> tuple[int, int]:
    shorter = min(len(ours), len(theirs))
    same = next((n for n in range(shorter) if ours[n] != theirs[n]), shorter)
    return same, max(len(ours), len(theirs))


def _of_divergences(ascending: Sequence[float]) -> dict[str, Any]:
    if not ascending:
        return {}
    return {
        "kl_mean": math.fsum(ascending) / len(ascending),
        "kl_stderr": standard_error(ascending),
        "kl_median": quantile(ascending, 0.5),
        "kl_p90": quantile(ascending, 0.9),
        "kl_p99": quantile(ascending, 0.99),
        "kl_max": ascending[-1],
        "kl_bins": bins(ascending),
    }


def _generated(parts: Sequence[Pairs]) -> GeneratedFidelity | None:
    identical = [one for part in parts for one in part.identical]
    if not identical:
        return None
    common = [one for part in parts for one in part.common]
    differing = [same for same, longer in common if same < longer]
    return GeneratedFidelity(
        answers=len(identical),
        identical=sum(identical) / len(identical),
        with_tokens=len(common),
        first_difference=float(median(differing)) if differing else None,
        token_agreement=math.fsum(same / longer if longer else 1.0 for same, longer in common) / len(common)
        if common
        else None,
    )
