"""The gate's word on a terminal: every limit in a table of 80 columns, and below it only what the table lacks."""

import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from evalcard.cli.verdict import print_verdict
from evalcard.gate.calibration import NOT_CALIBRATED
from evalcard.gate.verdict import EXIT_CODES, GateVerdict, LimitVerdict, ModelVerdict
from evalcard.results.records import ModelRecord


def limit(name: str = "gsm8k", outcome: str = "PASS", **facts: Any) -> LimitVerdict:
    said = {"scope": "task", "name": name, "kind": "min_recovery", "limit": 97.0, "outcome": outcome, "value": 98.5,
            "low": 97.2, "high": 99.9, "reason": f"why {name} is {outcome}"}  # fmt: skip
    return LimitVerdict.model_validate(said | facts)


def verdict(outcome: str, *models: tuple[str, str, list[LimitVerdict], list[str]], **facts: Any) -> GateVerdict:
    made = [ModelVerdict(model=slug, outcome=word, limits=limits, reasons=why) for slug, word, limits, why in models]  # type: ignore[arg-type]
    said = {"outcome": outcome, "exit_code": EXIT_CODES[outcome], "decide": "interval", "confidence": 0.95,
            "models": made, "reasons": []}  # fmt: skip
    return GateVerdict.model_validate(said | facts)


def printed(word: GateVerdict, width: int = 80, **options: Any) -> str:
    out = io.StringIO()
    print_verdict(word, console=Console(file=out, width=width, **options))
    return out.getvalue()


def test_every_limit_has_a_line_with_figures_and_outcome():
    limits = [
        limit(),
        limit("arc", "FAIL", value=94.0, low=91.25, high=96.5),
        limit("maths", "PASS", scope="average", limit=96.5),
        limit("overall", "PASS", scope="overall", kind="max_drop", limit=1.0, value=0.25, low=-0.5, high=0.75),
        limit("mmlu", "PASS", kind="min_score", limit=60.0, value=71.0, low=70.0, high=None),
    ]
    lines = printed(verdict("FAIL", ("toy-w8a8", "FAIL", limits, []))).splitlines()
    assert lines[0] == "FAIL: 5 limits, 4 PASS, 1 FAIL; decided by intervals at 95 % confidence"
    text = "\n".join(lines)
    assert re.search(r"gsm8k +toy-w8a8 +recovery >= 97 % +98.50 % +PASS\n +\[97.20, 99.90\]\n", text)
    assert re.search(r"arc +toy-w8a8 +recovery >= 97 % +94.00 % +FAIL\n +\[91.25, 96.50\]\n", text)
    assert re.search(r"average of maths +toy-w8a8 +recovery >= 96.5 % +98.50 % +PASS\n", text)
    assert re.search(r"overall average +toy-w8a8 +drop <= 1 point +0.25 +PASS\n +\[-0.50, 0.75\]\n", text)
    assert re.search(r"mmlu +toy-w8a8 +score >= 60 % +71.00 % +PASS\n +\[70.00, ∞\)", text)
    assert lines[-1] == "  arc, toy-w8a8: why arc is FAIL: its whole interval is."
    assert text.count("why") == 1, "of what passed the table says it all"


def test_reasons_that_the_table_lacks_are_said_once():
    undecided = limit("gsm8k", "INCONCLUSIVE", reason="about 300 more items would decide")
    broken = limit("arc", "CANNOT_JUDGE", value=None, low=None, high=None, reason="no recovery: at chance")
    doubt = "gsm8k: 40 % of the answers were cut off."
    word = verdict(
        "CANNOT_JUDGE",
        ("a", "CANNOT_JUDGE", [undecided, broken], [doubt]),
        ("b", "CANNOT_JUDGE", [limit(), broken], [doubt]),
        notes=["gsm8k: the baseline moved."],
    )
    text = printed(word)
    assert "  gsm8k, a: about 300 more items would decide.\n" in text
    assert text.count("no recovery: at chance") == 1 and "  arc, a, b: no recovery: at chance.\n" in text
    assert text.count(doubt) == 1
    assert text.endswith("  note: gsm8k: the baseline moved.\n")
    assert re.search(r"arc +a +recovery >= 97 % +– +CANNOT JUDGE\n", text), "undefined is a dash, never 0"


def test_without_a_model_the_reasons_stand_alone():
    word = verdict("CANNOT_JUDGE", reasons=["gsm8k [strict]: no recovery"])
    assert printed(word).splitlines() == ["CANNOT JUDGE", "  gsm8k [strict]: no recovery"]


def test_point_values_are_called_what_they_are():
    text = printed(verdict("PASS", ("a", "PASS", [limit()], []), decide="point"))
    assert text.splitlines()[0] == "PASS: 1 limit, 1 PASS; decided by point values"


@pytest.mark.parametrize(("value", "limit_at", "shown"), [(96.9999, 97.0, "96.9999"), (97.0, 97.0, "97.00")])
def test_a_figure_stands_on_its_side_of_the_limit(value: float, limit_at: float, shown: str):
    outcome = "PASS" if value >= limit_at else "FAIL"
    one = limit("row", outcome, value=value, limit=limit_at, low=value, high=value)
    text = printed(verdict(outcome, ("a", outcome, [one], [])))
    assert re.search(rf" {shown} % +{outcome}\n +\[{shown}, {shown}\]", text)


def test_no_line_is_too_long_or_ends_in_blanks_and_no_text_is_lost():
    name, slug = "a_row_with_a_rather_long_name_indeed_and_more", "Some-Model-With-A-Long-Name-70B-Instruct-w4a16"
    limits = [limit(name, "INCONCLUSIVE", limit=97.123456, reason="it is not known " * 20), limit()]
    text = printed(verdict("INCONCLUSIVE", (slug, "INCONCLUSIVE", limits, ["b" * 100 + " end"]), notes=["n " * 90]))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80 and [line for line in lines if line != line.rstrip()] == []
    column = "".join(line[: line.find("  ")] if "  " in line else line for line in lines[4:])
    assert name in column.replace(" ", "")
    assert "INCONCLUSIVE" in text and "97.123456" in text and "97.20" in text


def test_names_and_reasons_are_data():
    hostile = "x[bold]y[/]\x1b[31m\x9b2J\nz"
    one = limit(hostile, "INCONCLUSIVE", reason=hostile)
    word = verdict("INCONCLUSIVE", (hostile, "INCONCLUSIVE", [one], [hostile]), notes=[hostile])
    text = printed(word, width=200)
    assert "\x1b" not in text and "\x9b" not in text
    assert text.count("x[bold]y[/]\\x1b[31m\\x9b2J z") == 7, (
        "row, model, the three parts of its reason, the model's reason, the note"
    )


def test_colour_on_a_terminal_and_none_where_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch):
    word = verdict("FAIL", ("a", "FAIL", [limit("row", "FAIL")], []))
    assert "\x1b[1;31mFAIL" in printed(word, force_terminal=True, color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    shown = printed(word, force_terminal=True)
    assert "31m" not in shown and "FAIL" in shown
    assert "\x1b" not in printed(word)


def test_a_model_is_called_by_its_shortest_name_that_is_its_own():
    def model(slug: str, role: str, scheme: str | None) -> ModelRecord:
        return ModelRecord.model_validate(
            {"slug": slug, "role": role, "name": "acme/toy", "hub_id": None, "revision": None, "scheme": scheme,
             "weights_digest": slug, "tokenizer_digest": "t", "template_digest": None, "numerics": "n"}
        )  # fmt: skip

    models = [model("toy", "baseline", None), model("a-w4a16", "compressed", "w4a16"), model("c", "compressed", "w8a8")]
    out = io.StringIO()
    word = verdict("PASS", ("a-w4a16", "PASS", [limit()], []), ("c", "PASS", [limit()], []))
    print_verdict(word, models, Console(file=out, width=80))
    assert re.search(r"gsm8k +w4a16 +recovery", out.getvalue()) and "a-w4a16" not in out.getvalue()
    out = io.StringIO()
    print_verdict(word, [*models, model("b", "compressed", "w4a16")], Console(file=out, width=80))
    assert re.search(r"gsm8k +a-w4a16 +recovery", out.getvalue()), "two of that scheme"


def test_the_run_and_where_its_limits_are_from_are_said_first():
    word = verdict(
        "INCONCLUSIVE", ("a", "INCONCLUSIVE", [limit("arc", "INCONCLUSIVE")], []),
        run="arc-0a1b", finished="2026-03-04T05:06:07+00:00", limits_from="no limit was given: 99 % of every row",
    )  # fmt: skip
    assert printed(word).splitlines()[:3] == [
        "INCONCLUSIVE: run arc-0a1b of 2026-03-04 05:06 UTC",
        "  1 limit, 1 INCONCLUSIVE; decided by intervals at 95 % confidence",
        "  no limit was given: 99 % of every row",
    ]
    out = io.StringIO()
    print_verdict(word, console=Console(file=out, width=100), on_inconclusive="pass")
    first = "INCONCLUSIVE, let through by --on-inconclusive pass: run arc-0a1b of 2026-03-04 05:06 UTC"
    assert out.getvalue().splitlines()[0] == first


@pytest.mark.parametrize(
    ("reasons", "said"),
    [
        (["arc: cut off."], "held back by 1 finding;"),
        (["arc: cut off.", "arc: repeats."], "held back by 2 findings;"),
        ([f"a: {NOT_CALIBRATED}: its limits were set for b."], "held back as the gate was set for other models;"),
    ],
)
def test_what_holds_passes_back_is_said_beside_their_number(reasons: list[str], said: str):
    word = verdict("INCONCLUSIVE", ("a", "INCONCLUSIVE", [limit(), limit("arc")], reasons))
    first = " ".join(printed(word).split("\n\n")[0].split())
    assert f"INCONCLUSIVE: 2 limits, 2 PASS, {said} decided by" in first


def test_a_failure_says_once_what_to_do_next(tmp_path: Path):
    failed = ("a", "FAIL", [limit("arc", "FAIL"), limit("sums", "FAIL")], [])
    folder = tmp_path / ("a long name " * 8).strip()
    out = io.StringIO()
    print_verdict(verdict("FAIL", failed), console=Console(file=out, width=80), folder=folder)
    assert out.getvalue().splitlines()[-2:] == [
        f"  next: read the card, {folder}/README.md",
        f"  next: see what was lost, evalcard compare '{folder}' --flips 5",
    ]
    out = io.StringIO()
    print_verdict(verdict("PASS", ("a", "PASS", [limit()], [])), console=Console(file=out, width=80), folder=folder)
    assert "next" not in out.getvalue()
