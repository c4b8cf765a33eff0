"""What a model is, by its config and its tensors: architecture, size, and what stays in full precision."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evalcard.card import numbers
from evalcard.results.records import ModelRecord


@dataclass(frozen=True, slots=True)
class LeftView:
    """One kind of layer that is not compressed."""

    kind: str
    count: str
    """``1``, or ``2 of 24`` where others of the kind are compressed or stored otherwise."""
    dtype: str
    shares: str | None
    """The kind whose weight it shares."""


@dataclass(frozen=True, slots=True)
class Overview:
    """None where the config does not say."""

    architecture: str | None
    """Class of the model, such as LlamaForCausalLM."""
    model_type: str | None
    layers: str | None
    hidden: str | None
    heads: str | None
    kv_heads: str | None
    vocabulary: str | None
    context: str | None
    """Positions."""
    experts: str | None
    experts_used: str | None
    """Of each token."""
    parameters: str | None
    active: str | None
    """Parameters that one token uses, of a mixture of experts."""
    left: tuple[LeftView, ...] | None
    """None where nothing is compressed, or nobody looked."""


_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
_EXPERTS_USED = ("num_experts_per_tok", "num_experts_per_token", "moe_topk")


def overview_of(model: ModelRecord) -> Overview:
    """Of a run that an older evalcard made, little is known."""
    config = text_config(model.config)
    architectures = (model.config or {}).get("architectures")
    first = architectures[0] if isinstance(architectures, list) and architectures else None
    experts = _number(config, *_EXPERTS)
    return Overview(
        architecture=first if isinstance(first, str) else None,
        model_type=_text(config, "model_type"),
        layers=_number(config, "num_hidden_layers"),
        hidden=_number(config, "hidden_size"),
        heads=_number(config, "num_attention_heads"),
        kv_heads=_number(config, "num_key_value_heads"),
        vocabulary=_number(config, "vocab_size"),
        context=_number(config, "max_position_embeddings"),
        experts=experts,
        experts_used=_number(config, *_EXPERTS_USED) if experts else None,
        parameters=None if model.num_parameters is None else numbers.parameters(model.num_parameters),
        active=_active(model) if experts else None,
        left=_left(model),
    )


def text_config(config: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Of a model that reads more than text, the part about text."""
    inner = (config or {}).get("text_config")
    return inner if isinstance(inner, dict) else config or {}


def _active(model: ModelRecord) -> str | None:
    """Counted from the config; None for a family that the count does not know."""
    from evalcard.errors import UserError
    from evalcard.footprint.footprint import footprint_of

    try:
        footprint = footprint_of(model.config or {})
    except UserError:
        return None
    return numbers.parameters(footprint.num_active)


def _left(model: ModelRecord) -> tuple[LeftView, ...] | None:
    if model.left_plain is None:
        return None
    return tuple(
        LeftView(
            kind=one.kind,
            count=numbers.fixed(one.count, 0) if one.count == one.of else f"{one.count} of {one.of}",
            dtype=one.dtype,
            shares=one.shares,
        )
        for one in model.left_plain
    )


def _text(config: Mapping[str, Any], key: str) -> str | None:
    value = config.get(key)
    return value if isinstance(value, str) and value else None


def _number(config: Mapping[str, Any], *keys: str) -> str | None:
    """The first of the keys that holds a count."""
    found = (config.get(key) for key in keys)
    value = next((one for one in found if isinstance(one, int) and not isinstance(one, bool) and one > 0), None)
    return None if value is None else f"{value:,}"
