"""Ids that can be ones, and what must not leave the machine."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from evalcard.card.hub.local import check_repo_id, read_card
from evalcard.card.section import BEGIN
from evalcard.compare.comparison import compare_folder
from evalcard.errors import UserError
from evalcard.results.store import RunFolder


@pytest.mark.parametrize("repo", ["acme/toy", "a/b", "my-org/Toy_1.5B-w8a8", "0rg/x"])
def test_ids_that_can_be_ones(repo: str):
    assert check_repo_id(repo) == repo


@pytest.mark.parametrize(
    "repo",
    ["toy", "", "a/b/c", "a/", "/b", "a b/c", "a/b--c", "a/b..c", "a/.b", "a/-b", "a/b-", "a/b.", "a-/b", "a/b.git",
     "https://huggingface.co/a/b", "a/ü", "a/" + "x" * 97, "../b", "a/b\n"],
)  # fmt: skip
def test_ids_that_cannot(repo: str):
    with pytest.raises(UserError, match="ORG/NAME"):
        check_repo_id(repo)


@pytest.fixture
def folder(stored_run: Any, ours: str, png: Any) -> RunFolder:
    """A finished run of a checkpoint that was compressed elsewhere, with its card."""
    path = stored_run(slugs=("tiny", "tiny-w8a8"), schemes=(None, None)).add("sums", [1, 1, 0], [1, 0, 0]).write()
    made = RunFolder(path)
    made.write_comparison(compare_folder(made))
    made.write_text("models/tiny-w8a8/README.md", ours)
    made.write_bytes("models/tiny-w8a8/figures/recovery.png", png("0" * 64))
    return made


def test_what_lies_beside_a_card_goes_with_it_and_nothing_else(folder: RunFolder, ours: str, png: Any):
    place = folder.path / "models/tiny-w8a8"
    (place / "model.safetensors").write_bytes(b"weights")
    (place / "figures/secret.txt").write_text("no")
    card = read_card(folder, folder.read_run(), None)
    assert card.text == ours and card.base_model == "acme/toy-1b"
    assert dict(card.files) == {"figures/recovery.png": png("0" * 64)}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("base_model: acme/toy-1b\nbase_model_relation: quantized\n", "", "--base-model"),
        ("license: apache-2.0", "license: apache2", "apache-2.0"),
        ("figures/recovery.png", "figures/missing.png", "missing.png"),
        ("Recovery is", "See /home/someone/models/toy. Recovery is", "/home/someone"),
    ],
)
def test_a_card_that_is_wrong_is_refused(folder: RunFolder, ours: str, old: str, new: str, said: str):
    folder.write_text("models/tiny-w8a8/README.md", ours.replace(old, new))
    with pytest.raises(UserError) as caught:
        read_card(folder, folder.read_run(), None)
    assert said in str(caught.value) and caught.value.exit_code == 2


def test_a_card_without_marks_is_rendered_anew_and_refused_where_that_does_not_help(
    folder: RunFolder, ours: str, monkeypatch: pytest.MonkeyPatch
):
    path = "models/tiny-w8a8/README.md"
    folder.write_text(path, ours.replace(BEGIN, ""))
    monkeypatch.setattr("evalcard.card.hub.local._write", lambda *_: folder.write_text(path, ours))
    assert read_card(folder, folder.read_run(), None).text == ours
    folder.write_text(path, ours.replace(BEGIN, ""))
    monkeypatch.setattr("evalcard.card.hub.local._write", lambda *_: None)
    with pytest.raises(UserError, match="lacks the lines"):
        read_card(folder, folder.read_run(), None)


def test_the_model_has_to_be_named_where_there_are_several(stored_run: Any, tmp_path: Path):
    slugs = ("tiny", "one", "two")
    path = stored_run(slugs=slugs, schemes=(None, None, None)).add("sums", [1, 1], [1, 0], [0, 1]).write()
    run = RunFolder(path).read_run()
    with pytest.raises(UserError, match="several compressed models: one, two"):
        read_card(RunFolder(path), run, None)
    with pytest.raises(UserError, match="no compressed model 'tiny'.*one, two"):
        read_card(RunFolder(path), run, "tiny")


HOSTILE = "m|o`id`$(id) x"


def test_a_command_to_copy_runs_nothing_that_a_name_holds(stored_run: Any, folder: RunFolder):
    made = stored_run("scheme", slugs=("tiny", "tiny-w8a8"), schemes=(None, "w8a8")).add("sums", [1, 1], [1, 0])
    other = RunFolder(made.write())
    other.write_comparison(compare_folder(other))
    run = other.read_run()
    models = [model.model_copy(update={"name": HOSTILE}) for model in run.models]
    with pytest.raises(UserError, match="no checkpoint") as raised:
        read_card(other, run.model_copy(update={"models": models}), None)
    (command,) = re.findall(r"`(evalcard quantize .*?--out) ", str(raised.value))
    assert shlex.split(command) == ["evalcard", "quantize", HOSTILE, "--scheme", "w8a8", "--out"]
    moved = RunFolder(folder.path.rename(folder.path.with_name(HOSTILE)))
    card = moved.path / "models/tiny-w8a8/README.md"
    card.write_text(card.read_text().replace("base_model: acme/toy-1b\nbase_model_relation: quantized\n", ""))
    with pytest.raises(UserError, match="--base-model") as raised:
        read_card(moved, moved.read_run(), None)
    (command,) = re.findall(r"`(evalcard card .*?--base-model) ", str(raised.value))
    assert shlex.split(command) == ["evalcard", "card", str(moved.path), "--base-model"]
