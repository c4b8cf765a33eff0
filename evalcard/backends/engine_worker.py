"""The process behind engine_process.py: an `EmbeddedBackend` for each model of a run, which does what it is told.

It ends as soon as its parent is gone, in the middle of a step too.
"""

import ctypes
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from evalcard.backends.backend import Identity, Item, ItemAnswer
from evalcard.backends.embedded import EmbeddedBackend
from evalcard.backends.engine_process import Call, EngineFault, Returned, Told
from evalcard.collector import look_rarely
from evalcard.errors import UserError
from evalcard.modelspec import ModelSpec
from evalcard.progress import Bar
from evalcard.spec import RunSpec

PR_SET_PDEATHSIG = 1


class Relay:
    """A `Progress` that is drawn on the other side."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def tell(self, what: str, *arguments: Any) -> None:
        self._connection.send(Told(what, arguments))

    def say(self, text: str) -> None:
        self.tell("say", text)

    @contextmanager
    def step(self, title: str, total: int | None = None, done: int = 0, unit: str = "items") -> Iterator[Bar]:
        self.tell("open", title, total, done, unit)
        try:
            yield _RelayedBar(self)
        finally:
            self.tell("close")


class _RelayedBar:
    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    def advance(self, count: int = 1) -> None:
        if count:
            self._relay.tell("advance", count)

    def note(self, text: str) -> None:
        self._relay.tell("note", text)


class Worker:
    """What can be asked; each public method is a call's name."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._backends: dict[int, EmbeddedBackend] = {}

    def identity(self, slot: int, spec: RunSpec, model: ModelSpec) -> Identity:
        """Of the model that ``slot`` stands for from now on."""
        self._backends[slot] = EmbeddedBackend(spec, model, self._relay)
        return self._backends[slot].identity()

    def answer(self, slot: int, items: Sequence[Item]) -> dict[str, float | int | str | None]:
        """Tells (number of the item, answer) as each is done; returns the backend's facts."""
        numbers = {id(item): number for number, item in enumerate(items)}

        def on_answer(item: Item, answer: ItemAnswer) -> None:
            self._relay.tell("item", numbers[id(item)], answer)

        self._backends[slot].answer(items, on_answer)
        return self._backends[slot].facts()

    def close(self, slot: int) -> None:
        self._backends[slot].close()


def work(connection: Connection, calls: "queue.SimpleQueue[Call]") -> None:
    """Answer calls, one after the other, for ever."""
    worker = Worker(Relay(connection))
    while True:
        call = calls.get()
        try:
            returned = Returned(call.number, getattr(worker, call.name)(*call.arguments))
        except UserError as error:
            error.__cause__ = error.__context__ = None
            returned = Returned(call.number, error=error)
        except Exception:  # noqa: BLE001 - it is the other side's to say
            returned = Returned(call.number, error=EngineFault(traceback.format_exc()))
        connection.send(returned)


def listen(connection: Connection, calls: "queue.SimpleQueue[Call]") -> None:
    """Take calls as they come, so that who asks never waits for the one before; end with the other side."""
    while True:
        try:
            calls.put(connection.recv())
        except (EOFError, OSError):
            os._exit(1)


def _end_with(parent: int) -> None:
    """Have the kernel end this process with its parent, on Linux; `listen` cannot where this process was stopped."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before that
        os._exit(1)


def main() -> None:
    look_rarely()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's to handle, which then ends this process
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if parent := int(sys.argv[2]):
        _end_with(parent)
    connection = Connection(int(sys.argv[1]))
    calls: queue.SimpleQueue[Call] = queue.SimpleQueue()
    threading.Thread(target=listen, args=(connection, calls), daemon=True).start()
    try:
        work(connection, calls)
    except (BrokenPipeError, ConnectionResetError):
        os._exit(1)


if __name__ == "__main__":
    main()
