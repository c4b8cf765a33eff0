"""The short Markdown table: figures as on the card, names that stay in their cells."""

import re
from typing import Any

from markdown_it import MarkdownIt

from evalcard.card.formats.render import format_run
from evalcard.card.tables import row_view


def cells(line: str) -> list[str]:
    return [cell.strip().replace("\u00a0", " ") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_every_row_stands_with_the_cards_own_figures(make_case: Any):
    run, comparison = make_case()
    text = format_run(run, comparison, "table")
    lines = {row[0]: row for row in map(cells, text.splitlines()) if len(row) == 8}
    view = row_view(run, comparison.tasks[0], "toy-1b-w8a8")
    assert lines["arc"][1:] == [
        view.items, view.baseline, view.compressed, view.recovery.removesuffix(" %"), view.interval, view.lost,
        view.gained,
    ]  # fmt: skip
    assert {"facts", "sums", "riddles", "**average of knowledge**", "**overall average**"} <= lines.keys()
    assert lines["**overall average**"][6:] == ["", ""]
    assert text.startswith("**toy-1b w8a8** beside toy-1b\n") and text.endswith("\n")


def test_each_compressed_model_has_a_table_and_the_gate_its_word(make_case: Any):
    from evalcard.gate.judge import judge, with_verdict
    from evalcard.gate.spec import Bounds, GateSpec

    run, comparison = make_case(2)
    gate = GateSpec(every=Bounds(), tasks={"arc": Bounds(min_recovery=150.0)})
    text = format_run(run, with_verdict(comparison, judge(comparison, gate, run)), "table")
    assert text.count("| Task |") == 2 and text.count("release gate: **") == 2
    assert format_run(run, comparison, "table").count("release gate") == 0


def test_what_puts_it_in_doubt_goes_with_it(make_case: Any, sequential_case: Any):
    run, comparison = make_case()
    warned = [one.finding for one in comparison.health if one.severity != "note"]
    assert warned, "the case has a guessing baseline"
    text = format_run(run.model_copy(update={"finished": None}), comparison, "table")
    assert text.count("\n- ") == len(warned) and "not finished" in text
    assert "not those of the full tasks" in format_run(*sequential_case, "table")
    finished = run.model_copy(update={"finished": run.created})
    assert "not finished" not in format_run(finished, comparison, "table")


def test_a_run_without_a_compressed_model_has_its_scores(make_case: Any):
    run, comparison = make_case(0)
    text = format_run(run, comparison, "table")
    assert "| Task | Items | Score |" in text and "without a compressed model" in text


def test_hostile_names_stay_in_their_cells(hostile: Any):
    text = format_run(*hostile, "table")
    widths = {len(cells(line)) for line in text.splitlines() if line.startswith("|")}
    assert widths == {8}
    page = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    assert "<script" not in page and "<code>" not in page and "{{7*7}}" in page
    assert page.count("<tr>") == text.count("\n|") - text.count("\n|--")
    assert "$" not in text, "two of them are a formula on the Hub"


def test_a_gate_that_failed_names_the_limit_and_the_row(make_case: Any):
    from evalcard.gate.judge import judge, with_verdict
    from evalcard.gate.spec import Bounds, GateSpec

    run, comparison = make_case()
    gate = GateSpec(every=Bounds(), tasks={"arc": Bounds(min_recovery=150.0), "facts": Bounds(min_recovery=50.0)})
    text = format_run(run, with_verdict(comparison, judge(comparison, gate, run)), "table")
    (told,) = [line for line in text.splitlines() if line.startswith("- arc:")]
    assert "recovery >= 150 %" in told and "is not met, measured " in told and "- facts:" not in text
    assert {len(row) for row in map(cells, text.splitlines()) if len(row) > 1} == {8}, "the table is whole"
    assert MarkdownIt("commonmark").enable("table").render(text).count("<table>") == 1
