"""What an argument names: a run, one of its models, or files of another harness."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.results.references import locate, pick


@pytest.fixture
def out(stored_run: Callable[..., Any], tmp_path: Path) -> Path:
    stored_run("first", slugs=("tiny", "tiny-w8a8", "tiny-w4a16")).add("a", [1, 0], [1, 1], [0, 0]).write()
    return tmp_path / "results"


def test_a_name_a_folder_and_its_record_lead_to_the_same_run(out: Path):
    for given in ("first", "latest", str(out / "first"), str(out / "first" / "run.json")):
        found = locate(out, given)
        assert (found.path, found.model) == (out / "first", None), given
        assert found.folder is not None and found.folder.read_run().name == "first"


@pytest.mark.parametrize("given", ["first:tiny-w8a8", "latest:W8A8", "first:w8a8"])
def test_what_follows_a_colon_picks_a_model(out: Path, given: str):
    found = locate(out, given)
    assert found.folder is not None
    assert pick(found, found.folder.read_run().models).slug == "tiny-w8a8"


def test_the_baseline_is_picked_by_its_role(out: Path):
    found = locate(out, "first:baseline")
    assert found.folder is not None and pick(found, found.folder.read_run().models).slug == "tiny"


def test_a_path_that_holds_a_colon_is_whole(out: Path, stored_run: Callable[..., Any], tmp_path: Path):
    run = stored_run("plain").add("a", [1], [1]).write()
    odd = tmp_path / "odd:w8a8"
    run.rename(odd)
    assert locate(out, str(odd)).model is None
    assert locate(out, f"{odd}:w8a8").model == "w8a8"
    assert locate(out, f"{odd}:w8a8").path == odd


def test_a_name_of_several_models_lists_them(out: Path):
    found = locate(out, "first:tiny")
    assert found.folder is not None
    models = found.folder.read_run().models
    assert pick(found, models).slug == "tiny", "a slug goes before the name that all of them share"
    with pytest.raises(UserError, match="2 models 'tiny'. Name one: first:tiny-w8a8, first:tiny-w4a16"):
        pick(found, models[1:])
    with pytest.raises(UserError, match="no model 'w9' *. Name one: first:tiny, first:tiny-w8a8"):
        pick(locate(out, "first:w9"), models)


def test_what_is_not_there_names_the_runs_that_are(out: Path):
    with pytest.raises(UserError, match="no run 'second'.*first .complete..*another harness"):
        locate(out, "second")


def test_a_folder_without_results_is_no_result(out: Path, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="empty holds no stored result.*lm-eval"):
        locate(out, str(tmp_path / "empty"))
