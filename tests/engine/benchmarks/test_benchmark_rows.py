"""Rows are added to the file that holds the first ones, whose rows stay as they are."""

import csv
import os
import subprocess
from pathlib import Path

import pytest
from ab_rounds import Measured, Round, Scores
from benchmark_rows import COLUMNS, FIRST_COLUMNS, Facts, append_rows, check_table, commit, keeper, rows_of
from machine_load import Usage

OLD = '2026-01-01T00:00Z,abc1234,x86_64 2 cores,2.13.0,"mmlu, whole",all,1,3,63.4,454.8,7.17,2.08'
FACTS = Facts("gsm8k, whole commands", "peer", "peer 1.2", "batch 8", 2, "model", 4, 8)


def turn(void: str = "", is_cut: bool = False) -> Round:
    scores = Scores({"gsm8k exact_match,strict-match": 0.25}, {"gsm8k": 4})
    mine = Measured(Usage(10.0, 9.0, 0.2), scores, output_tokens=77)
    return Round(1, 0.5, {"w8a8": mine}, Measured(Usage(30.0, 29.0, 0.3), scores, is_cut=is_cut), void)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_file_of_the_first_rows_gets_the_new_columns_once(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text(",".join(FIRST_COLUMNS) + "\n" + OLD + "\n")
    before = read(table)
    check_table(table)
    append_rows(table, rows_of([turn()], FACTS))
    append_rows(table, rows_of([turn("others used 9%"), turn(is_cut=True)], FACTS))
    lines, rows = table.read_text().splitlines(), read(table)
    assert lines[0] == ",".join(COLUMNS) and len(lines) == 5
    assert lines[1] == OLD + "," * (len(COLUMNS) - len(FIRST_COLUMNS))
    assert {name: rows[0][name] for name in FIRST_COLUMNS} == before[0]
    assert [row["void"] for row in rows] == ["", "", "others used 9%", ""]
    assert [row["is_at_least"] for row in rows] == ["", "0", "0", "1"]
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


def test_a_round_is_in_the_file_once_it_is_over(tmp_path: Path) -> None:
    keep = keeper(tmp_path / "rows.csv", FACTS)
    for count in (1, 2):
        keep(turn())
        assert len(read(tmp_path / "rows.csv")) == count
    keeper(None, FACTS)(turn())


def test_what_a_row_says(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    append_rows(table, rows_of([turn()], FACTS))
    (row,) = read(table)
    cores = os.cpu_count() or 1
    assert row | {
        "what": "gsm8k, whole commands", "round": "1", "evalcard_s": "10.0", "peer_s": "30.0", "ratio": "3.0",
        "load_before": "0.5", "peer": "peer", "peer_version": "peer 1.2", "peer_setting": "batch 8", "side": "w8a8",
        "items": "4", "evalcard_tokens": "77", "peer_tokens": "", "threads": "2", "items_per_subject": "4",
        "evalcard_scores": '{"gsm8k exact_match,strict-match": 0.25}', "peer_batch": "8", "model": "model",
        "others_share": str(round(max(0.2 / 10, 0.3 / 30) / cores, 4)),
    } == row  # fmt: skip
    assert row["date"] and row["machine"].endswith("cores") and row["torch"][0].isdigit()


def test_the_commit_tells_changes_but_not_those_of_results(tmp_path: Path) -> None:
    def git(*command: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.run(["git", *who, *command], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    assert commit(tmp_path) == ""
    for name in ("results/benchmarks.csv", "code/a.py"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("1\n")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    head = git("rev-parse", "--short", "HEAD").strip()
    (tmp_path / "results" / "benchmarks.csv").write_text("1\n2\n")
    (tmp_path / "code" / "new.py").write_text("")
    assert commit(tmp_path / "code") == head
    (tmp_path / "code" / "a.py").write_text("2\n")
    assert commit(tmp_path / "code") == f"{head}+changes"


@pytest.mark.parametrize("header", ["date,what", ",".join([*COLUMNS, "more"]), ",".join(reversed(COLUMNS))])
def test_rows_of_another_kind_are_not_mixed_in(header: str, tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text(header + "\n")
    with pytest.raises(SystemExit, match="holds other columns"):
        check_table(table)


def test_the_committed_rows_can_be_added_to() -> None:
    check_table(Path(__file__).parents[3] / "results" / "benchmarks.csv")


def test_a_missing_folder_is_said_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="there is no folder"):
        check_table(tmp_path / "none" / "rows.csv")
