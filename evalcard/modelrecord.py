"""What is published of a model: who it is and how large; a path never."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Literal

from evalcard.backends.backend import Backend, Identity
from evalcard.modelspec import ModelSpec
from evalcard.results.records import EngineRecord, ModelRecord, PlainLayers
from evalcard.spec import RunSpec
from evalcard.tasks.prompts.tokenizer import Tokenizer
from evalcard_engine.quant.scheme import parse_scheme

Role = Literal["baseline", "compressed"]


def model_record(
    spec: RunSpec, model: ModelSpec, slug: str, role: Role, identity: Identity, tokenizer: Tokenizer, backend: Backend
) -> ModelRecord:
    """What is published of a model; sizes only where the backend opened it."""
    facts, told = backend.facts(), identity.described
    revision = facts.get("revision") or model.revision
    return ModelRecord(
        slug=slug,
        role=role,
        name=model.name,
        hub_id=model.hub_id,
        revision=str(revision) if revision else None,
        scheme=model.scheme,
        scheme_title=_scheme_title(model, identity),
        weights_digest=identity.weights_digest,
        tokenizer_digest=tokenizer.digest,
        template_digest=tokenizer.template_digest if spec.chat_template else None,
        numerics=identity.numerics,
        bits_per_weight=_number(facts, "bits_per_weight"),
        weight_bytes=_count(facts, "weight_bytes"),
        num_parameters=_count(facts, "num_parameters"),
        config=dict(told.config) if told.config is not None else None,
        left_plain=None if told.left_plain is None else [PlainLayers(**asdict(one)) for one in told.left_plain],
        recipe=told.recipe,
        stated=dict(told.stated) if told.stated else None,
        engine=_engine(facts),
    )


def _engine(facts: Mapping[str, float | int | str | None]) -> EngineRecord | None:
    """The counts of our own engine; None where the backend is another or had nothing to answer."""
    counts = {name: _count(facts, name) for name in EngineRecord.model_fields}
    return EngineRecord.model_validate(counts) if None not in counts.values() else None


def _scheme_title(model: ModelSpec, identity: Identity) -> str | None:
    """What was compressed in the files, and what is while the model runs (a KV cache may be added to either)."""
    now = parse_scheme(model.scheme).title if model.scheme else None
    return "; ".join(part for part in (identity.stored_as, now) if part) or None


def _number(facts: Mapping[str, float | int | str | None], name: str) -> float | None:
    value = facts.get(name)
    return float(value) if isinstance(value, (int, float)) else None


def _count(facts: Mapping[str, float | int | str | None], name: str) -> int | None:
    value = facts.get(name)
    return int(value) if isinstance(value, (int, float)) else None
