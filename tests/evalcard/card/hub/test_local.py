"""Ids that can be ones, and what must not leave the machine."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from evalcard.card.figures import Figure, Sketch
from evalcard.card.hub.local import check_repo_id, read_card
from evalcard.card.options import CARD_FILE, CardOptions
from evalcard.card.render import write_cards
from evalcard.card.section import BEGIN, END
from evalcard.compare.comparison import compare_folder
from evalcard.errors import UserError
from evalcard.results.files import encode_record
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


CARD = "models/tiny-w8a8/README.md"


@pytest.fixture
def folder(stored_run: Any, png: Any, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A finished run of a checkpoint that was compressed elsewhere, with its card; nothing is drawn."""
    monkeypatch.setattr(Sketch, "drawn", lambda self: Figure(self.name, self.alt, png("0" * 64), png("1" * 64)))
    made = stored_run(slugs=("tiny", "tiny-w8a8"), schemes=(None, None))
    made.add("gsm8k", [1] * 30 + [0] * 10, [1] * 29 + [0] * 11, source="lm_eval", metric="exact_match")
    kept = RunFolder(made.write())
    kept.write_comparison(compare_folder(kept))
    options = CardOptions(base_model="acme/toy-1b", license="apache-2.0")
    kept.write_bytes(CARD_FILE, encode_record(options))
    write_cards(kept, kept.read_run(), kept.read_comparison())
    return kept


def test_what_lies_beside_a_card_goes_with_it_and_nothing_else(folder: RunFolder, png: Any):
    place = folder.path / "models/tiny-w8a8"
    (place / "model.safetensors").write_bytes(b"weights")
    (place / "figures/secret.txt").write_text("no")
    card = read_card(folder, folder.read_run(), None)
    assert card.text == (place / "README.md").read_text(encoding="utf-8") and card.base_model == "acme/toy-1b"
    shown = ("recovery", "scores", "flips")
    assert {path: one for path, one in card.files.items() if path.endswith(".png")} == {
        f"figures/{name}{dark}.png": png(("1" if dark else "0") * 64) for name in shown for dark in ("", "-dark")
    }
    assert {path for path in card.files if not path.endswith(".png")} == {".eval_results/gsm8k.yaml"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("base_model: acme/toy-1b\nbase_model_relation: quantized\n", "", "--base-model"),
        ("license: apache-2.0", "license: apache2", "apache-2.0"),
        ("figures/recovery.png", "figures/missing.png", "missing.png"),
        (END, f"See /home/someone/models/toy.\n\n{END}", "/home/someone"),
    ],
)
def test_a_card_that_is_wrong_is_refused(folder: RunFolder, old: str, new: str, said: str):
    text = (folder.path / CARD).read_text(encoding="utf-8")
    assert old in text
    folder.write_text(CARD, text.replace(old, new))
    with pytest.raises(UserError) as caught:
        read_card(folder, folder.read_run(), None)
    assert said in str(caught.value) and caught.value.exit_code == 2


def test_a_card_without_marks_is_rendered_anew_and_refused_where_that_does_not_help(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
):
    text = (folder.path / CARD).read_text(encoding="utf-8")
    folder.write_text(CARD, text.replace(BEGIN, ""))
    assert read_card(folder, folder.read_run(), None).text == text
    folder.write_text(CARD, text.replace(BEGIN, ""))
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
