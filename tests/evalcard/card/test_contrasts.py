"""Recovery seen otherwise."""

from fractions import Fraction

import pytest

from evalcard.card.contrasts import contrasts_view
from evalcard.card.view import card_view
from evalcard.compare.comparison import compare_answers
from evalcard.compare.pairing import Answered
from evalcard.results.records import RowRecord

SLUG = "toy-1b-w8a8"


def lines_of(case):
    return {line.title: line for line in contrasts_view(*case, SLUG).lines}


@pytest.fixture
def compare(make_case):
    """One task of n items with these items right, ``lost`` of them with the baseline only."""

    def make(n: int, right: int, lost: int):
        run, _ = make_case()
        task = run.tasks[0].model_copy(update={"items_total": n, "items_selected": n})
        run = run.model_copy(update={"tasks": [task], "rows": [RowRecord(name="arc", tasks=["arc"], rule="task")]})

        def answers(first: int):
            values = [first <= item < right for item in range(n)]
            return {(i, 0): Answered(Fraction(v), "correct" if v else "wrong", "stop", f"i{i}", f"p{i}")
                    for i, v in enumerate(values)}  # fmt: skip

        return run, compare_answers(run, {"toy-1b": {"arc": answers(0)}, SLUG: {"arc": answers(lost)}})

    return make


def test_rows_and_averages(make_case):
    lines = lines_of(make_case())
    assert list(lines) == ["arc", "facts", "average of knowledge", "sums", "riddles", "overall average"]
    arc = lines["arc"]
    assert (arc.difference, arc.interval) == ("-2.50", "[-6.72, 1.27]")
    assert arc.above_chance == "95.00 %"  # (72.5 - 25) / (75 - 25)
    assert arc.errors == "25.00 % → 27.50 % (×1.10)"
    assert lines["average of knowledge"].is_average and lines["average of knowledge"].difference == "-1.25"


def test_what_means_nothing_is_empty(make_case):
    lines = lines_of(make_case())
    assert lines["sums"].above_chance == "", "guessing gives nothing there"
    assert lines["riddles"].above_chance == "" and lines["riddles"].difference == "-2.00", "the baseline guesses"
    assert (lines["overall average"].above_chance, lines["overall average"].errors) == ("", "")


def test_what_is_empty_is_told_why(make_case):
    run, _ = make_case()
    assert contrasts_view(*make_case(), SLUG).dashes == ("average", "above_chance")
    assert contrasts_view(*make_case(rows=run.rows[:1]), SLUG).dashes == ()
    assert contrasts_view(*make_case(rows=run.rows[2:3]), SLUG).dashes == (), "a column that is not shown has no cells"


def test_columns_without_any_cell_are_not_there(make_case):
    run, _ = make_case()
    sums = contrasts_view(*make_case(rows=run.rows[2:3]), SLUG)
    assert sums.has_errors and not sums.has_above_chance
    assert contrasts_view(*make_case(), SLUG).has_above_chance
    without = contrasts_view(*make_case(rows=[]), SLUG)
    assert without.lines == () and not without.has_errors


def test_a_recovery_of_99_percent_does_not_hide_three_times_the_errors(compare):
    case = compare(2000, 1990, 20)
    (line,) = lines_of(case).values()
    assert line.errors == "0.50 % → 1.50 % (×3.00)" and line.difference == "-1.00"
    view = card_view(*case, SLUG)
    assert view.headlines[0].recovery == "98.99 %"
    assert [(row.task, row.growth) for row in view.errors] == [("arc", "0.50 % → 1.50 % (×3.00)")]


def test_errors_where_there_were_none_have_no_factor(compare):
    (line,) = lines_of(compare(200, 200, 6)).values()
    assert line.errors == "0.00 % → 3.00 %"


@pytest.mark.parametrize(
    ("n", "right", "lost", "is_said"),
    [
        (2000, 1990, 20, True),
        (200, 199, 2, False),  # three errors instead of one, by chance
        (2000, 1990, 4, False),  # 1.4 times the errors
        (2000, 1600, 300, False),  # 1.75 times, but recovery says it: 81 %
        (2000, 2000, 20, False),  # no errors before, so no ratio
    ],
)
def test_growth_is_said_first_only_where_recovery_hides_it(compare, n, right, lost, is_said):
    run, comparison = compare(n, right, lost)
    assert bool(card_view(run, comparison, SLUG).errors) == is_said


def test_a_difference_where_lower_is_better_is_in_the_metrics_own_unit(make_case):
    run, comparison = make_case()
    row = comparison.tasks[0]
    score = row.compressed[0]
    score = score.model_copy(update={"difference": score.difference.model_copy(update={"value": 2.5, "low": 1.0})})
    tasks = [run.tasks[0].model_copy(update={"higher_is_better": False}), *run.tasks[1:]]
    comparison = comparison.model_copy(update={"tasks": [row.model_copy(update={"compressed": [score]})]})
    view = contrasts_view(run.model_copy(update={"tasks": tasks}), comparison, SLUG)
    assert view.has_units and view.lines[0].difference == "+2.50" and view.lines[0].interval.startswith("[1.00, 0.01")
