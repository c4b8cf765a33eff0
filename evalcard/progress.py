"""How long work reports what it has done; the command line draws it, everything else may stay silent."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Bar(Protocol):
    """One long step that is being worked on."""

    def advance(self, count: int = 1) -> None:
        """``count`` more units are done."""

    def note(self, text: str) -> None:
        """A short remark beside the bar, such as tokens a second; replaces the one before."""


class Progress(Protocol):
    """Where bars and lines go."""

    def step(
        self, title: str, total: int | None = None, done: int = 0, unit: str = "items"
    ) -> AbstractContextManager[Bar]:
        """Open a bar of ``total`` units, ``done`` of which need no work; it closes with the with-block."""

    def say(self, text: str) -> None:
        """One line for the person who watches."""


class _SilentBar:
    def advance(self, count: int = 1) -> None:
        """Nothing is drawn."""

    def note(self, text: str) -> None:
        """Nothing is drawn."""


class Silent:
    """Draws nothing: for tests, ``--quiet`` and library use."""

    @contextmanager
    def step(self, title: str, total: int | None = None, done: int = 0, unit: str = "items") -> Iterator[Bar]:
        yield _SilentBar()

    def say(self, text: str) -> None:
        """Nothing is said."""
