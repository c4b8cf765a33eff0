"""transformers imports torchao wherever that is installed; what it then says of itself concerns no user here."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_OF_ITSELF = ("Failed to load ", "Skipping import of cpp extensions")
"""How the messages begin of libraries that it has for other machines: none of its kernels is called here."""


def _is_of_torchao(record: logging.LogRecord) -> bool:
    """Whether it is torchao's word on its libraries, or torch's on how torchao registers its own classes."""
    if record.name == "torchao":
        return record.getMessage().startswith(_OF_ITSELF)
    named = record.args if isinstance(record.args, tuple) else ()
    is_its_class = any(getattr(one, "__module__", "").startswith("torchao.") for one in named)
    return is_its_class and "register_constant()" in str(record.msg)


def _passes(record: logging.LogRecord) -> bool:
    return not _is_of_torchao(record)


@contextmanager
def quiet_torchao() -> Iterator[None]:
    """Within it these messages are dropped, and no others; for the imports of transformers that may load torchao."""
    loggers = [logging.getLogger(name) for name in ("torchao", "torch.utils._pytree")]
    for logger in loggers:
        logger.addFilter(_passes)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_passes)
