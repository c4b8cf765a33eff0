"""What a log shows of long steps."""

import io

import pytest
from rich.console import Console

from evalcard.cli import progress
from evalcard.cli.progress import LineProgress, TerminalProgress, in_words, is_telling


@pytest.mark.parametrize(("seconds", "text"), [(3.4, "3 s"), (99, "99 s"), (100, "2 min"), (5400, "90 min"),
                                               (7200, "2.0 h")])  # fmt: skip
def test_durations(seconds: float, text: str):
    assert in_words(seconds) == text


def test_a_long_step_says_what_is_left(monkeypatch):
    clock = iter([0.0, 1.0, 10.0, 12.0, 20.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    out = io.StringIO()
    with LineProgress(Console(file=out)).step("baseline", total=40, done=10) as bar:
        for _ in range(4):
            bar.advance(5)
    assert out.getvalue().splitlines() == [
        "baseline: 20 of 40 items, 1.0/s, about 20 s left",
        "baseline: 30 of 40 items, 1.0/s, about 10 s left",
    ]


def test_the_first_answers_tell_no_time(monkeypatch):
    """One answer of 240 after seven seconds says nothing: the rest of its batch is about to come."""
    clock = iter([0.0, 7.0, 14.0, 28.0, 56.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    out = io.StringIO()
    with LineProgress(Console(file=out)).step("baseline", total=240, unit="answers") as bar:
        for count in (1, 1, 26, 28):
            bar.advance(count)
    assert out.getvalue().splitlines() == [
        "baseline: 1 of 240 answers, 0.1/s",
        "baseline: 2 of 240 answers, 0.1/s",
        "baseline: 28 of 240 answers, 1.0/s, about 4 min left",
        "baseline: 56 of 240 answers, 1.0/s, about 3 min left",
    ]


@pytest.mark.parametrize(
    ("done", "todo", "seconds", "told"),
    [(0, 9, 99, False), (11, 240, 9, False), (12, 240, 1, True), (11, 240, 10, True), (9, 10_000, 60, False)],
)
def test_when_the_time_left_is_told(done: int, todo: int, seconds: float, told: bool):
    assert is_telling(done, todo, seconds) is told


def test_terminal_bars_tell_the_unit_and_no_early_time():
    out = io.StringIO()
    with TerminalProgress(Console(file=out, force_terminal=True, no_color=True, width=100)).step(
        "b", 240, unit="answers"
    ) as bar:
        bar.advance()
    assert "1/240 answers" in out.getvalue() and "-:--:--" in out.getvalue()


def test_terminal_bars_end_complete():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80)
    with TerminalProgress(console).step("baseline", total=2) as bar:
        bar.advance()
        bar.note("a note")
        bar.advance()
    assert "2/2" in out.getvalue() and "baseline" in out.getvalue()
