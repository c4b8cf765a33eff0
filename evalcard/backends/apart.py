"""Our own engine as a backend, in a process of its own. Light: no torch, no harness."""

from collections.abc import Callable, Sequence

from evalcard.backends.backend import Identity, Item, ItemAnswer
from evalcard.backends.engine_process import EngineProcess
from evalcard.errors import UserError
from evalcard.modelspec import ModelSpec
from evalcard.spec import RunSpec


class ApartBackend:
    """One model in the engine of a process that several share. Its identity is asked at once, and waited for when it is
    needed."""

    def __init__(self, process: EngineProcess, spec: RunSpec, model: ModelSpec) -> None:
        self._process, self._spec, self._model = process, spec, model
        self._slot = process.join()
        self._identity: Identity | None = None
        self._facts: dict[str, float | int | str | None] = {}
        self._asked = self._ask()

    def _ask(self) -> tuple[int, int]:
        """(the process's generation, number of the call): a new process has to be told of the model again."""
        number = self._process.send("identity", self._slot, self._spec, self._model)
        return self._process.generation, number

    @property
    def _is_known(self) -> bool:
        """Whether the process that runs was told of the model."""
        return self._process.is_running and self._asked[0] == self._process.generation

    def is_identified(self) -> bool:
        """Whether `identity` would return, or raise, without waiting."""
        return self._identity is not None or self._process.has_returned(self._asked[1])

    def identity(self) -> Identity:
        """As `EmbeddedBackend.identity`."""
        if self._identity is None:
            self._identity = self._process.wait(self._asked[1])
        return self._identity

    def answer(self, items: Sequence[Item], on_answer: Callable[[Item, ItemAnswer], None]) -> None:
        """As `EmbeddedBackend.answer`."""
        if not items:
            return
        if not self._is_known:
            self._ask_again()
        call = self._process.send("answer", self._slot, list(items))
        self._facts = self._process.wait(call, lambda number, answer: on_answer(items[number], answer))

    def _ask_again(self) -> None:
        """Tell a new process of the model, which must be the one that was planned with."""
        before, self._identity = self._identity, None
        self._asked = self._ask()
        if before is not None and self.identity() != before:
            raise UserError(f"{self._model.label} changed after this run was planned. Give the same command again.")

    def facts(self) -> dict[str, float | int | str | None]:
        """As `EmbeddedBackend.facts`."""
        return dict(self._facts)

    def close(self) -> None:
        """Free weights and KV cache; the last of a run's models ends the process."""
        if self._is_known and self._process.num_users > 1:
            self._process.wait(self._process.send("close", self._slot))
        self._process.leave(self._slot)
