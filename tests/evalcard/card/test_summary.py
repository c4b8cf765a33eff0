"""Tasks that an average hides: named in a card's first words, and held there against the tables."""

from fractions import Fraction

import pytest

from evalcard.card.check.check import check_card
from evalcard.card.options import CardOptions
from evalcard.card.render import write_cards
from evalcard.card.summary import below_average
from evalcard.compare.comparison import compare_answers
from evalcard.compare.pairing import Answered
from evalcard.results.compared import RecoveryRecord
from evalcard.results.records import RowRecord
from evalcard.results.store import RunFolder

SLUG, ITEMS = "toy-1b-w8a8", 400


@pytest.fixture
def compare(make_case):
    """A category of tasks of 400 items, 300 of them right with the baseline; ``lost`` and ``gained`` by task."""

    def make(flips: dict[str, tuple[int, int]]):
        run, _ = make_case()
        facts = {"items_total": ITEMS, "items_selected": ITEMS}
        tasks = [run.tasks[0].model_copy(update={"name": name, **facts}) for name in flips]
        rows = [RowRecord(name=name, tasks=[name], rule="task") for name in flips]
        run = run.model_copy(update={"tasks": tasks, "rows": rows})

        def answers(lost: int, gained: int):
            values = [lost <= item < 300 + gained for item in range(ITEMS)]
            return {(i, 0): Answered(Fraction(v), "correct" if v else "wrong", "stop", f"i{i}", f"p{i}")
                    for i, v in enumerate(values)}  # fmt: skip

        models = {"toy-1b": dict.fromkeys(flips, (0, 0)), SLUG: flips}
        return run, compare_answers(run, {m: {t: answers(*f) for t, f in own.items()} for m, own in models.items()})

    return make


def headline_of(case, tmp_path) -> str:
    """The card's line, after the card was checked."""
    with RunFolder.open(tmp_path, "run") as folder:
        top, *_ = write_cards(folder, *case, CardOptions())
    text = top.read_text(encoding="utf-8")
    assert [one.message for one in check_card(text, own=True) if one.level == "error" and one.where == "headline"] == []
    return next(line for line in text.splitlines() if line.startswith("Measured on the same prompts"))


def test_a_task_that_fell_is_named(compare, tmp_path):
    case = compare({"arc": (2, 2), "facts": (31, 1), "words": (1, 3)})
    (row,) = below_average(case[1], SLUG)
    assert (row.task, row.recovery, row.category, row.average, row.num_rows) == (
        "facts", "90.00 %", "knowledge", "96.89 %", 3,
    )  # fmt: skip
    line = headline_of(case, tmp_path)
    assert f"whole interval: **90.00 %** {row.interval} on `facts`, below the 96.89 % of knowledge." in line
    assert "An average hides a task" in line and "by chance" not in line


@pytest.mark.parametrize(
    "flips",
    [
        {"arc": (2, 2), "facts": (4, 2), "words": (1, 3)},  # its interval holds the average
        {"arc": (31, 1), "facts": (31, 1), "words": (31, 1)},  # all fell alike
        {"facts": (31, 1)},  # no average: the task is in the first words itself
        {"arc": (0, 60), "facts": (0, 9), "words": (0, 60)},  # below the average, and yet better than the baseline
    ],
)
def test_else_nothing_is_said(compare, tmp_path, flips):
    case = compare(flips)
    assert below_average(case[1], SLUG) == ()
    assert "hide" not in headline_of(case, tmp_path)


def test_of_many_the_lowest_come_first(compare, tmp_path):
    flips = {f"t{at}": (0, 0) for at in range(12)} | {f"low{at}": (20 + 9 * at, 0) for at in range(4)}
    case = compare(flips)
    assert [row.task for row in below_average(case[1], SLUG)] == ["low3", "low2", "low1", "low0"]
    line = headline_of(case, tmp_path)
    assert "Averages hide tasks" in line and "`low1`" in line and "`low0`" not in line
    assert "of knowledge; the tables show 1 more. Each interval is taken by itself" in line


@pytest.mark.parametrize(
    ("recovery", "is_named"),
    [
        ((90.0, 85.0, 96.88), True),
        ((90.0, 85.0, 96.887), False),  # printed as the average is
        ((90.0, 85.0, None), False),
        ((90.0, None, None), False),
    ],
)
def test_only_an_interval_that_ends_below_names_a_task(compare, recovery, is_named):
    _, comparison = compare({"arc": (2, 2), "facts": (31, 1), "words": (1, 3)})
    facts = comparison.tasks[1]
    told = RecoveryRecord(value=recovery[0], low=recovery[1], high=recovery[2])
    facts.compressed[0] = facts.compressed[0].model_copy(update={"recovery": told})
    assert bool(below_average(comparison, SLUG)) == is_named


def test_an_average_without_recovery_hides_nothing(compare):
    _, comparison = compare({"arc": (2, 2), "facts": (31, 1), "words": (1, 3)})
    average = comparison.averages[0]
    average.compressed[0] = average.compressed[0].model_copy(update={"recovery": None, "reason": "none"})
    assert below_average(comparison, SLUG) == ()
