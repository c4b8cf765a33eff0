"""Reuse of earlier answers by key."""

import json
import time
from pathlib import Path

import pytest

from evalcard.results.files import encode_record
from evalcard.results.index import AnswerIndex
from evalcard.results.store import RunFolder


def store(root: Path, run: str, samples) -> RunFolder:
    with RunFolder.open(root, run) as folder:
        for sample in samples:
            folder.journal("base", sample.task).append(sample)
    return folder


def test_answers_of_all_runs_are_found(tmp_path: Path, make_sample):
    store(tmp_path / "a", "one", [make_sample(1), make_sample(2, task="other", text='with "key":"fake" inside')])
    folder = store(tmp_path / "b", "two", [make_sample(3)])
    index = AnswerIndex.scan([tmp_path / "a", folder.path, tmp_path / "missing"])
    assert len(index) == 3 and index.warnings == []
    assert index.lookup("key-2") == make_sample(2, task="other", text='with "key":"fake" inside')
    assert index.lookup("key-3") == make_sample(3)
    assert index.lookup("key-1") == make_sample(1)
    assert index.lookup("fake") is None and index.lookup("key-9") is None
    index.close()
    assert index.lookup("key-3") is not None


def test_own_run_and_reference_runs_are_left_out(tmp_path: Path, make_sample):
    own = store(tmp_path, "own", [make_sample(1)])
    store(tmp_path, "reference", [make_sample(2)])
    store(tmp_path, "other", [make_sample(3)])
    index = AnswerIndex.scan([tmp_path], skip=own.path)
    assert [index.lookup(f"key-{i}") is not None for i in (1, 2, 3)] == [False, False, True]


def test_errors_are_no_answers(tmp_path: Path, make_sample):
    store(tmp_path, "run", [make_sample(1, finish="error"), make_sample(2, finish="length")])
    index = AnswerIndex.scan([tmp_path])
    assert index.lookup("key-1") is None and index.lookup("key-2") is not None


def test_torn_foreign_and_damaged_files_never_stop_it(tmp_path: Path, make_sample):
    folder = store(tmp_path, "run", [make_sample(1)])
    samples = folder.path / "samples" / "base"
    line = encode_record(make_sample(2))
    (samples / "torn.jsonl").write_bytes(line)
    (samples / "foreign.jsonl").write_bytes(b"\xff\xfe\n[1, 2]\n\n" + b'{"a": 1, "key": "theirs"}\n')
    (samples / "folder.jsonl").mkdir()
    (samples / "newer.jsonl").write_bytes(b'{"schema":99,"key":"newer"}\n')
    index = AnswerIndex.scan([tmp_path])
    assert index.lookup("key-1") is not None
    assert index.lookup("key-2") is None
    assert index.lookup("theirs") is None and index.lookup("newer") is None
    assert len(index.warnings) == 3, index.warnings
    assert any("folder.jsonl" in line for line in index.warnings)
    assert any("foreign.jsonl" in line for line in index.warnings)
    assert any("schema 99" in line for line in index.warnings)


def test_a_root_that_is_a_file_is_a_warning(tmp_path: Path):
    (tmp_path / "file").write_text("")
    index = AnswerIndex.scan([tmp_path / "file"])
    assert len(index) == 0 and "not reused" in index.warnings[0]


def test_keys_are_found_wherever_they_stand_in_a_line(tmp_path: Path, make_sample):
    folder = store(tmp_path, "run", [])
    data = json.loads(encode_record(make_sample(7, text="x" * 5000)))
    data["key"] = data.pop("key")
    path = folder.path / "samples" / "base" / "other.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(data) + "\n", encoding="utf-8")
    assert AnswerIndex.scan([tmp_path]).lookup("key-7") == make_sample(7, text="x" * 5000)


@pytest.mark.parametrize("num_lines", [100_000])
def test_many_lines_are_scanned_in_seconds(tmp_path: Path, make_sample, num_lines: int):
    folder = store(tmp_path, "run", [])
    path = folder.path / "samples" / "base" / "big.jsonl"
    path.parent.mkdir(parents=True)
    line = encode_record(make_sample(0, key="@", text="x" * 300, token_ids=list(range(100))))
    path.write_bytes(b"".join(line.replace(b"@", str(i).encode()) + b"\n" for i in range(num_lines)))
    started = time.perf_counter()
    index = AnswerIndex.scan([tmp_path])
    assert len(index) == num_lines
    assert index.lookup(str(num_lines - 1)).key == str(num_lines - 1)
    assert time.perf_counter() - started < 10  # about 0.2 s on an idle core; parsing every line takes far longer
