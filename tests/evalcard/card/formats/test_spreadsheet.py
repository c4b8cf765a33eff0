"""CSV: one line a row and model, exact numbers, and nothing that a spreadsheet would run."""

import csv
import io
from typing import Any

import pytest

from evalcard.card.formats.render import KINDS, format_run
from evalcard.card.formats.spreadsheet import COLUMNS
from evalcard.errors import UserError
from evalcard.results.compared import Comparison


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_one_line_a_row_and_model_unrounded(make_case: Any):
    run, comparison = make_case(2)
    lines = read(format_run(run, comparison, "csv"))
    assert len(lines) == 2 * (4 + len(comparison.averages) + 1)
    for row in comparison.tasks:
        told = [line for line in lines if line["row"] == row.task and line["scope"] == "task"]
        assert [line["scheme"] for line in told] == ["w8a8", "w4a16"]
        for line, one in zip(told, row.compressed, strict=True):
            assert float(line["baseline_score"]) == row.baseline.score and float(line["score"]) == one.score
            assert float(line["stderr"]) == one.stderr and int(line["lost"]) == one.lost
            if one.recovery is None:
                assert line["recovery"] == "" and line["reason"] == one.reason
            else:
                assert float(line["recovery"]) == one.recovery.value / 100
                assert float(line["recovery_low"]) == pytest.approx(one.recovery.low / 100, rel=1e-15)
        assert {(line["items"], line["stopped_early"]) for line in told} == {(str(row.n), "false")}
    assert {line["scope"] for line in lines} == {"task", "average", "overall"}
    assert {line["items"] for line in lines if line["scope"] != "task"} == {""}
    assert {line["filter"] for line in lines if line["row"] == "sums"} == {"strict-match"}


def test_an_upper_end_that_there_is_none_of_is_empty(sequential_case: Any):
    lines = read(format_run(*sequential_case, "csv"))
    (sums,) = [line for line in lines if line["row"] == "sums"]
    assert (sums["recovery_low"], sums["recovery_high"]) == ("0.715", "")
    assert sums["stopped_early"] == "true" and int(sums["items"]) < int(sums["items_total"])


def test_a_run_without_a_compressed_model_has_the_baselines_lines(make_case: Any):
    run, comparison = make_case(0)
    lines = read(format_run(run, comparison, "csv"))
    assert [line["row"] for line in lines if line["scope"] == "task"] == ["arc", "facts", "sums", "riddles"]
    assert all(line["model"] == line["score"] == "" and line["baseline_score"] for line in lines)


def test_no_cell_is_a_formula_and_none_breaks_out(hostile: Any):
    run, comparison = hostile
    text = format_run(run, comparison, "csv")
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert {len(row) for row in rows} == {len(COLUMNS)} and rows[0] == list(COLUMNS)
    told = [cell for row in rows[1:] for cell in row]
    assert not [cell for cell in told if cell.lstrip(" \"'\t\r\n")[:1] in tuple("=+@") and not cell.startswith("'")]
    assert any(cell.startswith("'=cmd|") for cell in told)
    negative = [cell for cell in told if cell.startswith("-")]
    assert negative and all(float(cell) < 0 for cell in negative), "a number stays one"
    assert text.endswith("\r\n")


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1+cmd", "@SUM(A1)", "\t=1", " =1", "'=1", '"=1', "\r=1", "\n=1"])
def test_every_way_to_begin_a_formula_is_text(make_case: Any, name: str):
    run, comparison = make_case()
    run = run.model_copy(update={"name": name})
    assert all(line["run"] == f"'{name}" for line in read(format_run(run, comparison, "csv")))


def test_no_folder_of_the_machine_is_in_it(make_case: Any):
    run, comparison = make_case()
    models = [run.models[0].model_copy(update={"hub_id": None, "name": "/home/someone/models/tiny"}), *run.models[1:]]
    assert "/home" not in format_run(run.model_copy(update={"models": models}), comparison, "csv")


def test_json_is_the_comparison_as_it_is_stored(make_case: Any):
    run, comparison = make_case()
    assert Comparison.model_validate_json(format_run(run, comparison, "json")) == comparison


def test_an_unknown_format_names_those_that_are_there(make_case: Any):
    with pytest.raises(UserError, match="table, latex, csv, json"):
        format_run(*make_case(), "xlsx")
    assert KINDS == ("table", "latex", "csv", "json")
