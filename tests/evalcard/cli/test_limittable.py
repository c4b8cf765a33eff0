"""The table of limits: no outcome and no figure is cut, and names wrap at hyphens, underscores and blanks."""

import io
from itertools import product

import pytest
from rich.console import Console

from evalcard.cli.limittable import print_limits
from evalcard.gate.verdict import GateVerdict, LimitVerdict, ModelVerdict


def verdict(slug: str, row: str, kind: str, at: float) -> GateVerdict:
    limits = [
        LimitVerdict.model_validate(
            {"scope": "task", "name": row, "kind": kind, "limit": at, "outcome": outcome, "value": 98.5, "low": -97.25,
             "high": 104.5, "reason": "why"}
        )
        for outcome in ("PASS", "FAIL", "INCONCLUSIVE", "CANNOT_JUDGE")
    ]  # fmt: skip
    model = ModelVerdict(model=slug, outcome="FAIL", limits=limits, reasons=[])
    facts = {"outcome": "FAIL", "exit_code": 1, "decide": "interval", "confidence": 0.95, "reasons": []}
    return GateVerdict.model_validate(facts | {"models": [model]})


def printed(word: GateVerdict, width: int) -> list[str]:
    out = io.StringIO()
    print_limits(word, {}, Console(file=out, width=width))
    return out.getvalue().splitlines()


@pytest.mark.parametrize("kind", ["min_recovery", "max_drop", "min_score"])
@pytest.mark.parametrize("at", [97.5, 101.0, 2.0])
@pytest.mark.parametrize("width", [40, 60, 80])
def test_no_outcome_is_cut(kind: str, at: float, width: int):
    for slug, row in product(("w4a16", "evalcard-demo-w4a16", "Qwen3-0.6B-Instruct-w4a16-1f3a"), ("arc", "demo_words")):
        text = "\n".join(printed(verdict(slug, row, kind, at), width))
        outcomes = [line.split("  ")[-1].strip() for line in text.splitlines() if "98.50" in line]
        assert outcomes == ["PASS", "FAIL", "INCONCLUSIVE", "CANNOT JUDGE"], text
        assert text.count("[-97.25, 104.50]") == 4, text


def test_names_wrap_at_their_own_signs_only():
    row, slug = "leaderboard_math_intermediate_algebra", "Qwen3-30B-A3B-Instruct-2507-w4a16"
    lines = printed(verdict(slug, row, "min_recovery", 97.5), 80)
    assert max(map(len, lines)) <= 80
    first = [line[: line.index("recovery")].split() for line in lines if "PASS" in line]
    (row_part, slug_part) = first[0]
    assert row.startswith(row_part) and row_part.endswith("_") and slug.startswith(slug_part)
    assert slug_part.endswith("-")
    wide = printed(verdict(slug, row, "min_recovery", 97.5), 160)
    assert f"{row}  {slug}  recovery >= 97.5 %" in wide[3]
