"""Our engine's view of checkpoints: what is in the files, how far they are from a baseline, and writing them anew."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from evalcard.backends.backend import Description, PlainKind
from evalcard.backends.described import described_files
from evalcard.backends.faults import as_user_error
from evalcard.errors import UserError
from evalcard.modelspec import ModelSpec
from evalcard.progress import Bar, Progress
from evalcard_engine.checkpoint.source import read_checkpoint
from evalcard_engine.differences import Difference, differences
from evalcard_engine.export import choose, copy_small_files, export
from evalcard_engine.inspection import Inspection, Layer, inspect, inspect_checkpoint, open_claims
from evalcard_engine.loading import DECODER
from evalcard_engine.quant.quantize import QUANTIZER_VERSION
from evalcard_engine.quant.scheme import Scheme, parse_scheme

_HEAD = "lm_head"
QUANTIZER = QUANTIZER_VERSION
"""Names how round to nearest rounds; a stored recipe says it."""


@dataclass(frozen=True, slots=True)
class KindRow:
    """Layers of one kind that are stored alike."""

    kind: str
    """Such as q_proj, embed_tokens, lm_head."""
    count: int
    of: int
    """Layers of this kind in all."""
    stored: str
    """The scheme in words, a dtype, or which layer it shares its weight with."""
    is_compressed: bool
    inputs: str | None
    """How inputs are rounded; None where nothing is compressed."""
    bits_per_weight: float | None
    """In the files; None where the weight is another layer's."""
    names: tuple[str, ...]


def inspect_model(model: ModelSpec) -> Inspection:
    """What the files hold, with all faults; raises UserError where they cannot be opened."""
    if model.scheme:
        raise UserError(
            f"doctor looks at files, and {model.label} is in none: its scheme is applied while loading. Leave out "
            f":{model.scheme}, or write the model with `evalcard quantize` first."
        )
    with as_user_error():
        return inspect(model.location, model.revision)


def kind_rows(found: Inspection) -> list[KindRow]:
    """The layers by kind and by how they are stored, kinds in the model's order."""
    groups: dict[str, dict[str, list[Layer]]] = {}
    for layer in found.layers:
        groups.setdefault(layer.kind, {}).setdefault(_stored(layer), []).append(layer)
    return [
        _kind_row(found, kind, stored, layers, sum(map(len, alike.values())))
        for kind, alike in groups.items()
        for stored, layers in alike.items()
    ]


def _stored(layer: Layer) -> str:
    if layer.tied_to is not None:
        return f"shares the weight of {layer.tied_to.rpartition('.')[2]}"
    return layer.scheme or layer.dtype


def _kind_row(found: Inspection, kind: str, stored: str, layers: Sequence[Layer], of: int) -> KindRow:
    first = layers[0]
    bits = 8 * sum(layer.num_bytes for layer in layers) / sum(layer.num_weights for layer in layers)
    return KindRow(
        kind=kind,
        count=len(layers),
        of=of,
        stored=stored,
        is_compressed=first.scheme is not None,
        inputs=found.activations.get(first.scheme) if first.scheme and not first.tied_to else None,
        bits_per_weight=None if first.tied_to else round(bits, 4),
        names=tuple(layer.name for layer in layers),
    )


def compare_models(model: ModelSpec, baseline: ModelSpec, progress: Progress) -> list[Difference]:
    """Every weight against the baseline's, the worst first."""
    with as_user_error(), progress.step("Comparing weights", unit="layers") as bar:
        pairs = differences(
            model.location, baseline.location, model.revision, baseline.revision, on_progress=_Steps(bar).on_progress
        )
        return sorted(pairs, key=lambda one: (one.finding is None, -one.error if one.error == one.error else 0))


def report(found: Inspection, compared: Sequence[Difference] | None) -> dict[str, Any]:
    """All of it for a program; fractions unrounded."""
    facts: dict[str, Any] = {
        "format": found.format,
        "model_type": found.model_type,
        "bits_per_weight": found.bits_per_weight,
        "num_bytes": found.num_bytes,
        "scheme": found.scheme_words,
        "kinds": [asdict(row) for row in kind_rows(found)],
        "extras": dict(found.extras),
        "faults": list(found.faults),
        "notes": list(found.notes),
    }
    if compared is not None:
        facts["differences"] = [{**asdict(one), "finding": one.finding} for one in compared]
    return facts


def export_model(
    model: ModelSpec, scheme: str, ignore: Sequence[str], folder: Path, progress: Progress
) -> dict[str, Any]:
    """Round to nearest, written as compressed-tensors into an empty folder; returns its quantization_config."""
    with as_user_error(), progress.step(f"Writing {scheme}", unit="tensors") as bar:
        steps = _Steps(bar)
        return export(
            model.location, parse_scheme(scheme), folder, model.revision, ignore, on_progress=steps.on_progress
        )


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What a calibrated compression has to know of a model before it begins."""

    folder: Path
    config_groups: Mapping[str, Any]
    """compressed-tensors' own, with a group for each group size that widths ask for."""
    ignore: tuple[str, ...]
    max_positions: int | None


def calibrated_settings(model: ModelSpec, scheme: str, ignore: Sequence[str]) -> Calibrated:
    """Raises UserError for what round to nearest would refuse too."""
    with as_user_error():
        opened = open_claims(model.location, model.revision)
        layers = choose(opened, parse_scheme(scheme), ignore)
        config = layers.config(parse_scheme(scheme))
    if not layers.chosen.keys() <= opened.shapes.keys():
        raise UserError(
            f"{model.label} holds a text model inside a larger one ({next(iter(layers.chosen))}), which is not "
            "calibrated from here. Use --method rtn, or llm-compressor by itself."
        )
    text = opened.checkpoint.config.get("text_config") or opened.checkpoint.config
    positions = text.get("max_position_embeddings")
    groups = {name: {**group, "format": None} for name, group in config["config_groups"].items()}
    return Calibrated(opened.checkpoint.path, groups, tuple(config["ignore"]), positions)


def keep_tokenizer(source: Path, folder: Path) -> None:
    """Copy the original's tokenizer files as they are: a tokenizer saved anew may encode otherwise."""
    copy_small_files(source, folder)


def look_into(model: ModelSpec) -> tuple[str | None, Description]:
    """(format and scheme in words, such as ``compressed-tensors: w8a8 (int8, per channel)``, or None where nothing in
    the files is compressed; what they say of themselves). Any scheme of the model's is taken as applied."""
    scheme = parse_scheme(model.scheme) if model.scheme else None
    with as_user_error():
        checkpoint = read_checkpoint(model.location, model.revision)
        found = inspect_checkpoint(checkpoint)
    folder = checkpoint.path if checkpoint.path.is_dir() else None
    told = described_files(folder, checkpoint.config)
    return found.scheme_words, replace(told, left_plain=left_plain(found.layers, scheme), notes=found.notes)


def left_plain(layers: Sequence[Layer], scheme: Scheme | None) -> tuple[PlainKind, ...] | None:
    """What a model holds in full precision once ``scheme`` is applied; None where nothing of it is compressed."""
    plain = [one for one in layers if one.scheme is None and not (scheme and _covers(scheme, one))]
    if len(plain) == len(layers):
        return None
    of = Counter(layer.kind for layer in layers)
    kinds = Counter((one.kind, one.dtype.lower(), (one.tied_to or "").rpartition(".")[2] or None) for one in plain)
    return tuple(PlainKind(kind, n, of[kind], dtype, shares) for (kind, dtype, shares), n in kinds.items())


def _covers(scheme: Scheme, layer: Layer) -> bool:
    """Whether the scheme compresses a plain layer: those of the decoder, and the head where it names that."""
    if layer.name.startswith(DECODER):
        return scheme.changes_weights
    return layer.kind == _HEAD and scheme.head_bits is not None


class _Steps:
    """The engine counts what is done, a bar counts steps."""

    def __init__(self, bar: Bar) -> None:
        self._bar, self._done = bar, 0

    def on_progress(self, done: int, total: int) -> None:
        self._bar.advance(done - self._done)
        self._done = done
