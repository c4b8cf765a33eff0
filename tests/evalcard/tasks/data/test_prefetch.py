"""Data sets are fetched name by name, and where each lies is said."""

from pathlib import Path
from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.tasks.data.prefetch import Fetched, prefetch


def test_what_lies_in_a_data_root_is_only_named(toys: Any):
    sums, choices = prefetch([f"{toys.path('toy_sums')},{toys.path('toy_mc')}"], str(toys.data_root))
    assert sums == Fetched(toys.path("toy_sums"), (f"toy/sums: {toys.data_root}/toy/sums",), 12)
    assert choices.places == (f"toy/choice: {toys.data_root}/toy/choice",) and choices.documents == 14


def test_one_that_is_missing_stops_no_other(toys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "t.yaml").write_text(
        "task: t\ndataset_path: no-such-org/no-such-set\ntest_split: test\noutput_type: generate_until\n"
        "doc_to_text: x\ndoc_to_target: y\n"
    )
    missing, there = prefetch([str(tmp_path / "t.yaml"), toys.path("toy_sums")], str(toys.data_root))
    assert missing.error and "no-such-org/no-such-set" in missing.error and "HF_HUB_OFFLINE is set" in missing.error
    assert (missing.places, missing.documents) == ((), 0) and there.documents == 12 and there.error is None


def test_a_data_file_and_data_of_the_librarys_cache(tmp_path: Path):
    path = tmp_path / "own.jsonl"
    path.write_text('{"question": "q", "answer": "a"}\n')
    (tmp_path / "t.yaml").write_text(
        f"task: t\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {path}}}, cache_dir: {tmp_path / 'c'}}}\n"
        "test_split: test\noutput_type: generate_until\ndoc_to_text: '{{question}}'\ndoc_to_target: '{{answer}}'\n"
        "generation_kwargs: {until: []}\n"
    )
    own, cached = prefetch([str(path), str(tmp_path / "t.yaml")])
    assert own.places == (str(path.resolve()),)
    assert cached.places[0].startswith(f"json: {tmp_path / 'c'}") and cached.documents == 1


def test_unknown_names_fail_before_anything_is_fetched(toys: Any):
    with pytest.raises(UserError, match="unknown task 'no_such_task'"):
        next(prefetch([toys.path("toy_sums"), "no_such_task"], str(toys.data_root)))
