"""Whose files these are, by content."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from evalcard.results.imported.detect import found_in, is_foreign, kind_of

LM_EVAL = {"results": {}, "configs": {}, "versions": {}, "n-samples": {}}
LIGHTEVAL = {"config_general": {}, "results": {}, "versions": {}, "config_tasks": {}}
INSPECT = {"version": 2, "status": "success", "eval": {"task": "t"}, "plan": {}}
SAMPLE = {"doc_id": 0, "doc": {}, "target": "", "arguments": {}, "resps": [], "filtered_resps": []}


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (LM_EVAL, "lm_eval"),
        (LIGHTEVAL, "lighteval"),
        (INSPECT, "inspect"),
        (dict(reversed(INSPECT.items())), "inspect"),
        (dict(sorted(LM_EVAL.items())), "lm_eval"),
        ({"results": {}}, None),
        ([1], None),
    ],
)
def test_json_is_known_by_its_keys(tmp_path: Path, content: Any, kind: str | None):
    path = tmp_path / "any name.json"
    path.write_text(json.dumps(content, indent=1))
    assert kind_of(path) == kind and is_foreign(path) == (kind is not None)


@pytest.mark.parametrize("name", ["results_2026.json", "samples_x_2026.jsonl", "log.eval", "details_x_2026.parquet"])
@pytest.mark.parametrize("content", [b"", b"{}", b"{", b"\xff\xfe{}", b"PK\x03\x04 and no zip", b"PAR1", b"PAR1" * 9])
def test_a_name_alone_says_nothing(tmp_path: Path, name: str, content: bytes):
    path = tmp_path / name
    path.write_bytes(content)
    assert kind_of(path) is None and not is_foreign(tmp_path)


def test_samples_by_themselves(tmp_path: Path):
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(SAMPLE) + "\n" + "not looked at")
    (found,) = found_in(path)
    assert (found.kind, found.role) == ("lm_eval", "samples")


def test_an_archive_is_known_by_its_members(tmp_path: Path):
    for name, kind in (("header.json", "inspect"), ("_journal/start.json", "inspect"), ("word/document.xml", None)):
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            archive.writestr(name, "{}")
        assert kind_of(tmp_path / "a.zip") == kind, name


def test_a_run_of_evalcards_is_its_own(tmp_path: Path):
    """Also where another harness's results were put into it."""
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "results_2026.json").write_text(json.dumps(LM_EVAL))
    assert kind_of(tmp_path) is None
    assert kind_of(tmp_path / "results_2026.json") == "lm_eval", "named itself, it is what it is"


def test_folders_are_searched_and_hidden_files_are_not(tmp_path: Path):
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "results.json").write_text(json.dumps(LIGHTEVAL))
    (tmp_path / "notes.json").write_text("{}")
    assert not is_foreign(tmp_path)
    (deep / "r.json").write_text(json.dumps(LM_EVAL))
    assert [found.path for found in found_in(tmp_path)] == [deep / "r.json"]


def test_nothing_there(tmp_path: Path):
    assert kind_of(tmp_path / "missing") is None and kind_of(tmp_path) is None


UTF16 = json.dumps(INSPECT).encode("utf-16")


@pytest.mark.parametrize("content", [b"\xef\xbb\xbf" + json.dumps(INSPECT).encode(), UTF16])
def test_another_encoding_of_unicode_is_read(tmp_path: Path, content: bytes):
    (tmp_path / "log.json").write_bytes(content)
    assert kind_of(tmp_path / "log.json") == "inspect"


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.json", b"", "it is empty"),
        ("a.json", b'{"results": {', "Expecting"),
        ("a.json", b'{"results": ' + b"[" * 100_000, "recursion"),
        ("a.jsonl", b'{"doc_id": 0, "doc": ' + b"[" * 100_000, "recursion"),
        ("a.json", b'{"results": "\xe9"}', "decode"),
        ("a.eval", b"PK\x03\x04 and no zip", "zip file"),
    ],
)
def test_a_damaged_file_that_is_named_is_refused_with_what_is_wrong(
    tmp_path: Path, name: str, content: bytes, why: str
):
    from evalcard.errors import UserError
    from evalcard.results.references import locate

    path = tmp_path / name
    path.write_bytes(content)
    assert kind_of(path) is None
    with pytest.raises(UserError, match=f"{name} is damaged: .*{why}.*Copy the file anew") as error:
        locate(tmp_path, str(path))
    assert str(error.value).count("is damaged") == 1
