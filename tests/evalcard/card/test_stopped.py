"""Cards of runs that stopped as soon as their gate was decided."""

from evalcard.card.metadata import metadata
from evalcard.card.stopped import is_sequential, stopped_lines
from evalcard.card.tables import row_view
from evalcard.card.view import card_view

SLUG = "toy-1b-w8a8"


def test_every_row_says_how_far_it_went(sequential_case):
    arc, facts, sums = stopped_lines(sequential_case[1], SLUG)
    assert (arc.task, arc.used, arc.items, arc.share) == ("arc", 200, 1172, "17 %")
    assert (arc.limit, arc.decision, arc.confidence) == ("90 %", "PASS", "95")
    assert (facts.share, sums.decision) == ("100 %", None)


def test_items_interval_and_p_are_those_of_the_sequence(sequential_case):
    run, comparison = sequential_case
    arc, facts, sums = (row_view(run, row, SLUG) for row in comparison.tasks)
    assert [view.items for view in (arc, facts, sums)] == ["200 of 1172", "120", "40 of 500"]
    assert [view.interval for view in (arc, facts, sums)] == ["[90.40, 103.25]", "[100.00, 100.00]", "[71.50, ∞)"]
    assert {view.p_value for view in (arc, facts, sums)} == {"–"}


def test_the_first_words_name_each_row_and_what_stopped(sequential_case):
    lines = card_view(*sequential_case, SLUG).headlines
    told = [(line.task, line.recovery, line.stopped) for line in lines]
    assert told == [
        ("arc", "96.67 %", "200 of 1172"), ("facts", "100.00 %", ""), ("sums", "105.00 %", "40 of 500")
    ]  # fmt: skip


def test_no_score_is_published_even_of_a_row_that_went_through(sequential_case, make_case):
    run, comparison = sequential_case
    assert "model-index" not in metadata(run, comparison, card_view(run, comparison, SLUG))
    run, _ = make_case()
    fixed = make_case(rows=run.rows[:3])
    assert "model-index" in metadata(*fixed, card_view(*fixed, SLUG))


def test_either_record_makes_a_run_sequential(sequential_case, make_case):
    run, comparison = sequential_case
    fixed_run, fixed = make_case()
    assert is_sequential(run, fixed) and is_sequential(fixed_run, comparison) and not is_sequential(fixed_run, fixed)


def test_a_missing_p_is_not_put_down_to_repeats(sequential_case):
    assert not card_view(*sequential_case, SLUG).has_untested


def test_flips_are_counted_among_the_answers_that_were_given(sequential_case):
    flips = card_view(*sequential_case, SLUG).flips
    assert (flips.answers, flips.lost, flips.gained) == (360, 13, 9)
