"""``evalcard card --check``: what is meant by its argument, what it prints, and its exit codes."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from evalcard.card.figures import Figure, Sketch
from evalcard.card.options import CARD_FILE, CardOptions
from evalcard.card.render import write_cards
from evalcard.card.section import BEGIN
from evalcard.cli.checked import check
from evalcard.compare.comparison import compare_answers
from evalcard.compare.pairing import Answered
from evalcard.errors import UserError
from evalcard.results.files import encode_record
from evalcard.results.records import ModelRecord, ProgressRecord, RowRecord, RunRecord, TaskRecord
from evalcard.results.store import RunFolder

GOOD = "---\nlicense: mit\nbase_model: acme/toy\nbase_model_relation: quantized\n---\n\n# Toy\n\n"
TABLE = "| Task | Baseline | Compressed | Recovery |\n|---|---|---|---|\n| A | 50.0 | 49.0 | {recovery} |\n"
PIXEL = b"\x89PNG\r\n\x1a\n" + bytes(50)
TASK = TaskRecord.model_validate(
    {"name": "a", "source": "file", "version": "1", "metric": "acc", "filter": "none", "category": "general",
     "chance": 0.0, "higher_is_better": True, "num_fewshot": 0, "repeats": 1, "decoding": "greedy",
     "chat_template": False, "items_total": 20, "items_selected": 20, "selection": "all"}
)  # fmt: skip


@pytest.fixture
def make_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    def make(slugs: tuple[str, ...], scheme: str | None = None, done: int = 20, text: str | None = None) -> Path:
        facts = {"name": "acme/toy", "hub_id": "acme/toy", "revision": None, "weights_digest": None, "numerics": None,
                 "tokenizer_digest": "t", "template_digest": None}  # fmt: skip
        models = [ModelRecord(slug="toy", role="baseline", scheme=None, **facts)]
        models += [ModelRecord(slug=slug, role="compressed", scheme=scheme, **facts) for slug in slugs]
        progress = [
            ProgressRecord(
                model=one.slug,
                task="a",
                expected=20,
                done=done if one.scheme or scheme is None else 20,
                reused=0,
                seconds=1.0,
            )
            for one in models
        ]
        run = RunRecord(
            schema=1,
            name="a-0a1b2c3d",
            created="2026-11-30T10:00:00+00:00",
            finished="2026-11-30T11:00:00+00:00",
            asked={},
            resolved={},
            models=models,
            tasks=[TASK],
            rows=[RowRecord(name="a", tasks=["a"], rule="task")],
            progress=progress,
            versions={},
            hardware={},
            seed=1,
            command=[],
            git=None,
        )
        folder = tmp_path / "results" / "a-0a1b2c3d"
        monkeypatch.setattr(Sketch, "drawn", lambda self: Figure(self.name, self.alt, PIXEL, PIXEL))
        answers = {
            model.slug: {"a": {(n, 0): Answered(int(n < 10), "correct" if n < 10 else "wrong", "stop", f"i{n}", f"p{n}")
                               for n in range(20)}}
            for model in models
        }  # fmt: skip
        stored = RunFolder(folder)
        stored.write_run(run)
        comparison = compare_answers(run, answers)
        stored.write_comparison(comparison)
        stored.write_bytes(CARD_FILE, encode_record(CardOptions(base_model="acme/toy", license="mit")))
        write_cards(stored, run, comparison)
        for place in [folder / "models" / slug for slug in slugs] + [folder] if text else []:
            (place / "README.md").write_text(text, encoding="utf-8")
        return folder

    return make


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_args: object) -> None:
        raise AssertionError("a check asks no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def test_a_card_of_somebody_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    card = tmp_path / "README.md"
    card.write_text(GOOD + TABLE.format(recovery="98.0"), encoding="utf-8")
    assert check(str(card), tmp_path) == 0
    assert capsys.readouterr().out == (
        "no errors and no warnings in 1 card; 1 recovery and no averages in 1 table were reckoned anew.\n"
    )
    card.write_text(GOOD + TABLE.format(recovery="99.0"), encoding="utf-8")
    assert check(str(tmp_path), tmp_path) == 1
    first, last = capsys.readouterr().out.splitlines()
    where = f"{card}:11: error: table on line 9, row 'A'"
    assert first.startswith(f"{where}: prints a recovery of 99.0; 49.0 of 50.0 is 98.0")
    assert last.startswith("1 error and no warnings in 1 card")


def test_what_lies_beside_the_card_is_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / ".eval_results").mkdir()
    (tmp_path / ".eval_results" / "a.yaml").write_text("- value: 1.5\n", encoding="utf-8")
    (tmp_path / "there.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    (tmp_path / "README.md").write_text(GOOD + "![a](there.png) ![b](gone.png)\n", encoding="utf-8")
    assert check(str(tmp_path), tmp_path) == 1
    out = capsys.readouterr().out
    assert "gone.png" in out and "there.png" not in out
    assert f"{tmp_path / 'README.md'}: error: .eval_results/a.yaml, line 1: [0].dataset: it is required" in out
    assert "no table of a baseline and a compressed model was found" in out


def test_a_run_is_checked_with_all_of_its_cards(make_run: Callable[..., Path], capsys: pytest.CaptureFixture[str]):
    folder = make_run(("toy-w8a8", "toy-w4a16"))
    for target in ("latest", folder.name, str(folder)):
        assert check(target, folder.parent) == 0
        assert capsys.readouterr().out.startswith("no errors and no warnings in 3 cards; 2 recoveries and no")


def test_what_keeps_a_run_from_being_published(make_run: Callable[..., Path], capsys: pytest.CaptureFixture[str]):
    folder = make_run(("toy-w8a8",), scheme="w8a8")
    assert check("latest", folder.parent) == 0
    assert "warning: model toy-w8a8: w8a8 was made while the weights loaded" in capsys.readouterr().out
    folder = make_run(("toy-w8a8",), done=19)
    assert check("latest", folder.parent) == 1
    assert "error: task a: 19 of 20 answers are there" in capsys.readouterr().out


def test_own_cards_have_their_marks(make_run: Callable[..., Path], capsys: pytest.CaptureFixture[str]):
    folder = make_run(("toy-w8a8",), text=GOOD)
    assert check("latest", folder.parent) == 1
    assert f"error: {BEGIN}: it is missing" in capsys.readouterr().out


def test_what_is_no_card_is_refused(make_run: Callable[..., Path], tmp_path: Path):
    with pytest.raises(UserError, match=r"no run 'nothing'.*README\.md"):
        check("nothing", tmp_path)
    bad = tmp_path / "bad.md"
    bad.write_bytes(b"\xff\xfe# A")
    with pytest.raises(UserError, match="no UTF-8 at byte 0"):
        check(str(bad), tmp_path)
    folder = make_run(("toy-w8a8",))
    (folder / "README.md").unlink()
    with pytest.raises(UserError, match=r"Write the cards first: evalcard card"):
        check("latest", folder.parent)


def test_a_terminal_obeys_no_card(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    card = tmp_path / "README.md"
    front = '---\nlicense: "a\\e[2Jb\\n::error::x"\n---\n# A\n\n'
    table = "| \x1b[31mT | Baseline | Compressed | Recovery |\n|---|---|---|---|\n| ##[x] | 50.0 | 49.0 | 99.0 |\n"
    card.write_text(front + table, encoding="utf-8")
    assert check(str(card), tmp_path) == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out and "##[" not in out and "\n::" not in out
