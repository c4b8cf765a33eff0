"""What names the answers of every model of a run, and what is wrong with any of them, told at once."""

from collections.abc import Iterable, Sequence

from evalcard.backends.backend import Backend, Identity
from evalcard.errors import UserError
from evalcard.modelspec import ModelSpec


def identities_of(models: Sequence[ModelSpec], backends: Iterable[Backend]) -> list[Identity]:
    """By model, in their order. No weights are loaded.

    Raises UserError: one model's as it is, those of several in one list in which every fault names its model.
    """
    found: list[Identity] = []
    refused: dict[str, tuple[ModelSpec, UserError]] = {}
    for model, backend in zip(models, backends, strict=True):
        try:
            found.append(backend.identity())
        except UserError as error:
            # A broken checkpoint is refused with every scheme alike, and is said once.
            refused.setdefault(str(error), (model, error))
    if len(refused) == 1:
        raise next(iter(refused.values()))[1]
    if refused:
        raise _together(list(refused.values()))
    return found


def _together(refused: Sequence[tuple[ModelSpec, UserError]]) -> UserError:
    faults = [_naming(model, fault.rstrip(". ")) for model, error in refused for fault in error.faults or (str(error),)]
    advice = " ".join(dict.fromkeys(error.advice for _, error in refused if error.advice))
    said = f"{len(refused)} models of this run are refused: {'; '.join(faults)}. {advice}"
    return UserError(said.rstrip(), faults, advice)


def _naming(model: ModelSpec, fault: str) -> str:
    """Faults of one checkpoint leave its name to their list's head, which several checkpoints have not."""
    return fault if model.location in fault or fault.startswith(model.label) else f"{model.label}: {fault}"
