"""Beside the scores: how answers ended, pass@k, and other measures of the same answers. Every cell a string."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evalcard.card import numbers
from evalcard.card.tables import is_percent, score_of, tasks_of, total_of
from evalcard.results.compared import ComparedRow, Comparison, CompressedScore, MetricScore, ScoreRecord
from evalcard.results.records import Outcome, RunRecord

Columns = Sequence[tuple[str | None, str]]
"""(slug, title) of the models that are shown; slug None is the baseline."""
SCORED = "scored"
"""In words as TaskRecord.decoding has it: nothing was written, choices were scored."""
OUTCOMES: tuple[Outcome, ...] = ("correct", "wrong", "no_answer", "truncated", "error")


@dataclass(frozen=True, slots=True)
class OutcomeLine:
    """How one model's answers to one row ended."""

    task: str
    who: str
    counts: tuple[str, ...]
    """In the order of OUTCOMES; with its share of all answers where that is neither none nor all. A dash for those that
    were truncated where the program that measured does not tell how answers ended."""
    is_told: bool
    """Whether it is told how its answers ended."""


@dataclass(frozen=True, slots=True)
class PassLine:
    """One model's pass@k on one row."""

    who: str
    first: str
    """pass@1 as a fraction, as it is usually published."""
    stderr: str | None
    cells: tuple[str, ...]
    """In percent, in the order of the table's ks."""


@dataclass(frozen=True, slots=True)
class PassTable:
    """A row whose items were answered several times."""

    task: str
    items: str
    repeats: int
    ks: tuple[int, ...]
    lines: tuple[PassLine, ...]


@dataclass(frozen=True, slots=True)
class OtherLine:
    """Another measure of one row."""

    task: str
    measure: str
    cells: tuple[str, ...]
    """In the order of the models that are shown."""


@dataclass(frozen=True, slots=True)
class MeasuresView:
    """All of it for the models of one page."""

    titles: tuple[str, ...]
    outcomes: tuple[OutcomeLine, ...]
    passes: tuple[PassTable, ...]
    others: tuple[OtherLine, ...]


def measures_view(run: RunRecord, comparison: Comparison, columns: Columns) -> MeasuresView:
    """Measures of the given models on all rows; what a row does not have is left out."""
    rows = comparison.tasks
    return MeasuresView(
        titles=tuple(title for _, title in columns),
        outcomes=tuple(line for row in rows for line in _outcome_lines(run, row, columns)),
        passes=tuple(table for row in rows if (table := _pass_table(run, row, columns)) is not None),
        others=tuple(line for row in rows for line in _other_lines(run, row, columns)),
    )


def shown_ks(n: int) -> tuple[int, ...]:
    """1, 2, 4, 8 ... up to n, and n itself."""
    powers = [1 << exponent for exponent in range(n.bit_length())]
    return tuple(sorted({*powers, n}))


def _scores(row: ComparedRow, columns: Columns) -> list[tuple[str, ScoreRecord | CompressedScore | None]]:
    """(title, score) of each model; None where it has none."""
    return [(title, row.baseline if slug is None else score_of(row, slug)) for slug, title in columns]


def _outcome_lines(run: RunRecord, row: ComparedRow, columns: Columns) -> list[OutcomeLine]:
    slugs = [run.models[0].slug if slug is None else slug for slug, _ in columns]
    scores = zip(slugs, _scores(row, columns), strict=True)
    return [
        _outcome_line(row.task, who, score.outcomes, tells_endings(run, row, slug))
        for slug, (who, score) in scores
        if score is not None and score.outcomes
    ]


def tells_endings(run: RunRecord, row: ComparedRow, slug: str) -> bool:
    """Whether it is known how the model's answers to this row ended; nothing can cut a choice that is scored."""
    source = run.sources.get(slug)
    return source is None or source.tells_endings or all(task.decoding == SCORED for task in tasks_of(run, row))


def _outcome_line(task: str, who: str, outcomes: Mapping[Outcome, int], is_told: bool) -> OutcomeLine:
    counts = {name: _count(outcomes[name], sum(outcomes.values())) for name in OUTCOMES}
    if not is_told and not outcomes["truncated"]:
        counts["truncated"] = numbers.DASH
    return OutcomeLine(task, who, tuple(counts.values()), is_told)


def _count(part: int, whole: int) -> str:
    return str(part) if part in (0, whole) else f"{part} ({100 * part / whole:.1f} %)"


def _pass_table(run: RunRecord, row: ComparedRow, columns: Columns) -> PassTable | None:
    scores = [(who, score) for who, score in _scores(row, columns) if score is not None and score.pass_at]
    if not scores:
        return None
    repeats = max(len(score.pass_at) for _, score in scores)
    total = total_of(run, row)
    ks = shown_ks(repeats)
    lines = tuple(_pass_line(who, score, ks) for who, score in scores)
    return PassTable(row.task, str(row.n) if row.n == total else f"{row.n} of {total}", repeats, ks, lines)


def _pass_line(who: str, score: ScoreRecord | CompressedScore, ks: Sequence[int]) -> PassLine:
    """A model whose answers are incomplete may have fewer of them."""
    given = score.pass_at
    cells = tuple(numbers.in_percent(given[k - 1]) if k <= len(given) else numbers.DASH for k in ks)
    return PassLine(who, f"{given[0]:.3f}", f"{score.stderr:.3f}" if score.stderr else None, cells)


def _other_lines(run: RunRecord, row: ComparedRow, columns: Columns) -> list[OtherLine]:
    """Measures of the baseline, each beside the same of the other models."""
    scores = [score for _, score in _scores(row, columns)]
    found = []
    for other in row.baseline.others:
        values = [None if score is None else _value(score.others, other) for score in scores]
        # Not every mean is a share: some metrics count from 0 to 100, or in words.
        percent = is_percent(run, row) and all(0 <= value <= 1 for value in values if value is not None)
        cells = tuple(numbers.DASH if value is None else numbers.score(value, None, percent) for value in values)
        measure = other.metric if other.filter == "none" else f"{other.metric}, {other.filter}"
        found.append(OtherLine(row.task, measure, cells))
    return found


def _value(others: Sequence[MetricScore], wanted: MetricScore) -> float | None:
    return next((one.score for one in others if (one.metric, one.filter) == (wanted.metric, wanted.filter)), None)
