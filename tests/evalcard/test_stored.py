"""Stored results read back and compared: which models are meant, and that nothing is written."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalcard.compare.comparison import compare_folder
from evalcard.errors import ComparisonRefused, UserError
from evalcard.results.records import SequentialRecord
from evalcard.results.store import RunFolder
from evalcard.stored import compare_results, load_stored

THREE = ("tiny", "tiny-w8a8", "tiny-w4a16")
SCORES = ([1, 1, 1, 0, 1, 1, 1, 0], [1, 1, 0, 0, 1, 1, 1, 1], [1, 0, 0, 0, 1, 1, 1, 0])


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "results"


def files_below(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_model_is_read_whole(stored_run: Callable[..., Any], out: Path):
    stored_run(seed=7).add("a", *SCORES[:2]).add("b", [1, 0], [0, 1]).write()
    model = load_stored(out, "some-run")
    assert (model.model.slug, model.prompts, model.seed, model.is_complete) == ("tiny-w8a8", "ids", 7, True)
    assert [row.name for row in model.rows] == ["a", "b"] and set(model.tasks) == {"a", "b"}
    assert [one.item_id for one in model.samples["a"]] == list(range(8))
    assert [verdict.outcome for verdict in model.verdicts["b"]] == ["wrong", "correct"]
    assert load_stored(out, "some-run", "baseline").model.slug == "tiny"
    assert load_stored(out, "some-run:tiny").model.slug == "tiny", "what is named is what is meant"


def test_several_models_must_be_told_apart(stored_run: Callable[..., Any], out: Path):
    stored_run(slugs=THREE).add("a", *SCORES).write()
    with pytest.raises(
        UserError, match="2 models that could be meant. Name one: some-run:tiny-w8a8, some-run:tiny-w4a16"
    ):
        load_stored(out, "some-run")
    assert load_stored(out, "some-run:w4a16").model.slug == "tiny-w4a16"


def test_a_run_of_one_model_needs_no_name(stored_run: Callable[..., Any], out: Path):
    stored_run("alone", slugs=("tiny",)).add("a", SCORES[0]).write()
    stored_run("later").add("a", *SCORES[:2]).write()
    assert load_stored(out, "alone").model.slug == "tiny"
    found = compare_results(out, "later", "alone")
    assert [model.slug for model in found.run.models] == ["tiny", "tiny-2"]
    assert found.compressed[0].model.slug == "tiny-2" and found.comparison.tasks[0].compressed[0].lost == 0


def test_without_a_second_the_run_is_compared_as_it_was(stored_run: Callable[..., Any], out: Path):
    path = stored_run(slugs=THREE).add("a", *SCORES).add("b", SCORES[1], SCORES[0], SCORES[2]).write()
    before = files_below(out)
    found = compare_results(out, "some-run")
    assert found.comparison == compare_folder(RunFolder(path))
    assert [model.model.slug for model in found.compressed] == ["tiny-w8a8", "tiny-w4a16"]
    assert files_below(out) == before, "nothing is written"


def test_a_model_and_a_row_of_a_run_can_be_picked(stored_run: Callable[..., Any], out: Path):
    stored_run(slugs=THREE).add("a", *SCORES).add("b", *SCORES).write()
    found = compare_results(out, "some-run:w4a16", rows=["b"])
    assert [row.task for row in found.comparison.tasks] == ["b"]
    assert [one.model for one in found.comparison.tasks[0].compressed] == ["tiny-w4a16"]
    assert [task.name for task in found.run.tasks] == ["b"] and found.comparison.averages == []
    with pytest.raises(UserError, match="--task c: some-run:tiny has no such row. Its rows are: a, b"):
        compare_results(out, "some-run:w4a16", rows=["c"])


def test_an_incomplete_run_is_compared_on_common_items_alone(stored_run: Callable[..., Any], out: Path):
    run = stored_run(is_finished=False).add("a", *SCORES[:2])
    run.answers["tiny-w8a8", "a"] = run.answers["tiny-w8a8", "a"][:5]
    run.write()
    with pytest.raises(ComparisonRefused, match="incomplete.*--common-items"):
        compare_results(out, "some-run")
    found = compare_results(out, "some-run", common_items=True)
    assert found.comparison.tasks[0].n == 5


def test_common_items_of_several_models_need_a_name(stored_run: Callable[..., Any], out: Path):
    stored_run(slugs=THREE).add("a", *SCORES).write()
    with pytest.raises(UserError, match="--common-items compares two models. Name one: some-run:tiny-w8a8"):
        compare_results(out, "some-run", common_items=True)
    assert compare_results(out, "some-run:w8a8", common_items=True).comparison.tasks[0].n == 8


def test_a_run_without_a_compressed_model_has_nothing_of_its_own(stored_run: Callable[..., Any], out: Path):
    stored_run(slugs=("tiny",)).add("a", SCORES[0]).write()
    with pytest.raises(UserError, match="no compressed model.*evalcard compare BASELINE COMPRESSED"):
        compare_results(out, "some-run")


def test_two_runs_are_joined(stored_run: Callable[..., Any], out: Path):
    stored_run("first").add("a", *SCORES[:2]).write()
    stored_run("second").add("a", SCORES[1], SCORES[2]).write()
    found = compare_results(out, "first", "second")
    (row,) = found.comparison.tasks
    assert (row.baseline.score, row.compressed[0].score) == (6 / 8, 4 / 8)
    assert (row.compressed[0].lost, row.compressed[0].gained) == (2, 0)
    assert (found.baseline.origin, found.compressed[0].origin) == ("first:tiny", "second:tiny-w8a8")
    assert [run.name for run in found.runs] == ["first", "second"]


def test_a_run_that_stopped_early_says_so_beside_another(stored_run: Callable[..., Any], out: Path):
    stopped = stored_run("stopped").add("a", *SCORES[:2]).add("b", *SCORES[:2])
    path = stopped.write()
    record = SequentialRecord(
        row="a", limit=95.0, confidence=0.95, items=80, used=8, decision="PASS", low=95.1, high=None
    )
    with RunFolder.open(out, "stopped") as folder:
        folder.write_run(folder.read_run().model_copy(update={"sequential": [record]}))
    stored_run("whole").add("a", *SCORES[:2]).add("b", *SCORES[:2]).write()
    for first, second in (("stopped", "whole"), ("whole", "stopped")):
        health = compare_results(out, first, second).comparison.health
        assert [one.row for one in health if "stopped as soon as its gate" in one.finding] == ["a"], path


def test_damage_is_the_users_to_know(stored_run: Callable[..., Any], out: Path):
    path = stored_run().add("a", *SCORES[:2]).write()
    (path / "verdicts" / "tiny" / "a.jsonl").write_text("{\n")
    with pytest.raises(UserError, match=r"a\.jsonl, line 1, is damaged"):
        compare_results(out, "some-run")


@pytest.fixture
def foreign(stored_run: Callable[..., Any], out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is read as another harness's results: two models, whose prompts are known as text."""
    stored_run("theirs").add("a", *SCORES[:2]).write()
    models = [
        replace(load_stored(out, f"theirs:{slug}"), origin=f"harness 1: {slug}; older files not used", prompts="text")
        for slug in ("tiny", "tiny-w8a8")
    ]
    folder = tmp_path / "harness"
    folder.mkdir()
    monkeypatch.setattr("evalcard.results.imported.detect.is_foreign", lambda path: path == folder)
    monkeypatch.setattr(
        "evalcard.results.imported.load.import_results",
        lambda path, model: [one for one in models if path == folder and model in (None, one.model.slug)],
    )
    return folder


def test_results_of_another_harness_stand_beside_a_run(stored_run: Callable[..., Any], out: Path, foreign: Path):
    stored_run("ours").add("a", *SCORES[:2]).write()
    found = compare_results(out, "ours", f"{foreign}:tiny-w8a8")
    (row,) = found.comparison.tasks
    assert (row.baseline.score, row.compressed[0].score) == (6 / 8, 6 / 8)
    assert (row.compressed[0].lost, row.compressed[0].gained) == (1, 1)
    assert [run.name for run in found.runs] == ["ours"], "what they were asked is in their own files"
    assert found.run.name == "ours:tiny against harness 1: tiny-w8a8"
    (finding,) = [one for one in found.comparison.health if "Prompts" in one.finding]
    assert "of tiny the tokens are known, of tiny-w8a8 the text is known" in finding.finding


def test_their_models_must_be_told_apart_as_well(out: Path, foreign: Path):
    with pytest.raises(UserError, match=f"2 models that could be meant. Name one: {foreign}:tiny, {foreign}:tiny-w8a8"):
        compare_results(out, str(foreign), str(foreign))
    with pytest.raises(UserError, match="do not say what was compressed.*BASELINE COMPRESSED"):
        compare_results(out, str(foreign))
    found = compare_results(out, f"{foreign}:tiny", f"{foreign}:tiny-w8a8")
    assert not [one for one in found.comparison.health if "Prompts" in one.finding], "both are text, and equal"
