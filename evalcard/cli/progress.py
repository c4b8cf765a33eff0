"""Bars with items a second and time left on a terminal; plain lines elsewhere; nothing when quiet."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, Task, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichBars
from rich.progress import ProgressColumn, TaskID
from rich.text import Text

from evalcard.progress import Bar, Progress, Silent


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:.1f}/s" if speed else "", style="progress.data.speed")


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
            _Rate(),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[note]}", style="dim"),
        )
        with RichBars(*columns, console=self._console, transient=False) as bars:
            yield _TerminalBar(bars, bars.add_task(title, total=total, completed=done, note=""))

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False)


class LineProgress(Silent):
    """For logs: what is said, no bars."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


def make_progress(quiet: bool) -> Progress:
    """Bars on a terminal, lines in a log, silence when asked."""
    if quiet:
        return Silent()
    console = Console(stderr=True)
    return TerminalProgress(console) if console.is_terminal else LineProgress(console)
