"""What a log shows of long steps."""

import io

import pytest
from rich.console import Console

from evalcard.cli import progress
from evalcard.cli.progress import LineProgress, TerminalProgress, in_words


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


def test_terminal_bars_end_complete():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80)
    with TerminalProgress(console).step("baseline", total=2) as bar:
        bar.advance()
        bar.note("a note")
        bar.advance()
    assert "2/2" in out.getvalue() and "baseline" in out.getvalue()
