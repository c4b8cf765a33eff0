"""A foot that is an average by its figures, recoveries whose header names their model, tables inside of tables."""

import pytest

from evalcard.card.check.check import Checked, examine_card

FRONT = "---\nlicense: apache-2.0\n---\n\n# Toy\n\n"
ROWS = ("| a | 50.0 | 49.0 |", "| b | 60.0 | 58.0 |", "| c | 90.0 | 88.0 |")


def checked(*rows: str) -> Checked:
    rule = "|---" * rows[0].count("|", 1) + "|"
    return examine_card(FRONT + "\n".join([rows[0], rule, *rows[1:]]) + "\n")


def whats(found: Checked) -> list[str]:
    return [problem.what.split(";")[0] for problem in found.problems]


@pytest.mark.parametrize(
    "label", ["Overall", "**Overall score**", "Total", "OpenLLM Average", "Leaderboard v2 avg. score"]
)
def test_a_foot_of_which_one_column_is_the_mean(label: str):
    header = "| Benchmark | Baseline | W4A16 |"
    found = checked(header, *ROWS, f"| {label} | 66.67 | 66.00 |")
    assert whats(found) == ["prints an average of 66.00 under 'W4A16'"] and found.averages == 1
    assert not checked(header, *ROWS, f"| {label} | 66.67 | 65.00 |").problems
    # With a recovery of it below, or beside it.
    found = checked(header, *ROWS, f"| {label} | 66.67 | 65.00 |", "| Recovery | 100 | 99.5 |")
    assert whats(found) == ["prints a recovery of 99.5"]


@pytest.mark.parametrize(
    ("label", "scores"),
    [
        ("Overall", "70.00 | 66.00"),
        ("Total", "200.0 | 195.0"),
        ("Weighted average", "66.67 | 66.00"),
        ("IFEval avg@4", "66.67 | 66.00"),
        ("GPQA", "66.67 | 66.00"),
        ("Overall", "66.67 | -"),
    ],
)
def test_any_other_foot_is_no_average(label: str, scores: str):
    found = checked("| Benchmark | Baseline | W4A16 |", *ROWS, f"| {label} | {scores} |")
    assert not found.problems and found.averages == 0


def test_it_is_an_average_only_at_the_foot():
    rows = (ROWS[0], ROWS[1], "| X average | 55.00 | 50.00 |", ROWS[2])
    found = checked("| Benchmark | Baseline | W4A16 |", *rows)
    assert not found.problems and found.averages == 0


def test_of_several_models_and_in_a_column():
    found = checked("| Benchmark | Baseline | W8A8 | W4A16 |", "| a | 50 | 49 | 48 |", "| b | 60 | 59 | 50 |",
                    "| Overall | 57 | 54 | 47 |")  # fmt: skip
    assert whats(found) == ["prints an average of 57 under 'Baseline'", "prints an average of 47 under 'W4A16'"]
    found = checked("| Model | MMLU | GSM8K | Overall |", "| Baseline | 60.0 | 50.0 | 55.0 |",
                    "| FP8 | 57.0 | 49.0 | 54.0 |")  # fmt: skip
    assert whats(found) == ["prints an average of 54.0 under 'FP8'"]


@pytest.mark.parametrize(
    ("models", "recoveries", "cells"),
    [
        (("Llama-3", "Llama-3-GPTQ", "Llama-3-AWQ"), ("Recovery GPTQ", "Recovery AWQ"), "50.0 | 49.0 | 48.0 | 98 | 91"),
        (("Llama-3", "Llama-3-GPTQ", "Llama-3-AWQ"), ("AWQ recovery (%)", "GPTQ recovery vs Llama-3"),
         "50.0 | 49.0 | 48.0 | 91 | 98"),
        (("Beta", "Alpha", "Gamma"), ("Recovery Beta", "Recovery of Gamma"), "49.0 | 50.0 | 48.0 | 98 | 91"),
        (("Toy", "Toy-X", "Toy-Y"), ("Recovery", "Recovery 2"), "50.0 | 49.0 | 48.0 | 98 | 91"),
    ],
)  # fmt: skip
def test_a_recovery_that_names_its_model_needs_no_figures_to_confirm_it(
    models: tuple[str, ...], recoveries: tuple[str, str], cells: str
):
    found = checked(f"| Task | {' | '.join((*models, *recoveries))} |", f"| MMLU | {cells} |")
    assert whats(found) == ["prints a recovery of 91"] and found.recoveries == 2
    assert not checked(
        f"| Task | {' | '.join((*models, *recoveries))} |", f"| MMLU | {cells.replace('91', '96')} |"
    ).problems


INNER = (
    "<table><tr><th>Task</th><th>Baseline</th><th>Compressed</th><th>Recovery</th></tr>\n"
    "<tr><td>a</td><td>50.0</td><td>49.0</td><td>{}</td></tr></table>"
)


def test_tables_in_a_table_for_layout_are_read():
    page = f"<table><tr><td>Scores\n{INNER.format('98.0')}</td><td>{INNER.format('97.0')}\n</td></tr></table>\n"
    found = examine_card(FRONT + page)
    (problem,) = found.problems
    assert whats(found) == ["prints a recovery of 97.0"] and found.tables == 2
    assert problem.line == FRONT.count("\n") + 4 and "table on line 9" in problem.where


def test_a_table_in_a_cell_is_no_text_of_it():
    cell = "<td>98.0<table><tr><td>1</td></tr></table></td>"
    found = examine_card(FRONT + INNER.format("X").replace("<td>X</td>", cell) + "\n")
    assert not found.problems and found.recoveries == 1


def test_tables_in_tables_without_end_take_no_time():
    assert not examine_card(FRONT + "<table><tr><td>" * 3000 + "\n").problems
