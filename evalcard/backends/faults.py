"""What the engine refuses, said by evalcard."""

from collections.abc import Iterator
from contextlib import contextmanager

from evalcard.errors import UserError
from evalcard_engine.errors import EngineError


@contextmanager
def as_user_error() -> Iterator[None]:
    """What the engine's caller can fix is what evalcard's user can fix."""
    try:
        yield
    except EngineError as error:
        listed = error.faults if len(error.faults) > 1 else ()
        raise UserError(str(error), listed, error.advice) from error
