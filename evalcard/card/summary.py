"""The first words of a card: what each category comes to, how many answers flipped, how coarse the steps are."""

from dataclasses import dataclass

from evalcard.card import numbers
from evalcard.card.contrasts import error_growth
from evalcard.card.tables import average_of, categories, interval_of, score_of, tasks_of
from evalcard.results.compared import ComparedRow, Comparison, CompressedScore, RecoveryRecord
from evalcard.results.records import RunRecord

TELLING_GROWTH, TELLING_RECOVERY, TELLING_P = 1.5, 95.0, 0.05
"""The first words of a card tell an error rate that grew at least so much, at a recovery that looks so good, where
McNemar's test does not put it down to chance. What is less is left to the table."""


@dataclass(frozen=True, slots=True)
class Headline:
    """What a category comes to, or one row of a category that has no average."""

    category: str
    task: str | None
    """The only row; None for an average."""
    num_rows: int
    recovery: str
    interval: str
    is_defined: bool
    stopped: str = ""
    """``224 of 1319`` items, where the row stopped early."""


@dataclass(frozen=True, slots=True)
class ErrorsView:
    """A row whose recovery looks good while its error rate grew, by more than chance would have it."""

    task: str
    growth: str


@dataclass(frozen=True, slots=True)
class BelowView:
    """A row that its category's average, which the first words state, does not stand for."""

    task: str
    recovery: str
    interval: str
    category: str
    average: str
    """Recovery of the category's average."""
    num_rows: int
    """How many rows that average is over."""


@dataclass(frozen=True, slots=True)
class FlipsView:
    """Over all rows that count flips."""

    answers: int
    lost: int
    gained: int


@dataclass(frozen=True, slots=True)
class StepView:
    """The row on which a single item weighs most."""

    task: str
    points: str
    """Percentage points of recovery."""


def headlines_of(comparison: Comparison, slug: str) -> tuple[Headline, ...]:
    """A category's average, or its rows where it has none."""
    found: list[Headline] = []
    for category in categories(comparison):
        rows = [row for row in comparison.tasks if row.category == category]
        average = average_of(comparison, category)
        found += [headline(comparison, category, slug)] if average else [_of_row(row, slug) for row in rows]
    return tuple(found)


def headline(comparison: Comparison, category: str, slug: str) -> Headline:
    """The recovery that stands for a category: of its average, else of its only row; a dash where neither is."""
    rows = [row for row in comparison.tasks if row.category == category]
    if len(rows) == 1:
        return _of_row(rows[0], slug)
    average = average_of(comparison, category)
    score = score_of(average, slug) if average is not None else None
    return Headline(category, None, len(rows), *_recovery(score))


def telling_errors(comparison: Comparison, slug: str) -> tuple[ErrorsView, ...]:
    """Rows where the first words must not speak of recovery alone."""
    found = []
    for row in comparison.tasks:
        score = score_of(row, slug)
        if score is not None and _is_telling(score):
            found.append(ErrorsView(row.task, error_growth(row, score)))
    return tuple(found)


def below_average(comparison: Comparison, slug: str) -> tuple[BelowView, ...]:
    """Rows below 100 % whose whole interval lies below the recovery of their category's average, as printed; the lowest
    first. A row that is no part of an average is in the first words itself."""
    found: list[tuple[float, BelowView]] = []
    for average in comparison.averages:
        whole = score_of(average, slug)
        if whole is None or whole.recovery is None:
            continue
        for row in comparison.tasks:
            score = score_of(row, slug) if row.task in average.tasks else None
            own = score.recovery if score is not None else None
            if own is not None and _is_below(own, whole.recovery):
                said, mean = numbers.recovery(own.value), numbers.recovery(whole.recovery.value)
                view = BelowView(row.task, said, interval_of(score), average.category, mean, len(average.tasks))
                found.append((own.value, view))
    return tuple(view for _, view in sorted(found, key=lambda one: one[0]))


def _is_below(own: RecoveryRecord, average: RecoveryRecord) -> bool:
    if own.high is None or own.value >= 100:
        return False
    return round(own.high, numbers.DECIMALS) < round(average.value, numbers.DECIMALS)


def flips_view(run: RunRecord, comparison: Comparison, slug: str) -> FlipsView | None:
    """Flips over all rows that count them; None where none does, or where rows share tasks and would count twice."""
    leaves = [task.name for row in comparison.tasks for task in tasks_of(run, row)]
    if len(set(leaves)) < len(leaves):
        return None
    pairs = [(row, score_of(row, slug)) for row in comparison.tasks]
    counted = [(row, score) for row, score in pairs if score is not None and score.lost is not None]
    if not counted:
        return None
    return FlipsView(
        answers=sum(_answers(run, row, score) for row, score in counted),
        lost=sum(score.lost or 0 for _, score in counted),
        gained=sum(score.gained or 0 for _, score in counted),
    )


def _is_telling(score: CompressedScore) -> bool:
    if score.error_ratio is None or score.recovery is None or score.mcnemar_p is None:
        return False
    looks_good = score.recovery.value >= TELLING_RECOVERY
    return looks_good and score.error_ratio >= TELLING_GROWTH and score.mcnemar_p < TELLING_P


def _of_row(row: ComparedRow, slug: str) -> Headline:
    score = score_of(row, slug)
    test = score.sequential if score is not None else None
    stopped = f"{test.used} of {test.items}" if test is not None and test.used < test.items else ""
    return Headline(row.category, row.task, 1, *_recovery(score), stopped)


def _recovery(score: CompressedScore | None) -> tuple[str, str, bool]:
    """As printed, its interval, and whether there is one."""
    value = score.recovery.value if score is not None and score.recovery is not None else None
    return numbers.recovery(value), interval_of(score), value is not None


def _answers(run: RunRecord, row: ComparedRow, score: CompressedScore) -> int:
    """As many as the row counts, which may have stopped early; an older comparison does not count them."""
    return sum(score.outcomes.values()) or sum(task.items_selected * task.repeats for task in tasks_of(run, row))


def has_untested(comparison: Comparison, slug: str) -> bool:
    """Whether a row of fixed size counts flips without testing them, as its items were answered several times."""
    scores = [score_of(row, slug) for row in comparison.tasks]
    known = [score for score in scores if score is not None and score.lost is not None and score.sequential is None]
    return any(score.mcnemar_p is None for score in known)


def coarsest(run: RunRecord, comparison: Comparison) -> StepView | None:
    """Rows whose items weigh alike, are right or wrong and answered once: one item is 100 / (items right) points."""
    rules = {record.name: record.rule for record in run.rows}
    steps = [
        (100 / (row.n * row.baseline.score), row.task)
        for row in comparison.tasks
        if rules.get(row.task) != "mean"
        and row.baseline.score > 0
        and any(score.mcnemar_p is not None and score.recovery is not None for score in row.compressed)
        and all(task.higher_is_better for task in tasks_of(run, row))
    ]
    if not steps:
        return None
    points, task = max(steps)
    return StepView(task, f"{points:.{numbers.DECIMALS}f}")
