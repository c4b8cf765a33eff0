"""How answers ended, pass@k and other measures on a page."""

import pytest

from evalcard.card.measures import measures_view, shown_ks
from evalcard.results.records import SourceRecord

COLUMNS = ((None, "baseline"), ("toy-1b-w8a8", "compressed"))


def test_every_model_on_every_row_has_five_counts(reasoning_case):
    run, comparison = reasoning_case
    lines = measures_view(run, comparison, COLUMNS).outcomes
    assert [(line.task, line.who) for line in lines] == [
        ("aime24", "baseline"), ("aime24", "compressed"), ("gsm8k", "baseline"), ("gsm8k", "compressed"),
    ]  # fmt: skip
    assert lines[0].counts == ("512 (53.3 %)", "224 (23.3 %)", "112 (11.7 %)", "112 (11.7 %)", "0")
    for line, answers in zip(lines, (960, 960, 200, 200), strict=True):
        assert sum(int(count.split()[0]) for count in line.counts) == answers


def test_a_published_pass_at_1_says_how_many_samples_stand_behind_it(reasoning_case):
    (table,) = measures_view(*reasoning_case, COLUMNS).passes
    assert (table.task, table.items, table.repeats, table.ks) == ("aime24", "30", 32, (1, 2, 4, 8, 16, 32))
    assert [(line.who, line.first) for line in table.lines] == [("baseline", "0.533"), ("compressed", "0.492")]
    first = table.lines[0]
    assert first.cells[0] == "53.33" and first.cells[-1] == "80.00" and first.stderr == "0.072"
    assert [float(cell) for cell in first.cells] == sorted(float(cell) for cell in first.cells)


def test_other_filters(reasoning_case):
    (line,) = measures_view(*reasoning_case, COLUMNS).others
    assert (line.task, line.measure, line.cells) == ("gsm8k", "exact_match, flexible-extract", ("70.00", "71.00"))


def test_a_mean_that_is_no_share_is_shown_as_it_is(reasoning_case):
    run, comparison = reasoning_case
    row = comparison.tasks[1]
    words = row.baseline.others[0].model_copy(update={"metric": "words", "filter": "none", "score": 12.5})
    row = row.model_copy(update={"baseline": row.baseline.model_copy(update={"others": [words]})})
    (line,) = measures_view(run, comparison.model_copy(update={"tasks": [row]}), COLUMNS).others
    assert (line.measure, line.cells) == ("words", ("12.50", "–"))


@pytest.mark.parametrize(("n", "ks"), [(2, (1, 2)), (4, (1, 2, 4)), (5, (1, 2, 4, 5)), (64, (1, 2, 4, 8, 16, 32, 64))])
def test_ks(n, ks):
    assert shown_ks(n) == ks


def test_a_run_of_an_older_evalcard_has_none_of_it(make_case):
    run, comparison = make_case()
    bare = {"outcomes": {}, "pass_at": [], "others": []}
    rows = [
        row.model_copy(update={"baseline": row.baseline.model_copy(update=bare),
                               "compressed": [one.model_copy(update=bare) for one in row.compressed]})
        for row in comparison.tasks
    ]  # fmt: skip
    shown = measures_view(run, comparison.model_copy(update={"tasks": rows}), COLUMNS)
    assert shown.outcomes == shown.passes == shown.others == ()


def test_endings_that_are_not_told_are_a_dash(reasoning_case):
    run, comparison = reasoning_case
    rows = [one.model_copy(update={"baseline": one.baseline.model_copy(
        update={"outcomes": one.baseline.outcomes | {"truncated": 0}})}) for one in comparison.tasks]  # fmt: skip
    silent = SourceRecord(program="lm_eval 0.4.13", prompts="text", tells_endings=False)
    run = run.model_copy(update={"sources": {run.models[0].slug: silent}})
    lines = measures_view(run, comparison.model_copy(update={"tasks": rows}), COLUMNS).outcomes
    assert [(line.counts[3], line.is_told) for line in lines if line.who == "baseline"] == [("–", False)] * 2
    assert all(line.is_told and line.counts[3] != "–" for line in lines if line.who == "compressed")
    scored = [task.model_copy(update={"decoding": "scored"}) for task in run.tasks]
    lines = measures_view(run.model_copy(update={"tasks": scored}), comparison, COLUMNS).outcomes
    assert all(line.is_told for line in lines), "nothing can cut a choice that is scored"
