"""What a checkpoint holds, layer by layer, with everything that is wrong with it; no model is loaded.

Headers tell formats, schemes and bytes. Only of each scheme the smallest layer is read, for how its inputs are rounded.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch

from evalcard_engine.building import build, matrices, stored_shapes, tied_parameters
from evalcard_engine.checkpoint.claiming import examine
from evalcard_engine.checkpoint.claims import Claims, Format, Plain, Quantized, Source
from evalcard_engine.checkpoint.reading import TensorReader
from evalcard_engine.checkpoint.recognize import beside_files, recognize
from evalcard_engine.checkpoint.scale_notes import scale_notes
from evalcard_engine.checkpoint.source import ADVICE, Checkpoint, open_checkpoint, read_checkpoint
from evalcard_engine.errors import EngineError
from evalcard_engine.family import Family
from evalcard_engine.loading import DECODER
from evalcard_engine.quant.weight import Activations, QuantizedWeight


@dataclass(frozen=True, slots=True)
class Layer:
    """The weight of one linear or embedding."""

    name: str
    """Its module, such as model.layers.0.self_attn.q_proj."""
    shape: tuple[int, int]
    """[out, in]"""
    scheme: str | None
    """In the format's words; None where it is stored in full precision."""
    dtype: str
    """As safetensors spells it; of a quantized weight "" ."""
    num_bytes: int
    """In the files: codes, scales and whatever else makes it up."""
    tied_to: str | None = None
    """The module whose weight it shares, so that its bytes are there once."""

    @property
    def kind(self) -> str:
        """The last part of the name, which layers of a kind share."""
        return self.name.rpartition(".")[2]

    @property
    def num_weights(self) -> int:
        return self.shape[0] * self.shape[1]


@dataclass(frozen=True, slots=True)
class Inspection:
    """Everything that a checkpoint's headers say about its weights."""

    name: str
    """As the user wrote it."""
    model_type: str
    format: str | None
    """None where the format cannot be read; ``faults`` says why."""
    layers: tuple[Layer, ...]
    """All matrices that were found, in the model's order."""
    extras: Mapping[str, int]
    """What else a format stores, such as scales of a KV cache, in words -> how often."""
    activations: Mapping[str, str]
    """Scheme -> how the inputs of its linears are rounded, in words."""
    num_bytes: int
    """Of all tensors of the text model in the files."""
    faults: tuple[str, ...]
    advice: str = ""
    """What can be done about the faults, where they do not say so themselves."""
    notes: tuple[str, ...] = ()
    """What is strange about it, and yet no fault."""

    @property
    def bits_per_weight(self) -> float | None:
        """Stored bits of the decoder's linears (scales included) over their weights; None where none was found."""
        linears = [layer for layer in self.layers if layer.name.startswith(DECODER)]
        weights = sum(layer.num_weights for layer in linears)
        return 8 * sum(layer.num_bytes for layer in linears) / weights if weights else None

    @property
    def schemes(self) -> Mapping[str, int]:
        """Scheme -> number of layers, the most frequent first."""
        return dict(Counter(layer.scheme for layer in self.layers if layer.scheme).most_common())

    @property
    def scheme_words(self) -> str | None:
        """The compression in one line for a card; None where nothing is compressed."""
        if not self.schemes:
            return None
        alone = len(self.schemes) == 1
        listed = (scheme if alone else f"{scheme} in {count}" for scheme, count in self.schemes.items())
        return f"{self.format}: {', '.join(listed)}{'' if alone else ' layers'}"


@dataclass(frozen=True)
class Opened:
    """A checkpoint with its tensors claimed, and what is wrong with it."""

    checkpoint: Checkpoint
    family: Family
    format: Format
    claims: Claims
    shapes: Mapping[str, tuple[int, int]]
    """[out, in] of every linear and embedding by module, in the model's order."""
    faults: tuple[str, ...]

    @cached_property
    def reader(self) -> TensorReader:
        return TensorReader(self.checkpoint)

    def read(self, source: Source) -> QuantizedWeight | torch.Tensor:
        """One parameter from the files, on the CPU. Raises EngineError for values that cannot be right."""
        if isinstance(source, Plain):
            return self.reader[source.tensor]
        return source.read({part: self.reader[tensor] for part, tensor in source.tensors.items()})

    def num_bytes(self, source: Source) -> int:
        return sum(map(self.reader.num_bytes, tensors_of(source)))


def tensors_of(source: Source) -> tuple[str, ...]:
    """Names in the checkpoint."""
    return (source.tensor,) if isinstance(source, Plain) else tuple(source.tensors.values())


def open_claims(model: str, revision: str | None = None) -> Opened:
    """Claim all tensors of a checkpoint; raises EngineError where not even that can be tried."""
    checkpoint = open_checkpoint(model, revision)
    return _claimed(checkpoint, *recognize(checkpoint))


def inspect(model: str, revision: str | None = None) -> Inspection:
    """What the checkpoint holds, and all its faults.

    Raises EngineError only where there is nothing to look at: no folder, no config.json, no weights in safetensors.
    """
    return inspect_checkpoint(read_checkpoint(model, revision))


def inspect_checkpoint(checkpoint: Checkpoint) -> Inspection:
    """Likewise, of one whose headers were read."""
    model = checkpoint.name
    try:
        family, fmt = recognize(checkpoint)
        with beside_files(checkpoint):
            return _described(_claimed(checkpoint, family, fmt))
    except EngineError as error:
        num_bytes = sum(place.num_bytes for place in checkpoint.tensors.values())
        model_type = str(checkpoint.config.get("model_type"))
        faults = tuple(fault.removeprefix(f"{model}: ") for fault in error.faults)
        return Inspection(model, model_type, None, (), {}, {}, num_bytes, faults, error.advice)


def _claimed(checkpoint: Checkpoint, family: Family, fmt: Format) -> Opened:
    checkpoint = family.separate(checkpoint)
    _, module = build(checkpoint, torch.float32, "cpu", family.experts)
    shapes = matrices(module)
    claims, faults = examine(checkpoint, family, fmt, stored_shapes(module), shapes, tied_parameters(module))
    return Opened(checkpoint, family, fmt, claims, shapes, tuple(faults))


def _described(opened: Opened) -> Inspection:
    layers = tuple(_layers(opened))
    activations, faults = ({}, []) if opened.faults else _activations(opened)
    places = opened.checkpoint.tensors.items()
    extras = Counter(source.scheme for source in opened.claims.extras.values() if isinstance(source, Quantized))
    return Inspection(
        name=opened.checkpoint.name,
        model_type=opened.family.model_type,
        format=opened.format.name,
        layers=layers,
        extras=dict(extras),
        activations=activations,
        num_bytes=sum(place.num_bytes for name, place in places if opened.family.module_name(name) is not None),
        faults=(*opened.faults, *faults),
        advice=ADVICE,
        notes=() if opened.faults else scale_notes(opened.claims, opened.reader),
    )


def _layers(opened: Opened) -> Iterator[Layer]:
    owners: dict[tuple[str, ...], str] = {}
    for name, shape in opened.shapes.items():
        source = opened.claims.sources.get(f"{name}.weight")
        if source is None:
            continue
        tensors = tensors_of(source)
        owner = owners.setdefault(tensors, name)
        quantized = isinstance(source, Quantized)
        yield Layer(
            name=name,
            shape=shape,
            scheme=source.scheme if isinstance(source, Quantized) else None,
            dtype="" if quantized else opened.checkpoint.tensors[tensors[0]].dtype,
            num_bytes=opened.num_bytes(source),
            tied_to=None if owner == name else owner,
        )


def _activations(opened: Opened) -> tuple[dict[str, str], list[str]]:
    """(how each scheme rounds inputs, faults met while reading), from the smallest layer of each scheme."""
    smallest: dict[str, tuple[int, Quantized]] = {}
    for source in opened.claims.sources.values():
        if isinstance(source, Quantized):
            size = opened.num_bytes(source)
            if source.scheme not in smallest or size < smallest[source.scheme][0]:
                smallest[source.scheme] = size, source
    found: dict[str, str] = {}
    faults: list[str] = []
    for scheme, (_, source) in smallest.items():
        try:
            weight = opened.read(source)
        except EngineError as error:
            faults += error.faults
            continue
        found[scheme] = activation_words(weight.activations if isinstance(weight, QuantizedWeight) else None)
    return found, faults


def activation_words(how: Activations | None) -> str:
    """Such as ``int8 per token, dynamic``."""
    if how is None:
        return "unquantized"
    shared = {"token": "per token", "group": f"in groups of {how.group_size}", "tensor": "per tensor"}[how.per]
    kind = "dynamic" if how.scale is None or how.element == "fp4_e2m1" else "static"
    parts = [f"{how.element} {shared}", kind]
    parts += ["scales are powers of two"] if how.power_of_two else []
    parts += [f"values of at least {how.outliers:g} left unquantized"] if how.outliers is not None else []
    return ", ".join(parts)
