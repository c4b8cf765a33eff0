"""Models on rows with a column of recoveries: the one with 100 is the baseline."""

import pytest

from evalcard.card.check.check import Checked, examine_card

FRONT = "---\nlicense: apache-2.0\n---\n\n# Toy\n\n"
HEADER = "| Model | MMLU | GSM8K | Recovery |"
BASE = "| Qwen3-8B | 71.95 | 87.0 | 100% |"


def checked(*rows: str) -> Checked:
    rule = "|---" * rows[0].count("|", 1) + "|"
    return examine_card(FRONT + "\n".join([rows[0], rule, *rows[1:]]) + "\n")


def whats(found: Checked) -> list[str]:
    return [problem.what.split(" (")[0] for problem in found.problems]


@pytest.mark.parametrize("right", ["99.2%", "99.16%"])
def test_recoveries_of_the_means_of_the_columns(right: str):
    """71.50 and 86.1 have a mean of 78.80; 69.95 and 83.5 one of 76.725; 71.95 and 87.0 one of 79.475: by a
    calculator, 99.15 and 96.54; the mean of the recoveries 99.17 and 96.60."""
    rows = (BASE, f"| Qwen3-8B-FP8 | 71.50 | 86.1 | {right} |")
    for number in ("96.5%", "96.6%"):
        found = checked(HEADER, *rows, f"| Qwen3-8B-INT4 | 69.95 | 83.5 | {number} |")
        assert not found.problems and not found.notes and found.recoveries == 2, number
    found = checked(HEADER, *rows, "| Qwen3-8B-INT4 | 69.95 | 83.5 | 98.5% |")
    assert whats(found) == ["prints a recovery of 98.5; 76.725 of 79.475 is 96.5"]
    assert "means of the 2 columns" in found.problems[0].what
    assert found.problems[0].where.endswith("column 'Recovery', model 'Qwen3-8B-INT4'")


def test_recoveries_that_none_of_the_figures_confirm_get_a_note():
    found = checked(HEADER, BASE, "| A | 71.50 | 86.1 | 97.0% |", "| B | 69.95 | 83.5 | 98.5% |")
    assert not found.problems and found.recoveries == 0
    assert "its recoveries were not checked" in found.notes[0].what
    found = checked(HEADER, BASE, "| A | 71.50 | 86.1 | 97.0% |")
    assert not found.problems and len(found.notes) == 1


def test_a_single_benchmark_where_lower_is_better():
    header, base = "| Quant | Size | PPL | Recovery |", "| BF16 | 16.0 GB | 6.14 | 100% |"
    found = checked(header, base, "| Q8_0 | 8.5 GB | 6.15 | 99.8% |", "| Q4_K_M | 4.9 GB | 6.50 | 99.5% |")
    assert whats(found) == ["prints a recovery of 99.5; where lower is better 6.14 over 6.50 is 94.5"]
    assert not checked(header, base, "| Q4_K_M | 4.9 GB | 6.50 | 94.5% |").problems


def test_it_may_stand_anywhere_and_in_a_row_of_recoveries():
    found = checked("| Task | X | Y | Z |", "| MMLU | 48.0 | 50.0 | 49.0 |", "| Recovery | 96.0 | 100.0 | 99.0 |")
    assert whats(found) == ["prints a recovery of 99.0; 49.0 of 50.0 is 98.0"] and found.recoveries == 2


def test_recoveries_as_fractions():
    found = checked("| Model | MMLU | Recovery |", "| X | 50.0 | 1.00 |", "| Y | 49.0 | 0.98 |", "| Z | 48.0 | 0.98 |")
    assert whats(found) == ["prints a recovery of 0.98; 48.0 of 50.0 is 0.96"]


def test_fractions_of_the_means():
    rows = ("| X | 50.0 | 60.0 | 1.00 |", "| Y | 49.0 | 57.0 | 0.964 |", "| Z | 48.0 | 57.0 | 0.905 |")
    found = checked("| Model | MMLU | GSM8K | Recovery |", *rows)
    assert whats(found) == ["prints a recovery of 0.905; 52.50 of 55.00 is 0.955"]


def test_two_models_with_100():
    rows = ("| Toy | 50.0 | 100.0 |", "| Toy-FP8 | 50.0 | 100.0 |", "| Toy-X | 48.0 | 98.0 |")
    assert whats(checked("| Model | MMLU | Recovery |", *rows)) == ["prints a recovery of 98.0; 48.0 of 50.0 is 96.0"]
    unclear = [row.replace("Toy |", "Foo |") for row in rows]
    found = checked("| Model | MMLU | Recovery |", *unclear)
    assert not found.problems and found.tables == 0 and found.notes


def test_scores_and_perplexities_side_by_side():
    header = "| Model | MMLU | GSM8K | PPL | Recovery |"
    rows = ("| Foo | 50.0 | 60.0 | 6.0 | 100 |", "| A | 49.0 | 57.0 | 6.6 | 96.4 |")
    assert not checked(header, *rows, "| B | 48.0 | 57.0 | 6.2 | 95.5 |").problems
    assert whats(checked(header, *rows, "| B | 48.0 | 57.0 | 6.2 | 90.5 |")) == [
        "prints a recovery of 90.5; 52.50 of 55.00 is 95.5"
    ]
