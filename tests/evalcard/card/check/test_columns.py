"""Headers that name a benchmark or a model together with how it was asked, and those that name something else."""

import pytest

from evalcard.card.check.check import examine_card
from evalcard.card.check.columns import role_of

TURNED = """
| Model | MMLU (5-shot) | HumanEval (20 samples) | AIME24 (10 runs) | Size (GB) | Average |
|---|--:|--:|--:|--:|--:|
| Baseline | 60.0 | 50.0 | 40.0 | 16.0 | 50.0 |
| This model | 54.0 | 49.0 | 39.0 | 8.0 | 47.3 |
| Recovery (%) | 99.0 | 98.0 | 97.5 | 50.0 | 94.7 |
"""
UPRIGHT = """
| Benchmark | Baseline (5-shot) | This model (5-shot) | Recovery |
|---|--:|--:|--:|
| MMLU | 60.0 | 54.0 | 99.0 |
| GSM8K | 50.0 | 49.0 | 98.0 |
"""
FRACTIONS = """
| Benchmark | Baseline | Compressed | Recovery |
|---|--:|--:|--:|
| ARC | 0.500 | 0.480 | 0.980 |
| GSM8K | 0.500 | 0.490 | 0.980 |
"""


def errors(table: str) -> list[str]:
    return [one.what for one in examine_card(f"# A card\n{table}").problems if one.level == "error"]


@pytest.mark.parametrize("table", [TURNED, UPRIGHT])
def test_settings_in_a_header_hide_no_benchmark(table: str) -> None:
    (what,) = errors(table)
    assert what.startswith("prints a recovery of 99.0; 54.0 of 60.0 is 90.0")


def test_scores_are_told_as_they_are_printed_beside_fractions() -> None:
    (what,) = errors(FRACTIONS)
    assert what.startswith("prints a recovery of 0.980; 0.480 of 0.500 is 0.960")


@pytest.mark.parametrize(
    ("header", "role"),
    [
        ("Recovery (95 % CI)", "recovery"),
        ("Recovery above chance", "other"),
        ("95 % CI", "other"),
        ("Memory (GiB)", "other"),
        ("Tokens/s", "other"),
        ("Samples", "other"),
        ("Bits per weight", "other"),
        ("Llama-8B (5-shot)", "unknown"),
        ("Llama-8B-FP8 (5-shot)", "quantized"),
        ("MMLU 5-shot", "unknown"),
        ("Baseline, 0-shot", "baseline"),
    ],
)
def test_what_a_header_says(header: str, role: str) -> None:
    assert role_of(header) == role
