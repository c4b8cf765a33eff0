"""Bars with items a second and time left on a terminal; plain lines elsewhere; nothing when quiet."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichBars
from rich.text import Text

from evalcard.progress import Bar, Progress, Silent

FIRST_LINE_SECONDS = 5.0
"""A step shorter than this says nothing in a log."""
_SHARE, _SECONDS, _UNITS = 0.05, 10.0, 10
"""The time left is told from this share of the work on, or after these seconds if so many units are done: the first
answers of a batch come late, and an estimate from one of them is wrong by a factor of fifty."""


def is_telling(done: int, todo: int, seconds: float) -> bool:
    """Whether what is done of ``todo`` units tells how long the rest will take."""
    return done > 0 and (done >= _SHARE * todo or (seconds >= _SECONDS and done >= _UNITS))


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:.1f}/s" if speed else "", style="progress.data.speed")


class _Left(TimeRemainingColumn):
    def render(self, task: Task) -> Text:
        skipped = task.fields["skipped"]
        told = task.finished or task.total is None or is_telling(
            round(task.completed - skipped), round(task.total - skipped), task.elapsed or 0.0
        )  # fmt: skip
        return super().render(task) if told else Text("-:--:--", style="progress.remaining")


class _TerminalBar:
    def __init__(self, bars: RichBars, task: TaskID) -> None:
        self._bars, self._task = bars, task

    def advance(self, count: int = 1) -> None:
        self._bars.advance(self._task, count)

    def note(self, text: str) -> None:
        self._bars.update(self._task, note=text)


class TerminalProgress:
    """Draws on stderr, so that stdout stays clean for tables and JSON."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def step(self, title: str, total: int | None = None, done: int = 0, unit: str = "items") -> Iterator[Bar]:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[unit]}"),
            _Rate(),
            _Left(elapsed_when_finished=True),
            TextColumn("{task.fields[note]}", style="dim"),
        )
        with RichBars(*columns, console=self._console, transient=True) as bars:
            fields: dict[str, Any] = {"note": "", "unit": unit, "skipped": done}
            yield _TerminalBar(bars, bars.add_task(title, total=total, completed=done, **fields))

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False)


class _LineBar:
    """Says how far a long step is: first after a few seconds, then at growing intervals."""

    def __init__(self, say: Callable[[str], None], title: str, total: int | None, done: int, unit: str) -> None:
        self._say, self._title, self._total, self._unit = say, title, total, unit
        self._skipped = self._done = done
        self._start = time.monotonic()
        self._next = self._start + FIRST_LINE_SECONDS

    def advance(self, count: int = 1) -> None:
        self._done += count
        now = time.monotonic()
        if now >= self._next and self._total:
            self._next = now + (now - self._start)
            self._say(self._line(now - self._start))

    def note(self, text: str) -> None:
        """Left out of logs."""

    def _line(self, seconds: float) -> str:
        assert self._total is not None, self._title
        done = self._done - self._skipped
        said = f"{self._title}: {self._done} of {self._total} {self._unit}, {done / seconds:.1f}/s"
        if not is_telling(done, self._total - self._skipped, seconds):
            return said
        return f"{said}, about {in_words((self._total - self._done) * seconds / done)} left"


def in_words(seconds: float) -> str:
    """A duration a person can plan with."""
    minutes = round(seconds / 60)
    return f"{round(seconds)} s" if seconds < 100 else f"{minutes} min" if minutes < 100 else f"{minutes / 60:.1f} h"


class LineProgress:
    """For logs: lines instead of bars."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def step(self, title: str, total: int | None = None, done: int = 0, unit: str = "items") -> Iterator[Bar]:
        yield _LineBar(self.say, title, total, done, unit)

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


def make_progress(quiet: bool) -> Progress:
    """Bars on a terminal, lines in a log, silence when asked."""
    if quiet:
        return Silent()
    console = Console(stderr=True)
    return TerminalProgress(console) if console.is_terminal else LineProgress(console)
