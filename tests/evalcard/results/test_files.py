"""File names, JSON and whole files."""

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcard.errors import UserError
from evalcard.results.files import (
    decode_record,
    encode,
    encode_record,
    finite,
    is_temporary,
    read_record,
    safe_name,
    write_whole,
)  # fmt: skip
from evalcard.results.records import SCHEMA, RunRecord, Sample


@pytest.mark.parametrize("name", ["gsm8k", "mmlu_pro", "SmolLM2-135M.w8a8", "a" * 120])
def test_plain_names_stay(name: str):
    assert safe_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "lm_eval/mmlu",
        "a:b",
        "a\\b",
        "http://10.2.42.198:1234/v1",
        "..",
        ".hidden",
        "con",
        "nul.txt",
        "ä",
        "",
        "a" * 500,
    ],
)
def test_odd_names_become_file_names(name: str):
    safe = safe_name(name)
    assert safe not in ("", ".", "..") and not safe.startswith(".")
    assert not set(safe) & set('/\\:*?"<>| ') and len(safe) <= 130
    assert safe == safe_name(name)


@settings(deadline=None)
@given(st.text(max_size=40), st.text(max_size=40))
def test_different_names_never_meet(one: str, other: str):
    assert one == other or safe_name(one) != safe_name(other)


def test_not_a_number_is_written_as_null():
    assert json.loads(encode({"a": [math.nan, 1.5], "b": (math.inf,)})) == {"a": [None, 1.5], "b": [None]}
    assert finite({"x": -math.inf, "y": "nan"}) == {"x": None, "y": "nan"}


def test_lone_surrogates_survive_and_other_text_stays_readable():
    assert json.loads(encode({"text": "a\ud800b"})) == {"text": "a\ud800b"}
    assert "é\u2028中" in encode({"text": "é\u2028中"}).decode("utf-8")


def test_a_record_survives(make_run):
    run = make_run(asked={"tasks": ["a", "ü"], "limit": None})
    assert decode_record(encode_record(run, indent=1), RunRecord, "here", "") == run
    assert json.loads(encode_record(run))["schema"] == SCHEMA


def test_a_newer_record_is_refused_before_its_fields_are_looked_at():
    text = json.dumps({"schema": SCHEMA + 1, "a field of the future": 1}).encode()
    with pytest.raises(UserError, match=rf"run.json has schema {SCHEMA + 1}.*knows schemas up to {SCHEMA}"):
        decode_record(text, RunRecord, "run.json", "")


@pytest.mark.parametrize("text", [b"{", b"[]", b"null", b"\xff\xfe\xfd", b'{"schema": 1}', b"\x00\x00"])
def test_what_is_no_record_names_the_place(text: bytes):
    with pytest.raises(UserError, match="the place.*Do this"):
        decode_record(text, Sample, "the place", "Do this.")


def test_a_missing_file_says_what_to_do(tmp_path: Path):
    with pytest.raises(UserError, match="cannot read .*run.json.*Run again"):
        read_record(tmp_path / "run.json", RunRecord, "Run again.")


def test_what_may_not_be_read_need_not_be_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(
        UserError, match=r"run\.json: Permission denied\. Make it readable, then give the same"
    ) as raised:
        read_record(tmp_path / "run.json", RunRecord, "Give the `evalcard run` command again.")
    assert "evalcard run" not in str(raised.value)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch):
    path = tmp_path / "run.json"
    write_whole(path, b"old")

    def no_space(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("evalcard.results.files.os.fsync", no_space)
    with pytest.raises(UserError, match="No space left"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.json"]


_WRITER = """
import os, signal, sys
from pathlib import Path
from evalcard.results.files import write_whole
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
write_whole(Path(sys.argv[1]), b"half")
"""


@pytest.mark.skipif(os.name == "nt", reason="a signal that Windows has not")
def test_what_a_killed_writer_left_is_known_and_goes_with_time(tmp_path: Path):
    path = tmp_path / "[a]" / "README.md"
    path.parent.mkdir()
    path.write_bytes(b"old")
    killed = subprocess.run([sys.executable, "-c", _WRITER, str(path)], timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL and path.read_bytes() == b"old"
    (left,) = set(path.parent.iterdir()) - {path}
    assert is_temporary(left) and not is_temporary(path)
    others = [path.with_name(name) for name in (".README.md.mine.tmp", ".README.md.bak", ".OTHER.md.123.tmp")]
    for one in others:
        one.write_bytes(b"the user's")
    write_whole(path, b"new")
    assert left.exists(), "its writer may be at work, on another machine"
    for one in (left, *others):
        os.utime(one, (0, 0))
    write_whole(path, b"newer")
    assert set(path.parent.iterdir()) == {path, *others} and path.read_bytes() == b"newer"


def test_two_containers_with_one_process_number_never_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, real = tmp_path / "README.md", os.replace

    def replace(source: Path, target: Path) -> None:
        monkeypatch.setattr(os, "replace", real)
        write_whole(path, b"theirs")  # from beginning to end, before ours takes its last step
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    write_whole(path, b"ours")
    assert path.read_bytes() == b"ours"
    assert list(tmp_path.iterdir()) == [path]


def test_whole_files_replace_and_make_folders(tmp_path: Path):
    path = tmp_path / "a" / "b.txt"
    write_whole(path, b"one")
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert [entry.name for entry in path.parent.iterdir()] == ["b.txt"]


def test_a_name_may_be_as_long_as_the_disk_allows_and_no_longer(tmp_path: Path):
    write_whole(tmp_path / ("x" * 255), b"all")
    assert (tmp_path / ("x" * 255)).read_bytes() == b"all"
    for name in ("x" * 256, "y" * 5000):
        with pytest.raises(UserError, match="File name too long"):
            write_whole(tmp_path / name, b"")
    assert len(list(tmp_path.iterdir())) == 1


def test_json_that_is_nested_too_deeply_is_damaged():
    with pytest.raises(UserError, match="nested too deeply"):
        decode_record(b"[" * 100_000, Sample, "here", "Look.")
