"""Documents from data roots are the ones the harness would see."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.tasks import data
from evalcard.tasks.files import select

ROWS = [
    {"question": "2024-01-31", "choices": ["a", "b\u2028c"], "answer": 1, "score": 0.5},
    {"question": "", "choices": ["d"], "answer": 0, "score": 1.0},
]
REAL_DATA = os.environ.get("EVALCARD_TEST_DATA")


def put(root: Path, place: str, rows: list[dict[str, Any]]) -> Path:
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows), encoding="utf-8")
    else:
        import pandas

        frame = pandas.DataFrame(rows)
        frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return path


def test_roots_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("EVALCARD_DATA_ROOT", f"{tmp_path / 'b'}{os.pathsep}{tmp_path / 'c'}")
    roots = data.data_roots(str(tmp_path / "a"))
    assert roots[:3] == (tmp_path / "a", tmp_path / "b", tmp_path / "c")
    assert len(roots) == 4 and (roots[3] / "evalcard" / "demo").is_dir()


def test_a_root_that_is_no_folder(tmp_path: Path):
    with pytest.raises(UserError, match="is no folder"):
        data.data_roots(str(tmp_path / "missing"))


class TestFindSplits:
    def test_first_root_and_subset_win(self, tmp_path: Path):
        first, second = tmp_path / "one", tmp_path / "two"
        put(first, "org/set/sub/test.jsonl", ROWS)
        put(first, "org/set/test.jsonl", ROWS)
        put(second, "org/set/other/test.jsonl", ROWS)
        assert data.find_splits([first, second], "org/set", "sub") == {"test": (first / "org/set/sub/test.jsonl",)}
        assert data.find_splits([first, second], "org/set", "none") == {"test": (first / "org/set/test.jsonl",)}
        assert data.find_splits([second], "org/set", "other")["test"]
        assert data.find_splits([first, second], "org/missing", None) == {}

    def test_dev_serves_as_validation_unless_there_is_one(self, tmp_path: Path):
        dev = put(tmp_path, "a/dev.jsonl", ROWS)
        assert data.find_splits([tmp_path], "a", None)["validation"] == (dev,)
        own = put(tmp_path, "a/validation.jsonl", ROWS)
        assert data.find_splits([tmp_path], "a", None)["validation"] == (own,)

    def test_shards_and_other_files(self, tmp_path: Path):
        for name in ("test-00001-of-00002.parquet", "test-00000-of-00002.parquet", "README.md"):
            (tmp_path / "a").mkdir(exist_ok=True)
            (tmp_path / "a" / name).touch()
        (paths,) = data.find_splits([tmp_path], "a", None).values()
        assert [path.name for path in paths] == ["test-00000-of-00002.parquet", "test-00001-of-00002.parquet"]


class TestReadSplit:
    @pytest.mark.parametrize("suffix", ["jsonl", "json", "parquet"])
    def test_rows_stay_what_they_are(self, tmp_path: Path, suffix: str):
        path = put(tmp_path, f"test.{suffix}", ROWS)
        assert list(data.read_split([path])) == ROWS  # a date stays text, U+2028 ends no line

    def test_a_key_that_some_rows_lack(self, tmp_path: Path):
        path = put(tmp_path, "test.jsonl", [{"a": 1}, {"a": 2, "b": "x"}])
        assert list(data.read_split([path])) == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]

    def test_csv(self, tmp_path: Path):
        rows = [{"question": "a, b", "answer": 3}, {"question": "c", "answer": 4}]
        assert list(data.read_split([put(tmp_path, "test.csv", rows)])) == rows

    def test_shards_in_order(self, tmp_path: Path):
        paths = [put(tmp_path, f"{i}.jsonl", [row]) for i, row in enumerate(ROWS)]
        assert list(data.read_split(paths)) == ROWS

    @pytest.mark.parametrize(
        ("suffix", "text"), [("jsonl", '{"a": 1}\n{"a"'), ("json", '{"a": 1}'), ("parquet", "no"), ("jsonl", "[1]")]
    )
    def test_damaged_files(self, tmp_path: Path, suffix: str, text: str):
        (tmp_path / f"test.{suffix}").write_text(text)
        with pytest.raises(UserError, match=f"cannot read the data file .*test.{suffix}"):
            data.read_split([tmp_path / f"test.{suffix}"])

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("t.jsonl", '{"a": 1}\n\n{"a"', "line 3 is no JSON"),
            ("t.jsonl", '{"a": 1}\n[1]\n', r"line 2 must be one JSON object, not \[1\]"),
            ("t.jsonl", "5", "line 1 must be one JSON object, not 5"),
            ("t.json", '[{"a": 1}, 7]', "row 2 must be a JSON object, not 7"),
            ("t.jsonl", "\n", "it is empty"),
            ("t.json", "", "it is empty"),
        ],
    )
    def test_where_the_damage_is(self, tmp_path: Path, name: str, text: str, message: str):
        (tmp_path / name).write_text(text)
        with pytest.raises(UserError, match=f"cannot read the data file .*{name}: {message}"):
            data.read_split([tmp_path / name])

    @pytest.mark.parametrize(("name", "text"), [("t.jsonl", '{"a": 1}\n'), ("t.json", '[{"a": 1}]')])
    def test_a_byte_order_mark(self, tmp_path: Path, name: str, text: str):
        (tmp_path / name).write_text(text, encoding="utf-8-sig")
        assert list(data.read_split([tmp_path / name])) == [{"a": 1}]


def test_a_missing_split_names_those_there_are(tmp_path: Path):
    splits = data.LocalSplits("a", data.find_splits([put(tmp_path, "a/test.jsonl", ROWS).parents[1]], "a", None))
    assert "test" in splits and "train" not in splits
    with pytest.raises(UserError, match="no split 'train'.*it has test"):
        splits["train"]


def test_missing_documents_offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """No connection is tried, and the message says which data set and how to get it."""
    import socket

    import datasets

    from evalcard.tasks.build import build

    def no_network(*_: object, **__: object) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "t.yaml").write_text(
        "task: t\ndataset_path: no-such-org/no-such-set\ndataset_name: sub\ntest_split: test\n"
        "output_type: generate_until\ndoc_to_text: x\ndoc_to_target: y\n"
    )
    with pytest.raises(UserError) as error:
        build(select([str(tmp_path / "t.yaml")]), (tmp_path,))
    message = str(error.value)
    assert "no-such-org/no-such-set (subset sub)" in message and "HF_HUB_OFFLINE is set" in message
    assert "--data-root" in message and "once while online" in message


@pytest.mark.skipif(not REAL_DATA, reason="EVALCARD_TEST_DATA names no data root")
@pytest.mark.parametrize("place", ["cais/mmlu/anatomy/test", "cais/mmlu/astronomy/dev", "openai/gsm8k/main/test"])
def test_real_documents_equal_the_data_set_librarys(place: str, tmp_path: Path):
    import datasets

    path = Path(str(REAL_DATA)) / f"{place}.jsonl"
    theirs = datasets.load_dataset("json", data_files={"x": str(path)}, cache_dir=str(tmp_path))["x"]
    ours = data.read_split([path])
    assert list(ours) == list(theirs) and ours.features == theirs.features
