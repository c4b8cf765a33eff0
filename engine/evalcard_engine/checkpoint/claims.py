"""What formats say of a checkpoint's tensors: which of them make up which weight, and how it is read from them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import torch

from evalcard_engine.checkpoint.tensor_files import TensorFile
from evalcard_engine.quant.weight import QuantizedWeight

Parts = Mapping[str, TensorFile]
"""A module's tensors by the last part of their names: ``weight``, ``weight_scale``, ``qweight`` ..."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A parameter that is stored as it is."""

    tensor: str
    """Name in the checkpoint."""


@dataclass(frozen=True, slots=True)
class Quantized:
    """A weight that several tensors make up."""

    tensors: Mapping[str, str]
    """Part -> name in the checkpoint; every one of them is claimed."""
    scheme: str
    """In the field's words, such as ``w4a16 (int4, groups of 128, asymmetric)``."""
    read: Callable[[Mapping[str, torch.Tensor]], QuantizedWeight | torch.Tensor]
    """From the parts, on the CPU; a tensor where they make up an unquantized one (2:4 sparse storage, KV-cache scales).
    Raises EngineError, which names the layer, for values that cannot be right."""
    check: Callable[[Mapping[str, torch.Tensor]], Iterable[str]] | None = field(default=None, kw_only=True)
    """What of those values is wrong, told without making a weight of them: scales, zero points and group indices, and
    codes of which some stand for nothing. Each fault names the layer. Parts are read only when they are asked for."""


Source = Plain | Quantized


@dataclass(frozen=True, slots=True)
class ModuleClaim:
    """What a format makes of one module's weight."""

    source: Source | None
    """None where nothing here stores it; ``faults`` or the general check for missing tensors says so."""
    leaves: frozenset[str] = frozenset()
    """The parts that are accounted for."""
    faults: tuple[str, ...] = ()
    """Each names the layer and says what was found and what is allowed."""


class Format(Protocol):
    """One way of storing weights, made from the checkpoint's own config by its module's ``open_format``."""

    name: str
    """As the field calls it, such as compressed-tensors."""

    def module(self, name: str, shape: tuple[int, int], parts: Parts) -> ModuleClaim:
        """How the weight [out, in] of the linear or embedding ``name`` (the checkpoint's spelling) is stored.

        Decided by the parts that are there; where the config says something else, that is a fault.
        """

    def extras(self, name: str, parts: Parts) -> ModuleClaim:
        """Likewise for what is not a weight but belongs to the format, such as an attention's k_scale."""


@dataclass(slots=True)
class Claims:
    """The outcome: every parameter's source, and scales of the KV cache by attention module."""

    sources: dict[str, Source] = field(default_factory=dict)
    """Parameter name -> where it comes from; tied parameters have one source."""
    extras: dict[str, Source] = field(default_factory=dict)
    """Module name -> what a format claimed beyond weights."""

    @property
    def schemes(self) -> dict[str, str]:
        """Module name -> scheme of each quantized weight."""
        found = ((name.removesuffix(".weight"), source) for name, source in self.sources.items())
        return {name: source.scheme for name, source in found if isinstance(source, Quantized)}
