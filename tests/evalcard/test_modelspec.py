"""Models as they are written down: MODEL[:scheme], revisions, folders, URLs, the bundled one."""

from pathlib import Path

import pytest

from evalcard.errors import UserError
from evalcard.modelspec import parse_model


def test_last_colon_parts_model_and_scheme():
    model = parse_model("org/name:W8A8")
    assert (model.source, model.scheme, model.revision, model.hub_id) == ("org/name", "w8a8", None, "org/name")


def test_revision_of_a_hub_id():
    model = parse_model("org/name@refs/pr/1:w4a16")
    assert (model.source, model.revision, model.scheme) == ("org/name", "refs/pr/1", "w4a16")


def test_existing_folder_with_colon_is_taken_whole(tmp_path: Path):
    folder = tmp_path / "a:w8a8"
    folder.mkdir()
    model = parse_model(str(folder))
    assert (model.source, model.scheme, model.hub_id, model.name) == (str(folder), None, None, "a:w8a8")


def test_url_is_taken_whole():
    model = parse_model("http://127.0.0.1:8000/v1")
    assert (model.source, model.scheme, model.hub_id) == ("http://127.0.0.1:8000/v1", None, None)


def test_local_name_is_no_path(tmp_path: Path):
    (tmp_path / "m").mkdir()
    assert parse_model(f"{tmp_path}/m:w8a8").label == "m:w8a8"


def test_unknown_scheme_shows_near_matches():
    with pytest.raises(UserError, match=r"unknown scheme 'w8a'.*Did you mean w8a8"):
        parse_model("org/name:w8a")


@pytest.mark.parametrize("text", ["@dem", "@Demo", "@dem:w8a8"])
def test_a_bundled_model_that_is_none(text: str):
    with pytest.raises(UserError, match=r"unknown model '@.*did you mean @demo\?"):
        parse_model(text)
    assert parse_model("@demo:w8a8").label == "evalcard-demo:w8a8"


def test_the_demo_model_is_named_without_a_path():
    model = parse_model("@demo:w4a16")
    assert (model.name, model.hub_id, model.scheme) == ("evalcard-demo", None, "w4a16")
    assert Path(model.location).name == "model" and str(Path(model.location)) not in model.model_dump_json()
