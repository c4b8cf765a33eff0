"""What each model family does differently, in one place; families not listed here are refused."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evalcard_engine.checkpoint.expert_tensors import Fused, num_experts_of
from evalcard_engine.errors import UnsupportedModel
from evalcard_engine.family import Family

EXACT_ROPE_TYPES = frozenset({"default", "linear", "llama3", "yarn"})
"""Position encodings that depend on the position alone."""

BATCH_ROPE_TYPES = frozenset({"dynamic", "longrope"})
"""Position encodings that change with the longest sequence of a batch."""

LONGROPE_FAMILIES = frozenset({"phi3"})
"""Families whose layers take the cosines and sines that longrope.py makes."""

OTHER_BACKENDS = "Other engines run it: try --backend vllm or --backend hf."


_VISION = ("vision_tower.", "vision_model.", "multi_modal_projector.")
_SEEING = (*(f"model.{part}" for part in _VISION), *_VISION)
"""What a model that also sees has besides its language model."""
_INSIDE = (
    ("model.language_model.", "model."),
    ("language_model.model.", "model."),
    ("language_model.lm_head.", "lm_head."),
)
"""A language model inside such a model, as transformers has written it since version 4.52 and before."""

_LAYER = r"(?P<layer>.*\.experts)"
_ROWS = (
    Fused(rf"{_LAYER}\.gate_up_proj", ("gate_proj.weight", "up_proj.weight")),
    Fused(rf"{_LAYER}\.down_proj", ("down_proj.weight",)),
)
"""Experts as transformers' modules have them since version 5, [experts, out, in]."""
_COLUMNS = tuple(replace(one, is_turned=True) for one in _ROWS)
_GPT_OSS = (
    Fused(rf"{_LAYER}\.gate_up_proj", ("gate_up_proj.weight",), is_turned=True),
    Fused(rf"{_LAYER}\.down_proj", ("down_proj.weight",), is_turned=True),
    *(
        Fused(rf"{_LAYER}\.{linear}_{leaf}", (f"{linear}.{leaf}",))
        for linear in ("gate_up_proj", "down_proj")
        for leaf in ("bias", "blocks", "scales")
    ),
)
_GRANITE = (
    Fused(r"(?P<layer>.*\.block_sparse_moe)\.input_linear\.weight", _ROWS[0].parts),
    Fused(r"(?P<layer>.*\.block_sparse_moe)\.output_linear\.weight", _ROWS[1].parts),
    *_ROWS,
)
_MIXTRAL = (
    (r"\.block_sparse_moe\.", ".mlp."),
    (r"(\.experts\.\d+)\.w1\.", r"\1.gate_proj."),
    (r"(\.experts\.\d+)\.w3\.", r"\1.up_proj."),
    (r"(\.experts\.\d+)\.w2\.", r"\1.down_proj."),
)

FAMILIES: dict[str, Family] = {
    family.model_type: family
    for family in (
        Family("cohere2"),
        Family("deepseek_v3", is_latent=True, experts="gated", fused=_ROWS),
        Family("exaone4", windows="layer_types"),
        Family("gemma2"),
        Family("gemma3_text"),
        Family("gemma3", renames=_INSIDE, ignored=_SEEING),
        Family("glm"),
        Family("glm4"),
        Family("granite"),
        Family(
            "granitemoe",
            spellings=((r"(\.block_sparse_moe)\.(\d+\.)", r"\1.experts.\2"), (r"\.router\.layer\.", ".router.")),
            experts="gated",
            fused=_GRANITE,
        ),
        Family("gpt_oss", experts="clamped", fused=_GPT_OSS),
        Family("llama"),
        Family(
            "llama4",
            renames=_INSIDE,
            ignored=_SEEING,
            has_chunks=True,
            has_temperature=True,
            experts="scaled",
            fused=_COLUMNS,
        ),
        Family("llama4_text", has_chunks=True, has_temperature=True, experts="scaled", fused=_COLUMNS),
        Family("mistral", windows="config"),
        Family("mixtral", windows="config", spellings=_MIXTRAL, experts="gated", fused=_ROWS),
        Family("olmo2"),
        Family("olmo3"),
        Family("phi3", windows="config"),
        Family("qwen2"),
        Family("qwen2_moe", experts="gated", fused=_ROWS),
        Family("qwen3"),
        Family("qwen3_moe", experts="gated", fused=_ROWS),
        Family("smollm3"),
    )
}

_SHARED_KV = "whose last layers read the keys and values of earlier ones, which this engine's cache does not share"
REFUSED: Mapping[str, str] = {
    "gemma3n": _SHARED_KV,
    "gemma3n_text": _SHARED_KV,
    "gemma4": _SHARED_KV,
    "gemma4_text": _SHARED_KV,
    "gemma4_unified": _SHARED_KV,
    "gemma4_unified_text": _SHARED_KV,
}
"""Families that have a reason of their own, in words, why they are not among FAMILIES."""


def family_of(config: Mapping[str, Any], name: str) -> Family:
    """The family of a config.json; raises UnsupportedModel for models this engine would not run exactly."""
    model_type = config.get("model_type")
    text = config.get("text_config") or config
    reason = REFUSED.get(str(model_type)) or (_SHARED_KV if text.get("num_kv_shared_layers") else None)
    if reason is not None:
        raise UnsupportedModel(f"{name} is of the family {model_type!r}, {reason}. {OTHER_BACKENDS}")
    family = FAMILIES.get(str(model_type))
    if family is None:
        known = ", ".join(sorted(FAMILIES))
        raise UnsupportedModel(
            f"{name} is of the family {model_type!r}; evalcard's own engine runs {known}. {OTHER_BACKENDS}"
        )
    if text.get("use_bidirectional_attention"):
        raise UnsupportedModel(f"{name} looks at later tokens (use_bidirectional_attention). {OTHER_BACKENDS}")
    if not text.get("is_causal", True):
        raise UnsupportedModel(f"{name} looks at later tokens (is_causal is {text['is_causal']!r}). {OTHER_BACKENDS}")
    return replace(family, ignored=(*family.ignored, *_layers_beyond(text)), num_experts=num_experts_of(text))


def _layers_beyond(text: Mapping[str, Any]) -> tuple[str, ...]:
    """Prefixes of layers that only guess further tokens (DeepSeek-V3's multi-token prediction), stored as the last."""
    first, count = text.get("num_hidden_layers"), text.get("num_nextn_predict_layers")
    if not isinstance(first, int) or not isinstance(count, int):
        return ()
    return tuple(f"model.layers.{layer}." for layer in range(first, first + count))


def is_longrope(config: Any) -> bool:
    """Whether positions are encoded by the length of their sequence, and longrope.py knows how this family does it."""
    parameters = config.rope_parameters or {}
    return parameters.get("rope_type") == "longrope" and getattr(config, "model_type", None) in LONGROPE_FAMILIES


def check_rope(config: Any, name: str) -> None:
    """Refuse position encodings that depend on the batch; ``config`` is transformers' own, of the text model."""
    parameters = config.rope_parameters or {}
    nested = [value for value in parameters.values() if isinstance(value, Mapping)]
    for rope in nested or [parameters]:
        rope_type = rope.get("rope_type", "default")
        if is_longrope(config) and not nested:
            continue
        if rope_type not in EXACT_ROPE_TYPES:
            why = "changes with the length of the batch" if rope_type in BATCH_ROPE_TYPES else "is unknown here"
            known = ", ".join(sorted(EXACT_ROPE_TYPES))
            raise UnsupportedModel(
                f"{name} has the position encoding {rope_type!r}, which {why}; "
                f"this engine runs {known}. {OTHER_BACKENDS}"
            )
