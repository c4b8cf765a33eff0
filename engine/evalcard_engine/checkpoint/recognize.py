"""What a checkpoint is, and every reason why it is refused told at once: its files, its family, its settings."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from evalcard_engine.checkpoint.claims import Format
from evalcard_engine.checkpoint.formats import format_of
from evalcard_engine.checkpoint.source import Checkpoint, refused
from evalcard_engine.errors import EngineError
from evalcard_engine.families import family_of
from evalcard_engine.family import Family


def recognize(checkpoint: Checkpoint) -> tuple[Family, Format]:
    """The model's family and the format of its weights.

    Raises EngineError and its kinds: the one reason there is as it is, several as one list.
    """
    errors: list[EngineError] = []
    family, fmt = None, None
    try:
        family = family_of(checkpoint.config, checkpoint.name)
    except EngineError as error:
        errors.append(error)
    try:
        fmt = format_of(checkpoint)
    except EngineError as error:
        errors.append(error)
    if family is None or fmt is None:
        raise _together(checkpoint, errors)
    return family, fmt


@contextmanager
def beside_files(checkpoint: Checkpoint) -> Iterator[None]:
    """Whatever is refused inside is listed together with what is wrong with the checkpoint's files."""
    try:
        yield
    except EngineError as error:
        raise _together(checkpoint, [error]) from error


def raise_all(model: str, errors: Sequence[EngineError]) -> None:
    """Raise the one error there is as it is, several as one list, and none where there is none."""
    if len(errors) > 1:
        raise refused(model, [fault for error in errors for fault in error.faults])
    if errors:
        raise errors[0]


def _together(checkpoint: Checkpoint, errors: list[EngineError]) -> EngineError:
    if len(errors) == 1 and not checkpoint.faults:
        return errors[0]
    return refused(checkpoint.name, [*checkpoint.faults, *(fault for error in errors for fault in error.faults)])
