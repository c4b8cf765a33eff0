"""A run's cards against what the run gives: whatever is edited in evalcard's own part is told, and nothing else is."""

from collections.abc import Callable
from typing import Any

import pytest

from evalcard.card.figures import Figure, Sketch
from evalcard.card.hub.local import read_card
from evalcard.card.options import CARD_FILE, CardOptions
from evalcard.card.section import BEGIN, END
from evalcard.cli.checked import check
from evalcard.cli.main import invoke
from evalcard.compare.comparison import compare_folder
from evalcard.errors import UserError
from evalcard.results.files import encode_record
from evalcard.results.store import RunFolder

CARD = "models/tiny-w8a8/README.md"
RESULTS = "models/tiny-w8a8/.eval_results/gsm8k.yaml"
PIXEL = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0:~\x9bU\0\0\0\nIDATx\x9cch\0\0\0\x82\0\x81w\xcdr\xb6"
    b"\0\0\0\0IEND\xaeB`\x82"
)


@pytest.fixture
def make_run(stored_run: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., RunFolder]:
    """A gated run of compressed checkpoints with its cards; nothing is drawn."""
    monkeypatch.setattr(Sketch, "drawn", lambda self: Figure(self.name, self.alt, PIXEL, PIXEL))

    def make(*slugs: str, **words: Any) -> RunFolder:
        made = stored_run(slugs=("tiny", *slugs), schemes=(None,) * (1 + len(slugs)))
        right = [[1] * (40 - lost) + [0] * (20 + lost) for lost in range(1 + len(slugs))]
        made.add("gsm8k", *right, source="lm_eval", metric="exact_match")
        folder = RunFolder(made.write())
        folder.write_comparison(compare_folder(folder))
        options = CardOptions(base_model="acme/toy-1b", license="apache-2.0", **words)
        folder.write_bytes(CARD_FILE, encode_record(options))
        assert invoke(["gate", str(folder.path), "--min-recovery", "50"]) == 0
        return folder

    return make


EDITS = [
    ("      value: 65.0", "      value: 66.0", "model-index[0].results[0].metrics[0].value: it is 66.0"),
    ("name: gsm8k (0-shot", "name: gsm8k (5-shot", "model-index[0].results[0].metrics[0].name"),
    ("license: apache-2.0", "license: mit", "license: it is 'mit', and the run gives 'apache-2.0'"),
    ("pipeline_tag: text-generation\n", "", "pipeline_tag: it is missing, and the run gives 'text-generation'"),
    ("tags:\n- evalcard\n", "tags:\n- other\nlanguage: en\n", "language: it is 'en', and the run gives none"),
    (" | 1 | 0 | 1 |", " | 0 | 0 | 1 |", "text: it says "),
    (" | 1 | 0 | 1 |", " | 1 | 2 | 1 |", "text: it says "),
    (" | 1 | 0 | 1 |", " | 1 | 0 | 0.5 |", "text: it says "),
    ("(×1.05)", "(×1.00)", "×1.00) |', and the run gives "),
    ("50\xa0% | 97.50\xa0%", "50\xa0% | 99.50\xa0%", "text: it says "),
    ("1 that the baseline had right was lost", "none was lost", "text: it says "),
    ("## Fidelity", "Better than ever.\n\n## Fidelity", "'Better than ever.', and the run gives '## Fidelity'"),
    ("**Release gate: passed**, decided by the interval at 95\xa0%.\n", "", "text: it is empty"),
    ("gsm8k 1 lost and 0 gained.", "gsm8k nothing lost.", "text: it says "),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "said"), EDITS)
def test_an_edit_of_what_evalcard_wrote_is_refused_by_both_commands(
    make_run: Callable[..., RunFolder], capsys: pytest.CaptureFixture[str], old: str, new: str, said: str
):
    folder = make_run("tiny-w8a8")
    text = (folder.path / CARD).read_text(encoding="utf-8")
    old, new = (old, new) if old in text else (old.replace("\xa0", " "), new.replace("\xa0", " "))
    assert text.count(old) == 1, old
    for page in (CARD, "README.md"):
        page_text = (folder.path / page).read_text(encoding="utf-8")
        folder.write_text(page, page_text.replace(old, new))
    capsys.readouterr()
    assert check(str(folder.path), folder.path.parent) == 1
    errors = [line for line in capsys.readouterr().out.splitlines() if ": error: " in line]
    for page in (CARD, "README.md"):
        assert any(str(folder.path / page) in line and said in line for line in errors), errors
    assert all(f"`evalcard card {folder.path}` writes it anew" in line for line in errors)
    with pytest.raises(UserError) as caught:
        read_card(folder, folder.read_run(), None)
    assert said in str(caught.value) and caught.value.exit_code == 2
    assert f"`evalcard card {folder.path}` writes it anew" in str(caught.value)
    assert invoke(["card", str(folder.path), "--check", "--license", "apache-2.0"]) == 0
    assert read_card(folder, folder.read_run(), None).text == text


def test_the_line_that_differs_is_named_and_shown_where_it_does(make_run: Callable[..., RunFolder]):
    folder = make_run("tiny-w8a8")
    text = (folder.path / CARD).read_text(encoding="utf-8")
    changed = text.replace("the gate goes by the interval.", "the gate goes by luck.")
    number = next(n for n, line in enumerate(changed.split("\n"), 1) if "goes by luck" in line)
    folder.write_text(CARD, changed)
    with pytest.raises(UserError, match=f"line {number}: text: .*goes by luck.*goes by the interval"):
        read_card(folder, folder.read_run(), None)


@pytest.mark.parametrize("name", ["gsm8k", "mmlu"])
def test_results_are_those_of_the_run(
    make_run: Callable[..., RunFolder], capsys: pytest.CaptureFixture[str], name: str
):
    folder = make_run("tiny-w8a8")
    content = (folder.path / RESULTS).read_text(encoding="utf-8")
    assert "value: 65.0\n" in content
    folder.write_text(f"models/tiny-w8a8/.eval_results/{name}.yaml", content.replace("value: 65.0\n", "value: 66.0\n"))
    said = {"gsm8k": "it says '  value: 66.0', and the run gives '  value: 65.0'", "mmlu": "no such results"}[name]
    assert check(str(folder.path), folder.path.parent) == 1
    assert said in capsys.readouterr().out
    with pytest.raises(UserError, match=said):
        read_card(folder, folder.read_run(), None)


def test_what_is_around_evalcards_part_is_free(make_run: Callable[..., RunFolder], capsys: pytest.CaptureFixture[str]):
    """Other keys, more tags, another title, words before and behind, line breaks and blanks at the ends of lines."""
    folder = make_run("tiny-w8a8", notes="Ask me.")
    text = (folder.path / CARD).read_text(encoding="utf-8")
    for old, new in (
        ("- evalcard\n", "- evalcard\n- int8\ndatasets:\n- acme/toys\n"),
        ("# tiny\n", "# The tiny model\n\nWords of mine.\n"),
        (BEGIN, f"{BEGIN}  "),
        (END, f"{END}\n\nMore of them."),
    ):
        assert text.count(old) >= 1
        text = text.replace(old, new, 1)
    (folder.path / CARD).write_bytes(text.replace("\n", "\r\n").encode())
    capsys.readouterr()
    assert check(str(folder.path), folder.path.parent) == 0
    assert capsys.readouterr().out.startswith("no errors and no warnings in 2 cards")
    assert "More of them." in read_card(folder, folder.read_run(), None).text


def test_the_page_of_several_models_is_all_evalcards(
    make_run: Callable[..., RunFolder], capsys: pytest.CaptureFixture[str]
):
    folder = make_run("tiny-w8a8", "tiny-w4a16")
    capsys.readouterr()
    assert check(str(folder.path), folder.path.parent) == 0
    assert "note:" not in capsys.readouterr().out
    page = folder.path / "README.md"
    page.write_text(page.read_text(encoding="utf-8").replace("65.00", "66.00"), encoding="utf-8")
    assert check(str(folder.path), folder.path.parent) == 1
    assert f"{page}:" in capsys.readouterr().out


def test_a_result_that_changed_makes_the_card_an_old_one(make_run: Callable[..., RunFolder]):
    folder = make_run("tiny-w8a8")
    read_card(folder, folder.read_run(), None)
    folder.write_comparison(compare_folder(folder))  # without the gate's verdict
    with pytest.raises(UserError, match="Release gate: passed"):
        read_card(folder, folder.read_run(), None)


def test_notes_on_tables_are_given_of_what_others_wrote_only(
    make_run: Callable[..., RunFolder], capsys: pytest.CaptureFixture[str]
):
    folder = make_run("tiny-w8a8")
    unclear = "| Task | Model | Recovery |\n|---|---|---|\n| A | 50.0 | 98.0 |\n| B | 60.0 | 99.0 |\n"
    for place in (f"{unclear}\n{BEGIN}", BEGIN):
        template = f"---\n{{{{ front -}}}}\n---\n# T\n\n{place}\n\n{unclear}\n{END}\n"
        options = CardOptions(base_model="acme/toy-1b", license="mit", template_name="t.j2", template=template)
        folder.write_bytes(CARD_FILE, encode_record(options))
        assert invoke(["card", str(folder.path)]) == 0
        capsys.readouterr()
        assert check(str(folder.path), folder.path.parent) == 0
        notes = [line for line in capsys.readouterr().out.splitlines() if ": note: " in line]
        assert len(notes) == (2 if place != BEGIN else 0), notes


def test_a_comparison_that_cannot_be_read_is_told_once(
    make_run: Callable[..., RunFolder], capsys: pytest.CaptureFixture[str]
):
    folder = make_run("tiny-w8a8", "tiny-w4a16")
    (folder.path / "comparison.json").unlink()
    capsys.readouterr()
    assert check(str(folder.path), folder.path.parent) == 1
    assert capsys.readouterr().out.count("its cards cannot be held against its results") == 1
