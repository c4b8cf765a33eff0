"""``evalcard report``: where the page goes, what is said, what is refused."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalcard.cli.main import invoke
from evalcard.compare.comparison import compare_run
from evalcard.results.store import RunFolder


@pytest.fixture
def report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """(exit code, stdout, stderr)."""

    def run(*args: str) -> tuple[int, str, str]:
        code = invoke(["report", "--out", str(tmp_path / "results"), *args])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def compared(stored_run: Callable[..., Any]) -> Path:
    path: Path = stored_run().add("a", [1] * 8 + [0] * 4, [1] * 6 + [0] * 6).write()
    folder = RunFolder(path)
    run = folder.read_run()
    slugs = [model.slug for model in run.models]
    verdicts = {slug: {"a": folder.read_verdicts(slug, "a")} for slug in slugs}
    samples = {slug: {"a": list(folder.journal(slug, "a").read().values())} for slug in slugs}
    folder.write_comparison(compare_run(run, verdicts, samples))
    return path


def test_the_page_lies_in_the_run_and_says_what_is_missing(report: Callable[..., Any], compared: Path):
    code, out, err = report()
    assert code == 0
    assert re.fullmatch(re.escape(str(compared / "report.html")) + r" \(12 items, \d+\.\d MB\)\n", out)
    assert err.startswith("note: questions or prompts are not shown where they could not be read:")
    page = (compared / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and "75.00 %" in page
    assert page.count("data:image/png;base64,") >= 4, "figures for light and dark"


def test_another_place_is_taken_and_the_run_stays_as_it_was(report: Callable[..., Any], compared: Path, tmp_path: Path):
    before = {path: path.stat().st_mtime_ns for path in compared.rglob("*") if path.is_file()}
    target = tmp_path / "pages" / "one.html"
    assert report("some-run", "--out-file", str(target))[0] == 0
    assert target.exists()
    assert {path: path.stat().st_mtime_ns for path in compared.rglob("*") if path.is_file()} == before


def test_equal_runs_give_equal_pages(report: Callable[..., Any], compared: Path):
    report()
    first = (compared / "report.html").read_bytes()
    report()
    assert (compared / "report.html").read_bytes() == first


def test_what_cannot_be_reported_is_refused(report: Callable[..., Any], stored_run: Callable[..., Any], tmp_path: Path):
    code, out, err = report("nothing")
    assert (code, out) == (2, "") and "nothing" in err
    stored_run("bare").add("a", [1, 0], [1, 1]).write()
    code, out, err = report("bare")
    assert (code, out) == (2, "") and "comparison.json" in err
    assert not (tmp_path / "results" / "bare" / "report.html").exists()


def test_the_gates_word_stands_at_the_head(report: Callable[..., Any], compared: Path, tmp_path: Path):
    assert invoke(["gate", "--out", str(tmp_path / "results"), "--min-recovery", "99.5", "some-run"]) in (1, 3, 4)
    verdict = RunFolder(compared).read_comparison().verdict
    assert verdict is not None
    outcome = verdict["models"][0]["outcome"]
    assert report()[0] == 0
    page = (compared / "report.html").read_text(encoding="utf-8")
    head = page[page.index('<ul class="models">') : page.index("</ul>", page.index('<ul class="models">'))]
    assert f">{outcome}</span>" in head
    assert "Release gate:" in page and "99.5" in page


def test_the_browser_is_opened_only_where_that_is_asked_for(
    report: Callable[..., Any], compared: Path, monkeypatch: pytest.MonkeyPatch
):
    opened: list[str] = []
    monkeypatch.setattr("click.launch", opened.append)
    report()
    assert opened == []
    report("--open")
    assert opened == [(compared / "report.html").resolve().as_uri()]
