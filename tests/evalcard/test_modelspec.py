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


def test_a_gguf_file_is_a_model(tmp_path: Path):
    for name in ("tiny.Q4_K_M.gguf", "a:b.GGUF"):
        file = tmp_path / name
        for text in (str(file), f"{file}:w8a8"):  # whether it is there is the engine's to say
            model = parse_model(text)
            scheme = "w8a8" if text.endswith("w8a8") else None
            assert (model.source, model.scheme, model.hub_id, model.name) == (str(file), scheme, None, file.stem)
            file.touch()
    assert parse_model("here.gguf").hub_id is None and parse_model("org/file.gguf").revision is None
    with pytest.raises(UserError, match="unknown scheme 'Q4_K_M'"):
        parse_model(f"{tmp_path}/tiny.Q4_K_M.gguf:Q4_K_M")


def test_the_name_of_a_linked_gguf_file_is_that_of_the_link(tmp_path: Path):
    """As the Hub's cache has it: the name links to a file that is named by its hash."""
    (tmp_path / "0f3e9c").touch()
    (tmp_path / "tiny.gguf").symlink_to(tmp_path / "0f3e9c")
    assert parse_model(f"{tmp_path}/tiny.gguf").name == "tiny"


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
