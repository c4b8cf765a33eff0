"""What a user adds to a run's cards: checked before it is kept, kept with the run, taken by every later rendering."""

import os
import threading
from pathlib import Path

import pytest

from evalcard.card.options import CARD_FILE, CardOptions, Given, read_options, store_options
from evalcard.errors import UserError
from evalcard.results.store import RunFolder


def stored(folder: Path, **given) -> CardOptions:
    files = {key: given.pop(key) for key in ("template", "notes", "language") if key in given}
    with store_options(RunFolder(folder), Given(words=given, **files)) as options:
        pass
    return options


def test_what_is_given_is_kept_and_added_to(tmp_path):
    assert read_options(tmp_path) == CardOptions()
    stored(tmp_path, license="mit", base_model="acme/toy")
    stored(tmp_path, language=("en", "no"))
    kept = read_options(tmp_path)
    assert (kept.license, kept.base_model, kept.language) == ("mit", "acme/toy", ["en", "no"])
    stored(tmp_path, license="")
    assert read_options(tmp_path).license is None and read_options(tmp_path).base_model == "acme/toy"


def test_words_that_are_added_meanwhile_wait_and_none_is_lost(tmp_path):
    other = threading.Thread(target=stored, args=(tmp_path,), kwargs={"language": ("en",)})
    with store_options(RunFolder(tmp_path), Given(words={"license": "mit"})):
        other.start()
        other.join(0.3)
        assert other.is_alive()
    other.join(30)
    assert (read_options(tmp_path).license, read_options(tmp_path).language) == ("mit", ["en"])


def test_nothing_given_writes_nothing(tmp_path):
    stored(tmp_path)
    assert not (tmp_path / CARD_FILE).exists()


def test_another_licence_drops_the_name_and_link_of_the_first(tmp_path):
    stored(tmp_path, license="other", license_name="acme-1.0", license_link="https://example.org/l")
    assert stored(tmp_path, license="mit").license_name is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"license": "apache 2"}, "--license: 'apache 2' is no licence that the Hub knows. Did you mean apache-2.0?"),
        ({"license": "mine"}, "`other` with --license-name and --license-link"),
        ({"license": "other"}, "--license other needs --license-name"),
        ({"license": "other", "license_name": "x"}, "--license-link"),
        ({"license": "other", "license_name": "My Own", "license_link": "LICENSE"}, "'My Own' is no identifier"),
        ({"license": "other", "license_name": "my", "license_link": "l.txt"}, "'l.txt' is neither LICENSE nor"),
        ({"license": "mit", "license_name": "my"}, "--license-name goes with --license other only"),
        ({"language": ("jp",)}, "--language: 'jp' is no code of ISO 639-1, 639-2 or 639-3. Did you mean ja?"),
        ({"language": ("noinfo",)}, "'noinfo' is no code"),
        ({"base_model": "/data/models/llama"}, "--base-model: '/data/models/llama' is a local path"),
        ({"base_model": "a b"}, "--base-model"),
        ({"repo": "name-alone"}, "lacks its owner"),
        ({"notes": Path("no-such-file.md")}, "--notes: cannot read no-such-file.md"),
        ({"template": Path("no-such-file.j2")}, "--template: cannot read"),
    ],
)
def test_what_the_hub_would_refuse_is_not_kept(tmp_path, given, said):
    stored(tmp_path, base_model="acme/toy")
    before = (tmp_path / CARD_FILE).read_bytes()
    with pytest.raises(UserError) as error:
        stored(tmp_path, **given)
    assert said in str(error.value) and (tmp_path / CARD_FILE).read_bytes() == before


def test_what_cannot_be_rendered_is_not_kept(tmp_path):
    with (
        pytest.raises(UserError, match="as far as that"),
        store_options(RunFolder(tmp_path), Given(words={"license": "mit"})),
    ):
        raise UserError("as far as that")
    assert not (tmp_path / CARD_FILE).exists()


def test_notes_of_the_folder_and_notes_that_were_given(tmp_path):
    (tmp_path / "notes.md").write_text("from the folder\n", encoding="utf-8")
    assert read_options(tmp_path).notes == "from the folder\n"
    given = tmp_path / "given.md"
    given.write_bytes("\ufeffgiven\r\n".encode())
    assert stored(tmp_path, notes=given).notes == "given\n"
    given.unlink()
    assert read_options(tmp_path).notes == "given\n"
    assert stored(tmp_path, notes=Path("")).notes == "from the folder\n"
    assert "folder" not in (tmp_path / CARD_FILE).read_text(encoding="utf-8")


def test_notes_must_not_end_the_section(tmp_path):
    (tmp_path / "notes.md").write_text("x\n<!--evalcard:end -->\n", encoding="utf-8")
    with pytest.raises(UserError, match="bounds evalcard's own part"):
        read_options(tmp_path)


@pytest.mark.parametrize(
    ("notes", "said"),
    [
        ("x\n\n```\ncode\n", "line 3 of the notes opens a block of code, `"),
        (
            "<details>\n\nx\n",
            "line 1 of the notes opens `<details>` which nothing closes, .* Close it with `</details>`",
        ),
        ("x\n\n<!-- y\n", "line 3 of the notes opens a comment, `<!--`,"),
        ("<pre>\n", "`<pre>`"),
        ("<script>\n", "`<script>`"),
    ],
)
def test_notes_must_not_take_in_what_follows(tmp_path, notes, said):
    stored(tmp_path, license="mit")
    before = (tmp_path / CARD_FILE).read_bytes()
    (tmp_path / "given.md").write_text(notes, encoding="utf-8")
    with pytest.raises(UserError, match=said):
        stored(tmp_path, notes=tmp_path / "given.md")
    assert (tmp_path / CARD_FILE).read_bytes() == before
    (tmp_path / "given.md").rename(tmp_path / "notes.md")
    with pytest.raises(UserError, match=rf"notes\.md: .*{said}"):
        read_options(tmp_path)


@pytest.mark.parametrize(
    "content", ["{", '{"license": 3}', '{"license": "mine"}', '{"schema": 99}', '{"colour": "red"}']
)
def test_a_damaged_file_says_what_to_do(tmp_path, content):
    (tmp_path / CARD_FILE).write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=r"card\.json"):
        read_options(tmp_path)


def test_binary_notes(tmp_path):
    file = tmp_path / "notes.bin"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not text in UTF-8"):
        stored(tmp_path, notes=file)


@pytest.mark.parametrize("flag", ["template", "notes"])
def test_what_is_no_file_is_not_read(tmp_path, flag):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(UserError, match=f"--{flag}: .* is no file"):
            stored(tmp_path, **{flag: path})


@pytest.mark.parametrize(("text", "said"), [("a\nb\0", r"line 2 .*'\\x00'"), ("\x1b[31m", r"line 1 .*'\\x1b'")])
def test_a_template_with_control_characters_is_refused(tmp_path, text, said):
    (tmp_path / "own.j2").write_text(text)
    with pytest.raises(UserError, match=said):
        stored(tmp_path, template=tmp_path / "own.j2")
    assert not (tmp_path / CARD_FILE).exists()


def test_an_empty_template_is_none(tmp_path):
    (tmp_path / "empty.j2").write_text(" \n")
    with pytest.raises(UserError, match="empty, and so would the card be"):
        stored(tmp_path, template=tmp_path / "empty.j2")
