"""What evalcard's own page prints twice is the same both times: an overall average, the recoveries of its headline."""

from pathlib import Path

import pytest

from evalcard.card.check.check import check_card
from evalcard.card.section import BEGIN

GOLDEN = Path(__file__).parents[1] / "golden"
PAGES = ("card.md", "card-gate.md", "card-reasoning.md", "card-sequential.md")


def said(text: str, own: bool = True) -> list[tuple[int | None, str]]:
    return [(one.line, one.message) for one in check_card(text, own=own) if one.level == "error"]


def changed(page: str, old: str, new: str) -> tuple[str, int]:
    """The page with one thing changed, and its line."""
    text = (GOLDEN / page).read_text(encoding="utf-8")
    assert text.count(old) == 1, old
    return text.replace(old, new), text[: text.index(old)].count("\n") + 1


@pytest.mark.parametrize("page", PAGES)
def test_pages_as_they_are_rendered_are_right(page: str):
    assert said((GOLDEN / page).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("Average of all 3 tasks", "Average of all 2 tasks",
         "it is over 2 tasks, and the tables of this card have scores of 3"),
        ("is **98.00 %** [93.39", "is **99.00 %** [93.39",
         "states a recovery of 99.00 % [93.39, 102.79] on 'knowledge'; its table says 98.00 % [93.39, 102.79]"),
        ("and **105.00 %** [83.53, 134.79] on", "and **105.00 %** [93.53, 134.79] on",
         "states a recovery of 105.00 % [93.53, 134.79] on 'sums'; its table says 105.00 % [83.53, 134.79]"),
        ("on `sums`. Of", "on `arc`. Of", "on 'arc'; its table says 96.67 % [91.15, 101.75]"),
        ("on `sums`. Of", "on `sum`. Of", "on 'sum'; no table of this card has such a row"),
    ],
)  # fmt: skip
def test_what_is_not_the_same_both_times_is_named(old: str, new: str, what: str):
    text, line = changed("card-gate.md", old, new)
    found = said(text)
    assert [at for at, _ in found] == [line] and what in found[0][1], found


@pytest.mark.parametrize(
    ("cell", "score", "recovery", "column"),
    [(1, "61.33", "105.14 %", "Compressed"), (0, "62.50", "93.33 %", "Baseline")],
)
def test_an_overall_average_is_the_mean_of_all_tables(cell: int, score: str, recovery: str, column: str):
    """Also where its recovery follows from it."""
    text = (GOLDEN / "card-gate.md").read_text(encoding="utf-8")
    lines = text.split("\n")
    at = next(number for number, line in enumerate(lines) if line.startswith("| **Average of all 3 tasks**"))
    cells = lines[at].split(" | ")
    cells[1 + cell], cells[3] = score, f"{recovery} |"
    lines[at] = " | ".join(cells)
    ((line, what),) = said("\n".join(lines))
    assert line == at + 1
    assert f"prints an average of {score} under '{column}'; the mean of all 3 tasks of this card is 58.33" in what


def test_open_intervals_and_tasks_that_stopped_early():
    text, line = changed("card-sequential.md", "**105.00 %** [71.50, ∞) on", "**105.00 %** [81.50, ∞) on")
    ((at, what),) = said(text)
    assert at == line and "its table says 105.00 % [71.50, ∞)" in what


def test_only_between_the_marks():
    text, _ = changed("card-gate.md", "is **98.00 %** [93.39", "is **99.00 %** [93.39")
    sentence = next(line for line in text.split("\n") if "recovery is **99" in line)
    others = text.replace(sentence, "").replace(BEGIN, f"{sentence}\n\n{BEGIN}")
    assert said(others) == [] and said(text, own=False) == []
