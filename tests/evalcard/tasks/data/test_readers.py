"""Data files: what is read is what stands there, and damage is named with its place."""

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.tasks.data import readers

ROWS = [
    {"question": "2024-01-31", "choices": ["a", "b\u2028c"], "answer": 1, "score": 0.5},
    {"question": "", "choices": ["d"], "answer": 0, "score": 1.0},
]
REAL_DATA = os.environ.get("EVALCARD_TEST_DATA")


def put(root: Path, place: str, rows: list[dict[str, Any]]) -> Path:
    path = root / place
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows), encoding="utf-8")
    else:
        import pandas

        frame = pandas.DataFrame(rows)
        frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return path


class TestSplits:
    @pytest.mark.parametrize("suffix", ["jsonl", "json", "parquet"])
    def test_rows_stay_what_they_are(self, tmp_path: Path, suffix: str):
        path = put(tmp_path, f"test.{suffix}", ROWS)
        assert list(readers.read_split([path])) == ROWS  # a date stays text, U+2028 ends no line

    def test_a_key_that_some_rows_lack(self, tmp_path: Path):
        path = put(tmp_path, "test.jsonl", [{"a": 1}, {"a": 2, "b": "x"}])
        assert list(readers.read_split([path])) == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]

    def test_a_column_of_several_types_becomes_text(self, tmp_path: Path):
        path = put(tmp_path, "test.jsonl", [{"a": 1}, {"a": "x"}, {"a": True}, {"a": None}])
        assert [row["a"] for row in readers.read_split([path])] == ["1", "x", "true", None]

    def test_a_column_of_lists_and_texts_is_refused(self, tmp_path: Path):
        path = put(tmp_path, "test.jsonl", [{"a": ["x"]}, {"a": "x"}])
        with pytest.raises(UserError, match="test.jsonl: the column 'a' holds values of different types"):
            readers.read_split([path])

    def test_csv(self, tmp_path: Path):
        rows = [{"question": "a, b", "answer": 3}, {"question": "c", "answer": 4}]
        assert list(readers.read_split([put(tmp_path, "test.csv", rows)])) == rows

    def test_tsv(self, tmp_path: Path):
        (tmp_path / "test.tsv").write_text("question\tanswer\na, b\t3\n")
        assert list(readers.read_split([tmp_path / "test.tsv"])) == [{"question": "a, b", "answer": 3}]

    def test_shards_in_order(self, tmp_path: Path):
        paths = [put(tmp_path, f"{i}.jsonl", [row]) for i, row in enumerate(ROWS)]
        assert list(readers.read_split(paths)) == ROWS

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("t.jsonl", '{"a": 1}\n\n{"a"', "line 3 is no JSON"),
            ("t.jsonl", '{"a": 1}\n[1]\n', r"line 2 must be one JSON object, not \[1\]"),
            ("t.jsonl", "5", "line 1 must be one JSON object, not 5"),
            ("t.json", '[{"a": 1}, 7]', "row 2 must be a JSON object, not 7"),
            ("t.json", '{"a": 1}', "expected a JSON array of objects"),
            ("t.jsonl", "\n", "it is empty"),
            ("t.json", "", "it is empty"),
            ("t.jsonl", '{"a": ' + "[" * 100_000, "it is nested too deeply|line 1 is no JSON"),
            ("t.csv", "a,b\n1,2\n1,2,3\n", "line 3"),
            ("t.jsonl", '{"a": "\\ud800"}', "the column 'a' holds half of a surrogate pair"),
        ],
    )
    def test_where_the_damage_is(self, tmp_path: Path, name: str, text: str, message: str):
        (tmp_path / name).write_text(text)
        with pytest.raises(UserError, match=f"cannot read the data file .*{name}: .*({message})"):
            readers.read_split([tmp_path / name])

    def test_a_file_that_is_no_parquet(self, tmp_path: Path):
        (tmp_path / "t.parquet").write_text("no")
        with pytest.raises(UserError, match="cannot read the data file .*t.parquet"):
            readers.read_split([tmp_path / "t.parquet"])

    @pytest.mark.parametrize("name", ["t.jsonl", "t.csv"])
    def test_the_line_of_a_byte_that_is_no_utf_8(self, tmp_path: Path, name: str):
        (tmp_path / name).write_bytes('{"a": 1}\n{"a": "\u00e9"}\n'.encode("latin-1"))
        with pytest.raises(UserError, match=f"{name}: line 2 is not UTF-8 .byte 0xe9.; save the file as UTF-8"):
            readers.read_split([tmp_path / name])

    @pytest.mark.parametrize(("name", "text"), [("t.jsonl", '{"a": 1}\n'), ("t.json", '[{"a": 1}]'), ("t.csv", "a\n1")])
    def test_a_byte_order_mark(self, tmp_path: Path, name: str, text: str):
        (tmp_path / name).write_text(text, encoding="utf-8-sig")
        assert list(readers.read_split([tmp_path / name])) == [{"a": 1}]

    @pytest.mark.skipif(not REAL_DATA, reason="EVALCARD_TEST_DATA names no data root")
    @pytest.mark.parametrize("place", ["cais/mmlu/anatomy/test", "cais/mmlu/astronomy/dev", "openai/gsm8k/main/test"])
    def test_real_documents_equal_the_data_set_librarys(self, place: str, tmp_path: Path):
        import datasets

        path = Path(str(REAL_DATA)) / f"{place}.jsonl"
        theirs = datasets.load_dataset("json", data_files={"x": str(path)}, cache_dir=str(tmp_path))["x"]
        ours = readers.read_split([path])
        assert list(ours) == list(theirs) and ours.features == theirs.features


class TestRows:
    def rows(self, path: Path) -> list[tuple[str, dict[str, Any]]]:
        return [(row.place, row.values) for row in readers.read_rows(path)]

    def test_lines_are_counted_from_1_with_blank_ones(self, tmp_path: Path):
        (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"q": 1}\r\n\r\n  \n{"q": "\xe2\x80\xa8"}\n')
        assert self.rows(tmp_path / "a.jsonl") == [("line 1", {"q": 1}), ("line 4", {"q": "\u2028"})]

    def test_cells_stay_texts(self, tmp_path: Path):
        (tmp_path / "a.csv").write_text('id, answer\n007,NA\n\n"a\nb","x, ""y"""\n1.50,\n')
        assert self.rows(tmp_path / "a.csv") == [
            ("line 2", {"id": "007", "answer": "NA"}),
            ("line 4", {"id": "a\nb", "answer": 'x, "y"'}),
            ("line 6", {"id": "1.50", "answer": ""}),
        ]

    def test_tabs(self, tmp_path: Path):
        (tmp_path / "a.TSV").write_text("q\ta\nx, y\t1\n")
        assert self.rows(tmp_path / "a.TSV") == [("line 2", {"q": "x, y", "a": "1"})]

    def test_a_long_cell_and_the_librarys_own_limit(self, tmp_path: Path):
        limit = csv.field_size_limit()
        (tmp_path / "a.csv").write_text("q\n" + "x" * 200_000)
        assert len(self.rows(tmp_path / "a.csv")[0][1]["q"]) == 200_000
        assert csv.field_size_limit() == limit

    def test_json_and_parquet_rows(self, tmp_path: Path):
        for name in ("a.json", "a.parquet"):
            assert self.rows(put(tmp_path, name, [{"q": "x"}, {"q": "y"}])) == [
                ("row 1", {"q": "x"}),
                ("row 2", {"q": "y"}),
            ]

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("a.csv", "q,a\n1,2\n3\n", r"line 3 has 1 fields, but the header names 2 columns \(q, a\)"),
            ("a.csv", 'q,a\n1,"2\n', "line 2 is no CSV"),
            ("a.csv", "q,q\n1,2\n", "its header names the column 'q' twice"),
            ("a.csv", "q,a\n", "it is empty; put in at least one row"),
            ("a.tsv", "", "it is empty"),
            ("a.jsonl", "\n\n", "it is empty"),
        ],
    )
    def test_faults(self, tmp_path: Path, name: str, text: str, message: str):
        (tmp_path / name).write_text(text)
        with pytest.raises(UserError, match=f"cannot read the data file .*{name}: {message}"):
            readers.read_rows(tmp_path / name)


def test_a_key_twice_in_one_object(tmp_path: Path):
    """JSON's reader takes the last one and says nothing, so one of two answers would count."""
    (tmp_path / "a.jsonl").write_text('{"q": 1, "a": 2}\n{"q": 1, "a": "x", "a": "y"}\n')
    said = "line 2: an object gives the key 'a' more than once \\('x' and 'y'\\)"
    with pytest.raises(UserError, match=rf"a\.jsonl: {said}"):
        readers.read_rows(tmp_path / "a.jsonl")
    with pytest.raises(UserError, match=said):
        readers.read_split([tmp_path / "a.jsonl"])
    (tmp_path / "b.json").write_text('[{"q": {"a": 1, "a": 2}}]')
    with pytest.raises(UserError, match=r"b\.json: an object gives the key 'a' more than once \(1 and 2\)"):
        readers.read_rows(tmp_path / "b.json")
