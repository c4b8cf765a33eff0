"""Cells with a score and its recovery: read where that is clear, said to be unchecked where it is not."""

import pytest

from evalcard.card.check.check import Checked, examine_card
from evalcard.card.check.pairs import read_pair

FRONT = "---\nlicense: apache-2.0\n---\n\n# Toy\n\n"


def checked(*rows: str) -> Checked:
    rule = "|---" * rows[0].count("|", 1) + "|"
    return examine_card(FRONT + "\n".join([rows[0], rule, *rows[1:]]) + "\n")


def whats(found: Checked) -> list[str]:
    assert all(problem.level == "error" for problem in found.problems)
    return [f"{problem.where.split(', ', 1)[1]} {problem.what.split(' (')[0]}" for problem in found.problems]


STYLES = ["{} ({}%)", "{}({} %)", "{} / {}%", "**{}** ({})", "{} [{}%]", "{} ({}% recovery)", "{} (rec. {}%)",
          "{} ± 0.5 ({} ± 1.2%)", "{}<br>({}%)", "{} (**{}%**)", "{} / {}", "{} ({}%)[^1]",
          "`{}` ({}%) [90.1, 99.2]"]  # fmt: skip


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    "header", ["| Task | BF16 | FP8 |", "| Task | Toy | Toy-X |", "| Task | BF16 | FP8 (recovery) |"]
)
def test_a_recovery_behind_its_score_is_checked(style: str, header: str):
    rows = [
        f"| {name} | {base} | {style.format(score, recovery)} |"
        for name, base, score, recovery in [
            ("A", "60.0", "57.0", "95.0"),
            ("B", "50.0", "49.0", "98.0"),
            ("C", "50.0", "48.0", "98.0"),
            ("Average", "53.3", "51.3", "96.3"),
        ]
    ]
    found = checked(header, *rows)
    assert whats(found) == ["row 'C' prints a recovery of 98.0; 48.0 of 50.0 is 96.0"]
    assert (found.tables, found.recoveries, found.averages) == (1, 4, 1) and not found.notes


def test_one_row_is_enough_where_a_header_or_a_percent_sign_says_it():
    for header, cell in (("FP8 (recovery)", "57.0 (96.0)"), ("FP8", "57.0 (96.0%)"), ("Score / Recovery", "57.0 / 96")):
        assert len(checked(f"| Task | Baseline | {header} |", f"| A | 60.0 | {cell} |").problems) == 1, header
        right = cell.replace("96", "95")
        found = checked(f"| Task | Baseline | {header} |", f"| A | 60.0 | {right} |")
        assert not found.problems and found.recoveries == 1


def test_several_models_with_their_recoveries():
    found = checked(
        "| Task | Base | W8A8 | W4A16 |", "| A | 60.0 | 57.0 (95.0%) | 54.0 (91.0%) |", "| B | 50 | 49 (97%) | - |"
    )
    assert whats(found) == [
        "row 'A' prints a recovery of 91.0; 54.0 of 60.0 is 90.0",
    ] and found.recoveries == 3  # fmt: skip


def test_the_baseline_may_be_known_by_a_recovery_of_100():
    found = checked(
        "| Method | Bits | Toy-8B | Toy-32B |", "| Original | 16 | 0.7076 (100%) | 0.7321 (100%) |",
        "| Pure | 4 | 0.6626 (93.6%) | 0.6901 (94.3%) |", "| Mixed | 5 | 0.6857 (96.9%) | 0.7201 (93.3%) |",
    )  # fmt: skip
    assert whats(found) == ["column 'Toy-32B', model 'Mixed' prints a recovery of 93.3; 0.7201 of 0.7321 is 98.4"]
    assert found.recoveries == 4


@pytest.mark.parametrize(
    ("rows", "is_told"),
    [
        (("| A | 60.0 (1.2) | 57.0 (1.3) |", "| B | 60.0 (0.9) | 58.0 (0.95) |"), False),
        (("| A | 60.0 | 57.0 (-5.0%) |", "| B | 60.0 | 58.0 (↓2.0%) |"), False),
        (("| A | 60.0 | 57.0 (5.0%) |", "| B | 60.0 | 58.0 (3.0%) |"), True),
        (("| A | 60.0 (80.0) | 57.0 (78.0) |", "| B | 60.0 (81.0) | 58.0 (79.0) |"), True),
        (("| A | 60.0% (90.0%) | 57.0% (94.0%) |",), True),
        (("| A | 61.0 (93.0%) | 57.0 (94.0%) |",), True),
        (("| A | 60.0 / 62.0 | 57.0 / 61.0 |", "| B | 60.0 / 62.0 | 57.0 / 61.0 |"), True),
        (("| A | 0.98 | 0.95 (95.00%) |",), True),
        (("| A | 120 (60.0%) | 114 (57.0%) |", "| B | 100 (50.0%) | 98 (49.0%) |"), True),
        (("| A | 60.0 | 57.0 (96.0) |",), True),
        (("| A | 60.0 | 57.0 (55.1-58.2) |", "| B | 60.0 | 57.0 [55.1, 58.2] |"), False),
    ],
)
def test_what_may_be_another_number_is_no_false_alarm(rows: tuple[str, ...], is_told: bool):
    found = checked("| Task | BF16 | FP8 |", *rows)
    assert not found.problems and (found.recoveries, bool(found.notes)) == (0, is_told)
    assert all(note.level == "note" and "'FP8'" in note.what for note in found.notes)


def test_counts_with_their_shares_are_not_told_of():
    header = "| Task | Model | Correct | Wrong | No answer |"
    rows = ["| A | baseline | 250 | 0 | 0 |", "| B | baseline | 247 (98.8 %) | 3 (1.2 %) | 0 |",
            "| B | compressed | 200 (80 %) | 40 (16 %) | 10 (4 %) |"]  # fmt: skip
    assert examine_card(FRONT + "\n".join([header, "|---|---|--:|--:|--:|", *rows]) + "\n").notes == ()
    odd = rows[2].replace("(80 %)", "(90 %)")
    assert examine_card(FRONT + "\n".join([header, "|---|---|--:|--:|--:|", *rows[:2], odd]) + "\n").notes


def test_the_averages_of_unclear_pairs_are_checked_by_their_first_numbers():
    found = checked("| Task | BF16 | FP8 |", "| A | 60.0 | 57.0 (5.0%) |", "| B | 50.0 | 48.0 (3.0%) |",
                    "| Average | 55.0 | 51.5 (4.0%) |")  # fmt: skip
    assert whats(found) == [
        "row 'Average' prints an average of 51.5 under 'FP8'; the mean of the 2 rows it is over is 52.5"
    ]
    assert len(found.notes) == 1


def test_a_ratio_of_perplexities_may_be_meant_either_way():
    rows = ("| wikitext ppl | 6.0 | 6.2 (103.3%) |", "| A | 60.0 | 57.0 (95.0%) |", "| B | 60.0 | 54.0 (91.0%) |")
    found = checked("| Task | Baseline | FP8 |", *rows)
    assert whats(found) == ["row 'B' prints a recovery of 91.0; 54.0 of 60.0 is 90.0"]


@pytest.mark.parametrize(
    "text", ["57.0", "57.0 (-1.0%)", "57.0 (+1.0)", "57.0 (a)", "57.0 (1/2)", "(96%)", "5" * 300, ""]
)
def test_no_pairs(text: str):
    assert read_pair(text) is None
