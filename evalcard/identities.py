"""What names the answers of every model of a run, and what is wrong with any of them, told at once."""

from collections.abc import Sequence

from evalcard.backends.backend import Backend, Identity
from evalcard.errors import UserError
from evalcard.modelspec import ModelSpec


class Identified:
    """Takes the identities of a run's models as they come; some backends find out while other work goes on."""

    def __init__(self, models: Sequence[ModelSpec], backends: Sequence[Backend]) -> None:
        assert len(models) == len(backends), (len(models), len(backends))
        self._models, self._backends = models, backends
        self._found: list[Identity] = []
        self._refused: dict[str, tuple[ModelSpec, UserError]] = {}
        self._done = 0

    def take_known(self) -> None:
        """What can be had without waiting. Raises what `take` raises, once all models are known."""
        while self._done < len(self._models) and _is_known(self._backends[self._done]):
            self._take_next()
        if self._done == len(self._models):
            self._refuse()

    def take(self) -> list[Identity]:
        """By model, in their order. No weights are loaded.

        Raises UserError: one model's as it is, those of several in one list in which every fault names its model.
        """
        while self._done < len(self._models):
            self._take_next()
        self._refuse()
        return self._found

    def _take_next(self) -> None:
        model, backend = self._models[self._done], self._backends[self._done]
        self._done += 1
        try:
            self._found.append(backend.identity())
        except UserError as error:
            # A broken checkpoint is refused with every scheme alike, and is said once.
            self._refused.setdefault(str(error), (model, error))

    def _refuse(self) -> None:
        if len(self._refused) == 1:
            raise next(iter(self._refused.values()))[1]
        if self._refused:
            raise _together(list(self._refused.values()))


def _is_known(backend: Backend) -> bool:
    """Whether an identity is there at once: that of a backend in this process always is."""
    is_identified = getattr(backend, "is_identified", None)
    return is_identified is None or is_identified()


def _together(refused: Sequence[tuple[ModelSpec, UserError]]) -> UserError:
    faults = [_naming(model, fault.rstrip(". ")) for model, error in refused for fault in error.faults or (str(error),)]
    advice = " ".join(dict.fromkeys(error.advice for _, error in refused if error.advice))
    said = f"{len(refused)} models of this run are refused: {'; '.join(faults)}. {advice}"
    return UserError(said.rstrip(), faults, advice)


def _naming(model: ModelSpec, fault: str) -> str:
    """Faults of one checkpoint leave its name to their list's head, which several checkpoints have not."""
    return fault if model.location in fault or fault.startswith(model.label) else f"{model.label}: {fault}"
