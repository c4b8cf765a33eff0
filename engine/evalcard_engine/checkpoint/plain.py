"""Unquantized weights: every tensor is a parameter, stored as it is."""

from evalcard_engine.checkpoint.claims import ModuleClaim, Parts, Plain

PLAIN_DTYPES = ("F32", "BF16", "F16")
"""Dtypes of unquantized weights, as safetensors spells them."""


class PlainFormat:
    """A checkpoint whose config names no quantization."""

    name = "safetensors"

    def module(self, name: str, shape: tuple[int, int], parts: Parts) -> ModuleClaim:
        """The ``weight`` and nothing else."""
        return plain_weight(name, parts)

    def extras(self, name: str, parts: Parts) -> ModuleClaim:
        """There are none: whatever is left over is no part of the model."""
        return ModuleClaim(None)


def plain_weight(name: str, parts: Parts) -> ModuleClaim:
    """The module's ``weight`` as an unquantized tensor; formats use it for the modules they leave alone."""
    place = parts.get("weight")
    if place is None:
        return ModuleClaim(None)
    source, leaves = Plain(f"{name}.weight"), frozenset({"weight"})
    if place.dtype not in PLAIN_DTYPES:
        known = ", ".join(PLAIN_DTYPES)
        return ModuleClaim(source, leaves, (f"{name}.weight is of the type {place.dtype}, not one of {known}",))
    return ModuleClaim(source, leaves)
