"""Errors of the engine that its caller can do something about."""


class EngineError(Exception):
    """A mistake in what the engine was given: what, got, allowed, next step."""


class ModelNotFound(EngineError):
    """The folder or Hub id holds no model that can be opened."""


class UnsupportedModel(EngineError):
    """The checkpoint is readable, but it is of a family, format or scheme this engine does not run exactly."""


class OutOfMemory(EngineError):
    """A single request needs more KV cache than the whole budget."""
