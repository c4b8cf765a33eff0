"""The published tables, written out in the layouts that cards have: what does not follow is named, and nothing else.

tests/data/published_tables.json holds figures of public model cards, digit by digit, with what a person found of them.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from evalcard.card.check.check import Checked, examine_card

TABLES = json.loads((Path(__file__).parents[3] / "data" / "published_tables.json").read_text(encoding="utf-8"))
BY_MODEL = [list(tables) for _, tables in groupby(TABLES, key=lambda table: table["model"])]
AVERAGED = [table for table in TABLES if table["average"]]
FRONT = "---\nlicense: apache-2.0\nbase_model: acme/toy-1b\n---\n\n# Toy\n\n"
Row = dict[str, Any]


def short(table: Row) -> str:
    return table["model"].rsplit("/", 1)[-1]


def all_rows(table: Row) -> list[Row]:
    average = table["average"]
    return table["rows"] + ([{"benchmark": "Average", "check": "", **average}] if average else [])


def expected(tables: list[Row], with_rows: bool = True) -> Counter[tuple[str, str]]:
    """(row, which printed number) of everything that a person found wrong."""
    found: Counter[tuple[str, str]] = Counter()
    for table in tables:
        for row in table["rows"]:
            if with_rows and row["check"] in ("misprint", "last digit"):
                found[row["benchmark"], row["recovery"]] += 1
        for which in ("baseline", "compressed"):
            if table["average"] and not table["average"][f"{which}_is_mean"]:
                found["Average", table["average"][which]] += 1
    return found


def named(checked: Checked, text: str) -> Counter[tuple[str, str]]:
    """(row, printed number) of every problem of the card; each has a line, and the number stands on it."""
    found: Counter[tuple[str, str]] = Counter()
    lines = text.split("\n")
    for problem in checked.problems:
        kind, _, number = problem.what.partition(" of ")
        assert problem.level == "error" and kind in ("prints a recovery", "prints an average"), problem
        number = number.split(" ")[0].rstrip(",;")
        assert problem.line is not None and number in lines[problem.line - 1], problem
        place = re.search(r"(?:row|column) ('.*?'|\".*?\")(?:$|, model )", problem.where)
        assert place is not None, problem.where
        found[place[1].strip("'\""), number] += 1
    return found


def pipe(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def with_recovery(tables: list[Row]) -> str:
    """One row a benchmark, its name and shots in one cell, `---` where no recovery is printed."""
    lines = [pipe("Benchmark", "toy-1b", f"{short(tables[0])} (this model)", "Recovery"), pipe(*["---"] * 4)]
    for table in tables:
        lines.append(pipe(f"**{table['category']}**", "", "", ""))
        for row in all_rows(table):
            lines.append(pipe(row["benchmark"], row["baseline"], row["compressed"], row["recovery"] or "---"))
    return "\n".join(lines)


def decorated(tables: list[Row]) -> str:
    """Bold, percent signs, standard errors, intervals, footnotes, blanks that do not break, a column of items."""
    head = ["Category", "Benchmark", "Items", "Baseline (BF16)", short(tables[0]), "Recovery (%)", "Lost"]
    lines = [pipe(*head), pipe(*["---", ":--", "--:", "--:", "--:", ":-:", "--"])]
    for table in tables:
        for at, row in enumerate(all_rows(table)):
            recovery = f"**{row['recovery']}\u00a0%**<sup>1</sup> [1.5, ∞)" if row["recovery"] else "– <sup>a</sup>"
            scores = [f"{row['baseline']} ± 1.25", f"`{row['compressed']}`[^2] (0.5 / 1.5)"]
            label = "**Average**" if row["benchmark"] == "Average" else row["benchmark"].replace("_", "\\_")
            category = table["category"] if at == 0 else ""
            lines.append(pipe(category, label, "40 of 500", *scores, recovery, "3"))
    return "\n".join(lines)


def recovery_first(tables: list[Row]) -> str:
    lines = [pipe("", "Recovery", "Original", "Compressed"), pipe(*["-"] * 4)]
    for table in tables:
        lines.append(pipe(table["category"], "", "", ""))
        for row in all_rows(table):
            lines.append(pipe(row["benchmark"], row["recovery"] or "", row["baseline"], row["compressed"]))
    return "\n".join(lines)


def in_html(tables: list[Row]) -> str:
    """Categories span their rows, the average's label two columns; every cell on a line of its own."""

    def cells() -> Iterator[str]:
        yield "<table>\n <thead>\n  <tr>\n   <th>Category</th>\n   <th>Metric</th>\n   <th>toy-1b</th>\n"
        yield f"   <th>{short(tables[0])}<br>(this model)</th>\n   <th>Recovery</th>\n  </tr>\n </thead>\n <tbody>\n"
        for table in tables:
            rows = all_rows(table)
            for at, row in enumerate(rows):
                yield "  <tr>\n"
                if at == 0:
                    yield f'   <td rowspan="{len(rows)}"><b>{table["category"]}</b></td>\n'
                label = "<b>Average</b>" if row["benchmark"] == "Average" else row["benchmark"]
                yield f"   <td>{label}</td>\n   <td>{row['baseline']}\n   </td>\n   <td>{row['compressed']}</td>\n"
                yield f"   <td>{row['recovery'] + '%' if row['recovery'] else '&mdash;'}</td>\n  </tr>\n"
        yield " </tbody>\n</table>"

    return "".join(cells())


def without_closing_tags(tables: list[Row]) -> str:
    """As HTML allows it, with the name of a category over the whole width and no marked header."""
    lines = [f"<table><tr><td>Benchmark<td>Baseline<td>{short(tables[0])}<td>Recovery"]
    for table in tables:
        lines.append(f'<tr><td colspan="4"><strong>{table["category"]}</strong>')
        for row in all_rows(table):
            lines.append(
                f"<tr><td>{row['benchmark']}<td>{row['baseline']}<td>{row['compressed']}<td>{row['recovery'] or '-'}"
            )
    return "\n".join([*lines, "</table>"])


LAYOUTS = [with_recovery, decorated, recovery_first, in_html, without_closing_tags]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("tables", BY_MODEL, ids=lambda tables: short(tables[0]))
def test_exactly_what_does_not_follow_is_named(layout: Callable[[list[Row]], str], tables: list[Row]):
    text = FRONT + layout(tables) + "\n"
    checked = examine_card(text)
    assert named(checked, text) == expected(tables)
    rows = [row for table in tables for row in all_rows(table)]
    assert (checked.tables, checked.recoveries) == (1, sum(row["recovery"] is not None for row in rows))
    assert checked.averages == sum(table["average"] is not None for table in tables)


def test_all_published_tables_on_one_card():
    text = FRONT + "\n\n".join(with_recovery(tables) for tables in BY_MODEL) + "\n"
    found = named(examine_card(text), text)
    assert found == expected(TABLES)
    recoveries = {row: number for row, number in found if row != "Average"}
    assert len(recoveries) == 5 and sum(found.values()) == 6 + 6, "5 misprints, 1 last digit, 6 numbers in 4 averages"


def with_recovery_at_the_foot(table: Row) -> str:
    average = table["average"]
    lines = [pipe("Benchmark", "toy-1b", f"{short(table)}(this model)"), pipe(*["---"] * 3)]
    lines += [pipe(row["benchmark"], row["baseline"], row["compressed"]) for row in table["rows"]]
    lines.append(pipe("**Average**", average["baseline"], average["compressed"]))
    return "\n".join([*lines, pipe("**Recovery**", "100%", f"{average['recovery']}%" if average["recovery"] else "-")])


def model_on_each_row(table: Row) -> str:
    average = table["average"]
    names = [row["benchmark"].replace(",", "") for row in table["rows"]]
    lines = [pipe("Model", "Precision", *names, "Avg.", "Recovery"), pipe(*["-"] * (len(names) + 4))]
    lines.append(pipe("Toy", "BF16", *(row["baseline"] for row in table["rows"]), average["baseline"], "100"))
    scores = [row["compressed"] for row in table["rows"]]
    return "\n".join([*lines, pipe("Toy", "W4A16", *scores, average["compressed"], average["recovery"] or "--")])


@pytest.mark.parametrize("layout", [with_recovery_at_the_foot, model_on_each_row])
@pytest.mark.parametrize("table", AVERAGED, ids=lambda table: f"{short(table)}, {table['category']}")
def test_averages_and_the_recovery_below_them(layout: Callable[[Row], str], table: Row):
    text = FRONT + layout(table) + "\n"
    checked = examine_card(text)
    found = {number for _, number in named(checked, text)}
    assert found == {number for _, number in expected([table], with_rows=False)}
    assert (checked.tables, checked.averages) == (1, 1)
    assert checked.recoveries == (table["average"]["recovery"] is not None)


@pytest.mark.parametrize("layout", [with_recovery_at_the_foot, model_on_each_row])
@pytest.mark.parametrize("table", AVERAGED[:6], ids=short)
def test_a_wrong_recovery_below_an_average_is_named(layout: Callable[[Row], str], table: Row):
    wrong = table | {"average": table["average"] | {"recovery": "91.7"}}
    text = FRONT + layout(wrong) + "\n"
    assert "91.7" in {number for _, number in named(examine_card(text), text)}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: f"{short(table)}, {table['category']}")
def test_recoveries_as_fractions_are_held_against_the_same_scores(table: Row):
    def fraction(text: str | None) -> str:
        return "" if text is None else f"{float(text) / 100:.{len(text.partition('.')[2]) + 2}f}"

    lines = [pipe("Task", "Baseline", "Compressed", "Recovery"), pipe(*["---"] * 4)]
    lines += [pipe(r["benchmark"], r["baseline"], r["compressed"], fraction(r["recovery"])) for r in table["rows"]]
    problems = examine_card(FRONT + "\n".join(lines) + "\n").problems
    wrong = [row["benchmark"] for row in table["rows"] if row["check"] in ("misprint", "last digit")]
    assert [problem.where.split("row ")[1].strip("'") for problem in problems] == wrong
