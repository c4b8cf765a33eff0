"""Errors of the engine that its caller can do something about."""

from collections.abc import Sequence


class EngineError(Exception):
    """A mistake in what the engine was given: what, got, allowed, next step."""

    def __init__(self, message: str, faults: Sequence[str] = (), advice: str = "") -> None:
        """message: all of it in words. faults: its parts where there may be several, each of which stands for itself;
        advice: what can be done about them."""
        super().__init__(message)
        self.faults = tuple(faults) or (message,)
        self.advice = advice


class ModelNotFound(EngineError):
    """The folder or Hub id holds no model that can be opened."""


class UnsupportedModel(EngineError):
    """The checkpoint is readable, but it is of a family, format or scheme this engine does not run exactly."""


class OutOfMemory(EngineError):
    """Memory cannot hold the weights, the KV cache of a single request, or a forward of a single token."""
