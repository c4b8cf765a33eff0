"""One scored row: a baseline too weak to divide by, answers on one side only, errors behind a high score."""

from collections.abc import Iterator

from evalcard.compare.evidence import why_no_interval
from evalcard.compare.health.answers import RESUME
from evalcard.compare.recovery import baseline_fault
from evalcard.compare.rows import RowScores
from evalcard.results.compared import Finding

NEAR_ZERO = 0.01
"""A score below this, where guessing earns nothing: whatever the number of items, the model does not do the task."""
STRONG_BASELINE, ERROR_GROWTH = 0.90, 2.0
"""From this score on, a growth of the error rate by this factor is said, as recovery hides it."""


def about_row(row: RowScores) -> Iterator[Finding]:
    name = row.record.name
    fault = baseline_fault(row.baseline, row.chance, row.higher_is_better)
    if fault:
        yield Finding(finding=f"No recovery: {fault}.", severity="blocker", where=name, advice=_WEAK, row=name)
    elif row.higher_is_better and row.baseline.score < NEAR_ZERO:
        text = f"The baseline is broken: it scores {100 * float(row.baseline.score):.2f} % on {row.baseline.n} items."
        yield Finding(finding=text, severity="blocker", where=name, advice=_NEAR_ZERO, row=name)
    for slug, mine in row.compressed.items():
        where = f"{name}, {slug}"
        if mine.one_sided:
            text = f"{mine.one_sided} answers are there for one of the two models only."
            yield Finding(finding=text, severity="blocker", where=where, advice=RESUME, model=slug, row=name)
        paired = mine.paired if mine.recovered.value is not None else None
        why = why_no_interval(paired, row.higher_is_better) if paired is not None else None
        if why:
            text = f"The recovery has no interval: {why}."
            yield Finding(finding=text, severity="note", where=where, advice=_FEW, model=slug, row=name)
        before, after = 1 - float(row.baseline.score), 1 - float(mine.score.score)
        strong = row.higher_is_better and STRONG_BASELINE <= float(row.baseline.score) < 1
        if strong and mine.recovered.value is not None and after >= ERROR_GROWTH * before:
            text = f"The error rate grew from {100 * before:.2f} % to {100 * after:.2f} %, {after / before:.1f} times."
            yield Finding(finding=text, severity="note", where=where, advice=_ERRORS, model=slug, row=name)


_WEAK = "Use an easier task or more items; a ratio over such a baseline says nothing."
_NEAR_ZERO = (
    "Look at its prompts and answers: a missing BOS token or chat template, or a broken load, is the usual cause."
)
_FEW = "Only the value can be told; a task that grades answers from 0 to 1, or more items, gives an interval as well."
_ERRORS = "On a task this easy look at the errors as well as at recovery."
