"""Tables as people write them: which are read, what is named in them, and which are left alone."""

import pytest

from evalcard.card.check.check import Checked, examine_card
from evalcard.card.check.digits import fixed
from evalcard.card.check.groups import is_average
from evalcard.compare.published import read_printed

FRONT = "---\nlicense: apache-2.0\n---\n\n# Toy\n\n"
FIRST = FRONT.count("\n") + 3
"""Line of a table's first row below its header."""


def checked(*rows: str) -> Checked:
    """Of a pipe table; the line of hyphens is put in."""
    rule = "|---" * rows[0].count("|", 1) + "|"
    return examine_card(FRONT + "\n".join([rows[0], rule, *rows[1:]]) + "\n")


def said(found: Checked) -> list[tuple[int | None, str, str]]:
    return [(problem.line, problem.level, problem.what) for problem in found.problems]


def whats(found: Checked) -> str:
    return "\n".join(problem.what for problem in found.problems)


WRONG = "| B | 50.00 | 45.00 | 91.00 |"  # 90.00


@pytest.mark.parametrize(
    "header",
    [
        "| Benchmark | Baseline | Compressed | Recovery |",
        "| | toy-1b | toy-1b-quantized.w4a16 | Recovery (%) |",
        "| Task | Toy-1B (BF16) | Toy-1B-FP8 | Accuracy recovery |",
        "| Task | toy-1b-base | toy-1b-base-W4A16 | Recovery |",
        "| Task | original | ours | Recovered |",
        "| Task | Toy 1b | toy-1b-vX9 | Recovery |",
    ],
)
def test_columns_are_known_by_their_headers(header: str):
    found = checked(header, "| A | 50.0 | 49.0 | 98.0 |", WRONG)
    ((line, level, what),) = said(found)
    assert (line, level) == (FIRST + 1, "error") and "91.00" in what and "45.00 of 50.00 is 90.00" in what


def test_columns_may_stand_the_other_way_round():
    found = checked("| Task | Recovery | toy-w8a8 (this model) | Baseline |", "| A | 98.0 | 49.0 | 50.0 |")
    assert not found.problems and found.recoveries == 1
    assert "49.0 of 50.0" in whats(checked("| T | this model | Recovery | toy |", "| A | 49.0 | 99.0 | 50.0 |"))


def test_headers_that_say_nothing_are_believed_when_the_figures_confirm_them():
    rows = ("| A | 50.0 | 49.0 | 98.0 |", "| B | 80.0 | 40.0 | 50.0 |", WRONG)
    assert len(checked("| Task | Alpha | Beta | Recovery |", *rows).problems) == 1
    alone = checked("| Task | Alpha | Beta | Recovery |", WRONG)
    assert not alone.problems and alone.tables == 0


def test_two_metrics_side_by_side():
    header = "| Data | F1 base | F1 this model | F1 Recovery | Recall base | Recall this model | Recall Recovery |"
    found = checked(
        header, "| A | 50.0 | 49.0 | 98.0 | 60.0 | 54.0 | 91.0 |", "| B | 50.0 | 49.0 | 99.0 | 60.0 | 54.0 | 90.0 |"
    )
    assert [what.split(";")[0] for _, _, what in said(found)] == [
        "prints a recovery of 91.0",
        "prints a recovery of 99.0",
    ]
    assert found.recoveries == 4


def test_several_compressed_models_with_a_recovery_each():
    header = "| Task | Baseline | w8a8 | Recovery | w4a16 | Recovery |"
    found = checked(header, "| A | 50.0 | 49.0 | 98.0 | 40.0 | 80.0 |", "| B | 50.0 | 48.0 | 96.0 | 40.0 | 81.0 |")
    assert found.recoveries == 4 and "40.0 of 50.0 is 80.0" in whats(found) and len(found.problems) == 1
    wide = ("| Model | A | B | Average | Recovery |", "| toy (baseline) | 50.0 | 70.0 | 60.0 | |",
            "| RTN | 50.0 | 58.0 | 54.0 | 90.0 |", "| QAT | 40.0 | 80.0 | 61.0 | 101.7 |")  # fmt: skip
    assert [what for *_, what in said(checked(*wide))] == [
        "prints an average of 61.0 under 'QAT'; the mean of the 2 columns it is over is 60.0"
    ]


def test_several_compressed_models_without_recovery():
    found = checked("| Task | Items | Baseline | w8a8 | w4a16 |", "| A | 20 | 50.0 | 49.0 | 10.0 |",
                    "| B | 30 | 40.0 | 41.0 | 20.0 |", "| overall average | | 45.0 | 45.0 | 16.0 |")  # fmt: skip
    assert [what for *_, what in said(found)] == [
        "prints an average of 16.0 under 'w4a16'; the mean of the 2 rows it is over is 15.0"
    ]


def test_a_cell_that_is_no_number_is_named_with_its_row():
    header = "| Task | Baseline | Compressed | Recovery |"
    found = checked(
        header, "| A | 33,890 | 33.1 | 97.7 |", "| B | 50.0 | about 49 | 98.0 |", "| C | 50.0 | 49.0 | 98,0 % |"
    )
    (comma, unreadable, recovery) = found.problems
    assert comma.line == FIRST and comma.level == "error" and "'33,890' has a comma" in comma.what
    assert unreadable.level == "warning" and "'about 49' under 'Compressed'" in unreadable.what
    assert "'98,0 %'" in recovery.what and "row 'C'" in recovery.where


@pytest.mark.parametrize("nothing", ["", "-", "---", "–", "—", "n/a", "N/A", "\\-", "None"])
def test_where_nothing_is_printed_nothing_is_wrong(nothing: str):
    found = checked("| Task | Baseline | Compressed | Recovery |", f"| A | 12.0 | 11.0 | {nothing} |",
                    f"| B | {nothing} | {nothing} | {nothing} |", "| C | 50.0 | 49.0 | 98.0 |",
                    "| Average | 31.0 | 30.0 | 96.8 |")  # fmt: skip
    assert not found.problems and (found.recoveries, found.averages) == (2, 1)


def test_an_average_with_a_row_half_measured_is_not_judged():
    found = checked(
        "| Task | Baseline | Compressed |", "| A | 10.0 | - |", "| B | 50.0 | 49.0 |", "| Average | 30.0 | 49.0 |"
    )
    assert not found.problems and found.averages == 0


def test_where_lower_is_better_the_ratio_turns_round():
    header = "| Task | Baseline | Compressed | Recovery |"
    assert not checked(header, "| WikiText perplexity ↓ | 10.00 | 12.50 | 80.0 |").problems
    (problem,) = checked(header, "| WikiText perplexity | 10.00 | 12.50 | 125.0 |").problems
    assert "where lower is better 10.00 over 12.50 is 80.0" in problem.what and "turned round" in problem.advice
    (problem,) = checked(header, "| ARC | 10.00 | 12.50 | 80.0 |").problems
    assert "turned round" in problem.advice


def test_a_recovery_over_nothing_is_none():
    (problem,) = checked("| Task | Baseline | Compressed | Recovery |", "| A | 0.0 | 10.0 | 100.0 |").problems
    assert problem.what == "prints a recovery of 100.0 over a baseline of 0.0" and "dash" in problem.advice


def test_averages_of_categories_are_over_their_rows():
    rows = ["| Category | Task | Baseline | Compressed |", "| X | A | 10.0 | 8.0 |", "| | B | 30.0 | 20.0 |",
            "| | Average Score | 20.0 | 14.0 |", "| Y | C | 50.0 | 50.0 |", "| Y | Average | 51.0 | 50.0 |",
            "| | Average of X | 20.0 | 15.0 |", "| All | Overall average | 30.0 | 26.0 |"]  # fmt: skip
    found = checked(*rows)
    assert [what.split(";")[0] for *_, what in said(found)] == [
        "prints an average of 51.0 under 'Baseline'", "prints an average of 15.0 under 'Compressed'"
    ]  # fmt: skip
    assert found.averages == 4


def test_an_average_of_what_the_table_does_not_show_is_left_alone():
    head = "| Task | Baseline | Compressed |"
    for label in ("average of Maths", "Average of 3 tasks", "average over the hard ones"):
        assert not checked(head, "| A | 10.0 | 8.0 |", "| B | 30.0 | 20.0 |", f"| {label} | 99.0 | 1.0 |").problems
    assert (
        len(checked(head, "| A | 10.0 | 8.0 |", "| B | 30.0 | 20.0 |", "| Average of 2 tasks | 99.0 | 1.0 |").problems)
        == 2
    )


def test_an_average_that_stands_first_is_over_what_follows():
    assert not checked("| Task | Baseline | Compressed |", "| **Average** | 20.0 | 14.0 |", "| A | 10.0 | 8.0 |",
                       "| B | 30.0 | 20.0 |").problems  # fmt: skip


def test_a_recovery_of_averages_that_were_not_rounded_is_right():
    rows = ("| A | 62.62 | 62.79 | |", "| B | 59.51 | 59.73 | |", "| C | 88.76 | 89.19 | |")
    assert not checked(
        "| T | Baseline | Compressed | Recovery |", *rows, "| Average | 70.30 | 70.57 | 100.389 |"
    ).problems


def test_a_misprinted_average_is_named_once_where_its_recovery_is_that_of_the_rows():
    rows = ("| A | 50.0 | 49.0 | 98.0 |", "| B | 70.0 | 60.0 | 85.7 |")
    found = checked("| T | Baseline | Compressed | Recovery |", *rows, "| Average | 62.0 | 54.5 | 90.83 |")
    assert [what.split(";")[0] for *_, what in said(found)] == ["prints an average of 62.0 under 'Baseline'"]


@pytest.mark.parametrize(
    "rows",
    [
        ("| Model | Latency (s) | QPD | Speedup |", "| A | 1.0 | 200 | 1.0 |", "| Average | 9.0 | 3 | 1 |"),
        ("| Task | Model | Correct | Wrong |", "| A | baseline | 20 | 0 |", "| B | compressed | 1 | 2 |"),
        ("| File | Size | Recovery |", "| a.gguf | 4.5 | 99.0 |", "| b.gguf | 3.5 | 91.0 |"),
        ("| Sparsity | strict | flexible | Recovery | Size GiB |", "| 0 % | 50.0 | 51.0 | 100.0 | 8.1 |",
         "| 50 % | 40.0 | 41.0 | 80.0 | 5.1 |"),
        ("| Task | Difference | Recovery above chance |", "| A | -1.0 | 93.0 |", "| B | 2.0 | 101.0 |"),
        ("| Precision | MMLU | GPQA |", "| FP8 | 85 | 81 |", "| FP4 | 84.2 | 80 |"),
    ],
)  # fmt: skip
def test_other_tables_are_left_alone(rows: tuple[str, ...]):
    found = checked(*rows)
    assert not found.problems and found.tables == 0


def test_code_comments_and_front_matter_hold_no_tables():
    table = f"| T | Baseline | Compressed | Recovery |\n|---|---|---|---|\n{WRONG}\n"
    for text in (f"```\n{table}```\n", f"~~~~\n```\n{table}~~~~\n", f"<!--\n{table}-->\n", f"<pre>\n{table}</pre>\n"):
        assert not examine_card(FRONT + text).problems
    assert len(examine_card(FRONT + "> " + table.replace("\n|", "\n> |")).problems) == 1


def test_a_table_that_is_shown_as_text_is_named():
    found = examine_card(FRONT + "| T | Baseline | Compressed | Recovery |\n|---|---|\n" + WRONG + "\n")
    assert [problem.line for problem in found.problems] == [FIRST - 2] and "4 columns" in found.problems[0].what


def test_a_wrong_span_fills_no_memory():
    rows = "".join(f"<tr><td rowspan=99999999 colspan=99999999>{number}" for number in range(300))
    assert not examine_card(f"{FRONT}<table><tr><th>T<th>Baseline<th>Compressed<th>Recovery{rows}</table>\n").problems


def test_words_of_averages():
    for text in (
        "Average",
        "avg.",
        "Average Score",
        "**Average**".strip("*"),
        "Mean",
        "Overall average",
        "Average (5 tasks)",
    ):
        assert is_average(text), text
    for text in ("MMLU average", "AIME24 avg@64", "Meaning", "IFEval (strict avg)", ""):
        assert not is_average(text), text


def test_halves_are_rounded_away_from_nothing():
    assert fixed(read_printed("98.25").value, 1) == "98.3" and fixed(read_printed("-0.05").value, 1) == "-0.1"
