"""Tables with a model on each row: read like the others, and told of by column and model."""

from pathlib import Path

import pytest

from evalcard.card.check.check import Checked, examine_card

FRONT = "---\nlicense: apache-2.0\n---\n\n# Toy\n\n"


def checked(*rows: str) -> Checked:
    rule = "|---" * rows[0].count("|", 1) + "|"
    return examine_card(FRONT + "\n".join([rows[0], rule, *rows[1:]]) + "\n")


def places(found: Checked) -> list[str]:
    assert all("row" not in problem.message for problem in found.problems), found.problems
    return [f"{problem.where.split(', ', 1)[1]}: {problem.what.split(';')[0]}" for problem in found.problems]


@pytest.mark.parametrize("label", ["Recovery", "**Recovery (%)**", "Recovery %", "Accuracy recovery"])
@pytest.mark.parametrize("names", [("Baseline", "This model"), ("Qwen3-8B", "Qwen3-8B-FP8"), ("Toy", "Toy-X")])
def test_a_row_of_recoveries(label: str, names: tuple[str, str]):
    found = checked(
        "| Model | MMLU | GSM8K (8-shot) | IFEval |", f"| {names[0]} | 60.0 | 50.0 | 40.0 |",
        f"| {names[1]} | 57.0 | 49.0 | n/a |", f"| {label} | 95.0% | 99.0% | - |",
    )  # fmt: skip
    assert places(found) == [f"column 'GSM8K (8-shot)', model '{names[1]}': prints a recovery of 99.0"]
    assert (found.tables, found.recoveries) == (1, 2)


def test_headers_that_say_nothing_have_to_be_confirmed():
    rows = ("| Alpha | 60.0 | 50.0 |", "| Beta | 57.0 | 49.0 |", "| Recovery | 97.0 | 91.0 |")
    found = checked("| Model | MMLU | GSM8K |", *rows)
    assert not found.problems and found.tables == 0 and "was not checked" in found.notes[0].what


def test_a_recovery_below_each_of_several_models():
    found = checked(
        "| | MMLU | GSM8K |", "| Baseline | 60.0 | 50.0 |", "| W8A8 | 57.0 | 49.0 |", "| Recovery | 95.0 | 98.0 |",
        "| W4A16 | 54.0 | 45.0 |", "| Recovery | 90.0 | 91.0 |",
    )  # fmt: skip
    assert places(found) == ["column 'GSM8K', model 'W4A16': prints a recovery of 91.0"] and found.recoveries == 4


def test_an_average_in_a_column():
    found = checked("| Model | MMLU | GSM8K | Average |", "| BF16 | 60.0 | 50.0 | 55.5 |", "| FP8 | 57.0 | 49.0 | 53 |")
    (problem,) = found.problems
    assert problem.where.endswith("column 'Average', model 'BF16'") and problem.line == 9
    assert "the mean of the 2 columns it is over is 55.0" in problem.what and "which columns" in problem.advice


@pytest.mark.parametrize("names", [("MMLU Recovery", "GSM8K Recovery (%)"), ("Recovery", "Recovery")])
def test_a_column_of_recoveries_beside_each_benchmark(names: tuple[str, str]):
    found = checked(
        f"| Model | MMLU | {names[0]} | GSM8K | {names[1]} | Average |",
        "| Baseline | 60.0 | 100 | 50.0 | 100 | 55.0 |",
        "| FP8 | 57.0 | 95.0 | 49.0 | 99.0 | 53.0 |",
    )  # fmt: skip
    ((place),) = places(found)
    assert (
        place.startswith("column '") and "GSM8K" in place and place.endswith("model 'FP8': prints a recovery of 99.0")
    )
    assert (found.recoveries, found.averages) == (2, 1)


def test_two_header_rows():
    head = (
        "<tr><th rowspan=2>Model</th><th colspan=2>MMLU</th><th colspan=2>GSM8K</th></tr>"
        "<tr><th>Score</th><th>Recovery</th><th>Score</th><th>Recovery</th></tr>"
    )
    body = "<tr><td>Baseline<td>60.0<td>100<td>50.0<td>100<tr><td>FP8<td>57.0<td>96.0<td>49.0<td>98.0"
    found = examine_card(f"{FRONT}<table><thead>{head}</thead><tbody>{body}</tbody></table>\n")
    assert places(found) == ["column 'MMLU Recovery', model 'FP8': prints a recovery of 96.0"] and found.recoveries == 2


def test_a_baseline_for_each_group_of_rows():
    groups = (("Toy-7B", "FP16", "60.0", "50.0", "55.0"), ("", "GPTQ", "58.0", "48.0", "52.0"),
              ("Toy-13B", "FP16", "40.0", "50.0", "45.0"), ("", "GPTQ", "38.0", "48.0", "43.0"))  # fmt: skip
    found = checked("| | | MMLU | Lambada | Avg. |", *(f"| {' | '.join(row)} |" for row in groups))
    assert places(found) == ["column 'Avg.', model 'GPTQ': prints an average of 52.0 under 'GPTQ'"]


def test_no_average_over_perplexities_ranks_and_scores():
    found = checked(
        "| Quant | Rank | PPL | KLD | Avg Acc | ARC | MMLU |", "| F16 | 2 | 8.10 | 0.000 | 55.0 | 60.0 | 50.0 |",
        "| Q4_K_M | 1 | 8.30 | 0.020 | 53.0 | 58.0 | 48.0 |",
    )  # fmt: skip
    assert not found.problems and found.averages == 1


def test_an_average_recovery_may_be_the_mean_of_recoveries():
    rows = ("| A | 60.0 | 57.0 |", "| B | 10.0 | 12.0 |", "| Average | 35.0 | 34.5 |")
    for label, number, wrong in (("Average Recovery", "107.5", 0), ("Average Recovery", "98.6", 0),
                                 ("Average Recovery", "103.0", 1), ("Recovery", "107.5", 1)):  # fmt: skip
        found = checked("| Task | Baseline | FP8 |", *rows, f"| {label} | 100 | {number} |")
        assert len(found.problems) == wrong, (label, number)


def test_differences_are_left_alone():
    rows = ("| A | 60.0 | 57.0 | -9.0 | 95.0% |", "| B | 60.0 | 54.0 | -6.0 | 91.0% |")
    (problem,) = checked("| Task | BF16 | FP8 | Δ | Recovery |", *rows).problems
    assert "91.0" in problem.what


def test_a_table_beyond_all_bounds_takes_no_minutes():
    wide = checked(f"| T |{' BF16 |' * 3000}", *[f"| A |{' 50.0 (95.0%) |' * 3000}"] * 5)
    tall = checked("| T | Baseline | FP8 |", *["| A | 50.0 | 48.0 |", "| A recovery | 100 | 96.0 |"] * 2000)
    for found in (wide, tall):
        assert not found.problems and found.tables == 0 and "it was not checked: it has" in found.notes[0].what


def test_a_note_is_printed_and_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    from evalcard.cli.checked import check

    card = tmp_path / "README.md"
    card.write_text(f"{FRONT}| Task | BF16 | FP8 |\n|---|---|---|\n| A | 60.0 | 57.0 (96.0) |\n", encoding="utf-8")
    assert check(str(card), tmp_path) == 0
    assert f"{card}:7: note: table on line 7: cells under 'FP8' hold two numbers" in capsys.readouterr().out


def test_recoveries_without_scores_have_nothing_to_follow_from():
    rows = ["| Toy | 16.00 | - | - | - |", "| Toy w8a8 | 8.06 | 99.80 % [98.1, 101.5] | 1 | 0 |"]
    assert checked("| Model | Bits per weight | Recovery, Maths | Lost | Gained |", *rows).notes == ()
    assert checked(
        "| Model | Task | Score | Recovery, Maths |", "| Toy | A | 60.0 | - |", "| Toy 8 | B | 57.0 | 95.0 |"
    ).notes
