"""Where the answers of a run come from that was put together from stored results: which program, which files."""

import json
from dataclasses import dataclass

from evalcard.card.paths import without_paths
from evalcard.results.records import ModelRecord, RunRecord, SourceRecord

_DIGEST_LABELS = {"tokenizer_digest": "tokenizer", "weights_digest": "weights"}
_NOTHING = (None, "", "?")
"""What a program writes where it does not know."""
_SIZE_LABELS = {"bits_per_weight": "bits per weight", "weight_bytes": "size"}


@dataclass(frozen=True, slots=True)
class SourceView:
    """One model's answers."""

    slug: str
    who: str
    """Its role."""
    program: str
    run: str | None
    """A run of evalcard's; None for another program's files."""
    files: tuple[str, ...]
    created: str | None
    """Day."""
    facts: tuple[tuple[str, str], ...]
    """(label, value), as the program states them of the model and of itself."""
    unknown: tuple[str, ...]
    """What it does not tell."""


@dataclass(frozen=True, slots=True)
class SourcesView:
    """Both models."""

    models: tuple[SourceView, ...]
    prompts: str
    """What prompts were compared by: ``ids``, ``text`` or ``none``."""
    has_hardware: bool


def sources_view(run: RunRecord) -> SourcesView | None:
    """None for a run that asked its models itself."""
    if not run.sources:
        return None
    known = [(model, run.sources[model.slug]) for model in run.models if model.slug in run.sources]
    kinds = {source.prompts for _, source in known}
    return SourcesView(
        models=tuple(_view(model, source) for model, source in known),
        prompts=kinds.pop() if len(kinds) == 1 else "none",
        has_hardware=bool(run.hardware),
    )


def _view(model: ModelRecord, source: SourceRecord) -> SourceView:
    return SourceView(
        slug=model.slug,
        who=model.role,
        program=without_paths(source.program),
        run=source.run,
        files=tuple(without_paths(name) for name in source.files),
        created=source.created[:10] if source.created else None,
        facts=_facts(model, source),
        unknown=_unknown(model, source),
    )


def _facts(model: ModelRecord, source: SourceRecord) -> tuple[tuple[str, str], ...]:
    """Of another program those it tells of the model's loading; of evalcard the engine's numerics in one."""
    if not model.numerics:
        return ()
    told = _parsed(model.numerics)
    if source.run is not None or told is None:
        return (("numerics", without_paths(model.numerics)),)
    # The program's own version stands in its name already.
    return tuple((key, value) for key, value in told if f"{key} {value}" != source.program)


def _parsed(numerics: str) -> list[tuple[str, str]] | None:
    try:
        told = json.loads(numerics)
    except ValueError:
        return None
    if not isinstance(told, dict):
        return None
    return [(str(key), without_paths(str(value))) for key, value in told.items() if value not in _NOTHING]


def _unknown(model: ModelRecord, source: SourceRecord) -> tuple[str, ...]:
    missing = [label for name, label in _DIGEST_LABELS.items() if not getattr(model, name)]
    missing += [label for name, label in _SIZE_LABELS.items() if getattr(model, name) is None]
    return tuple(missing if source.tells_endings else [*missing, "how answers ended"])
