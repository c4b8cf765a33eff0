"""Documents from data roots are the ones the harness would see."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.tasks.data import roots as data
from evalcard.tasks.files.select import select

ROWS = [{"question": "2024-01-31", "answer": 1}, {"question": "", "answer": 0}]


def put(root: Path, place: str, rows: list[dict[str, Any]]) -> Path:
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
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

    def test_the_layouts_of_a_download_from_the_hub(self, tmp_path: Path):
        inner = put(tmp_path, "a/data/train.jsonl", ROWS)
        assert data.find_splits([tmp_path], "a", None) == {"train": (inner,)}
        own, _ = put(tmp_path, "b/one.jsonl", ROWS), put(tmp_path, "b/two.jsonl", ROWS)
        assert data.find_splits([tmp_path], "b", "one") == {"train": (own,)}
        assert set(data.find_splits([tmp_path], "b", "test")) == {"one", "two"}
        named = put(tmp_path, "c/test/test.jsonl", ROWS)
        assert data.find_splits([tmp_path], "c", "test") == {"test": (named,)}

    def test_shards_and_other_files(self, tmp_path: Path):
        for name in ("test-00001-of-00002.parquet", "test-00000-of-00002.parquet", "README.md"):
            (tmp_path / "a").mkdir(exist_ok=True)
            (tmp_path / "a" / name).touch()
        (paths,) = data.find_splits([tmp_path], "a", None).values()
        assert [path.name for path in paths] == ["test-00000-of-00002.parquet", "test-00001-of-00002.parquet"]


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


class TestMissing:
    def lack(self, task: str, dataset_id: str, subset: str | None = None, why: str = "why") -> data.MissingData:
        return data.MissingData([data.Lack(task, dataset_id, subset, why)], [Path("/a"), Path("/b")])

    def test_several_data_sets_and_reasons_are_one_message(self):
        errors = [self.lack("t1", "o/a", "x"), self.lack("t2", "o/b", why="gated"), self.lack("t3", "o/a", "y")]
        joined = data.join_missing(errors)
        assert joined.dataset_ids == ("o/a", "o/b") and [lack.task for lack in joined.lacks] == ["t1", "t2", "t3"]
        assert joined.roots == (Path("/a"), Path("/b"))
        assert str(joined).startswith(
            "2 tasks from t1 on: data set o/a (subset x, y) is missing; why; task t2: data set o/b is missing; gated."
        )
        assert str(joined).endswith("evalcard tasks --prefetch t1,t2,t3")

    def test_dozens_of_subsets_take_one_line(self):
        joined = data.join_missing([self.lack(f"t{i}", "o/a", f"s{i}") for i in range(57)])
        assert "57 tasks from t0 on: data set o/a (57 subsets: s0, s1, s2, ...) is missing; why." in str(joined)
        assert str(joined).endswith("--prefetch t0,t1,t2,...") and len(str(joined)) < 500


def splits_of(root: Path) -> data.LocalSplits:
    return data.LocalSplits("a", data.find_splits([root], "a", None))


@pytest.mark.parametrize("other", ["test-00000-of-00001.jsonl", "test.json", "test-00000-of-00002.jsonl"])
def test_a_split_in_two_forms_would_count_twice(tmp_path: Path, other: str):
    put(tmp_path, "a/test.jsonl", ROWS)
    put(tmp_path, f"a/{other}", ROWS)
    put(tmp_path, "a/dev.jsonl", ROWS)
    assert len(splits_of(tmp_path)["dev"]) == 2
    with pytest.raises(UserError, match="more than one form") as error:
        splits_of(tmp_path)["test"]
    assert "test.jsonl" in str(error.value) and other in str(error.value)


def test_shards_must_all_be_there(tmp_path: Path):
    put(tmp_path, "a/test-00000-of-00002.jsonl", ROWS)
    with pytest.raises(UserError, match=r"only 1 of 2 parts .*Add what is missing, such as test-00001-of-00002\.jsonl"):
        splits_of(tmp_path)["test"]
    put(tmp_path, "a/test-00001-of-00002.jsonl", ROWS)
    assert len(splits_of(tmp_path)["test"]) == 4


@pytest.mark.parametrize("name", ["test.jsonl.gz", "test.JSONL"])
def test_files_that_are_not_read_are_said(tmp_path: Path, name: str):
    put(tmp_path, f"a/{name}", ROWS)
    with pytest.raises(UserError, match=f"{name} lies there but is not read"):
        data.refuse_unread([tmp_path], "a", None)
    put(tmp_path, "a/dev.jsonl", ROWS)
    with pytest.raises(UserError, match=f"no split 'test'.*{name} lies there but is not read"):
        splits_of(tmp_path)["test"]
