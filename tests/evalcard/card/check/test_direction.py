"""Rows that are lower-is-better without saying so, costs, and names that tell nothing."""

import pytest

from evalcard.card.check.check import Checked, examine_card
from evalcard.card.check.direction import direction_of

FRONT = "---\nlicense: apache-2.0\n---\n\n# Toy\n\n"
HEADER = "| Metric | BF16 | INT8 | Recovery |"


def checked(*rows: str) -> Checked:
    rule = "|---" * rows[0].count("|", 1) + "|"
    return examine_card(FRONT + "\n".join([rows[0], rule, *rows[1:]]) + "\n")


COSTS = ("Latency", "TTFT (ms)", "TPOT", "Decode (ms)", "Prefill, seconds", "Load time", "Memory", "Weights (GB)",
         "Energy (J)", "Cost", "GPU VRAM", "Toxicity", "Time to first token (s)")  # fmt: skip


@pytest.mark.parametrize("label", COSTS)
def test_of_a_cost_either_ratio_is_right_and_any_other_number_is_wrong(label: str):
    for recovery, wrong in (("150", 0), ("67", 0), ("110", 1)):
        found = checked(HEADER, f"| {label} | 12.0 | 8.0 | {recovery}% |")
        assert [one.level for one in found.problems] == ["error"] * wrong, recovery
        assert found.recoveries == 1


@pytest.mark.parametrize("label", ["Hallucination rate", "MAE", "RMSE", "Test MSE", "CER", "Failure rate", "Eval loss",
                                   "GSM8K error rate", "False positives"])  # fmt: skip
def test_measures_of_which_less_is_more(label: str):
    assert not checked(HEADER, f"| {label} | 10.0 | 12.0 | 83.3 |").problems
    (problem,) = checked(HEADER, f"| {label} | 10.0 | 12.0 | 120.0 |").problems
    assert problem.level == "error" and "where lower is better" in problem.what


def test_a_name_that_states_no_direction_gets_a_warning_where_the_ratio_is_turned_round():
    (problem,) = checked(HEADER, "| Foo score | 10.0 | 12.0 | 83.3 |").problems
    assert problem.level == "warning" and "higher is better" not in problem.message
    assert "say in the row that lower is better" in problem.advice
    (problem,) = checked(HEADER, "| Foo score | 10.0 | 12.0 | 85.3 |").problems
    assert problem.level == "error"


@pytest.mark.parametrize(
    "label", ["MMLU (5-shot)", "Foo accuracy", "Foo, exact_match", "Foo ↑", "Throughput (tokens/s)"]
)
def test_a_name_that_states_it_keeps_its_error(label: str):
    (problem,) = checked(HEADER, f"| {label} | 10.0 | 12.0 | 83.3 |").problems
    assert problem.level == "error" and "here higher is better" in problem.advice


def test_the_header_of_the_recovery_or_the_rows_of_an_average_state_it_too():
    (problem,) = checked(HEADER.replace("Rec", "Accuracy rec"), "| Foo | 10.0 | 12.0 | 83.3 |").problems
    assert problem.level == "error"
    rows = ("| MMLU | 10.0 | 12.0 | 120.0 |", "| GSM8K | 20.0 | 24.0 | 120.0 |")
    (problem,) = checked(HEADER, *rows, "| Average | 15.0 | 18.0 | 83.3 |").problems
    assert problem.level == "error"


def test_recoveries_of_costs_as_fractions():
    rows = ("| MMLU | 50.0 | 49.0 | 0.980 |", "| Latency (ms) | 12.0 | 8.0 | {} |")
    for recovery, wrong in (("1.50", 0), ("0.67", 0), ("1.10", 1)):
        assert len(checked(HEADER, rows[0], rows[1].format(recovery)).problems) == wrong, recovery


def test_costs_are_in_no_average_of_scores():
    rows = ("| MMLU | 50.0 | 40.0 |", "| GSM8K | 60.0 | 50.0 |", "| Latency (ms) | 12.0 | 8.0 |")
    found = checked("| Metric | BF16 | INT8 |", *rows, "| Average | 55.0 | 45.0 |")
    assert not found.problems and found.averages == 1


def test_a_measure_says_more_than_its_benchmark():
    told = {text: direction_of(text) for text in ("MMLU", "MMLU loss", "GSM8K latency (ms)", "MMLU accuracy loss",
                                                  "Hallucination detection accuracy", "Foo")}  # fmt: skip
    assert list(told.values()) == ["higher", "lower", "either", "lower", "higher", "unsaid"]
