"""Settings of config.json that would change what a model computes, were they those of its family.

transformers keeps a key that a family's config does not have and never looks at it again. Where such a key is one that
scales or bends numbers in another family, weights and config are of two minds, and no answer could be trusted.
"""

from collections.abc import Mapping
from typing import Any

from evalcard_engine.errors import UnsupportedModel

TELLING = frozenset({
    "alibi", "attention_chunk_size", "attention_multiplier", "attn_logit_softcapping", "clip_qkv",
    "embedding_multiplier", "final_logit_softcapping", "hidden_activation", "logit_scale", "logits_scaling",
    "parallel_attn", "query_pre_attn_scalar", "residual_multiplier", "scale_depth", "scale_emb", "sliding_window",
    "use_parallel_residual",
})  # fmt: skip
"""Keys that some family reads and that change its logits. Those that add tensors are not needed here: a tensor that
nobody claims is a fault, and so is one that is missing."""


GRANTED: Mapping[str, Mapping[str, Any]] = {
    "cohere2": {
        "position_embedding_type": "rope_gptj", "rotary_pct": 1.0, "use_gated_activation": True,
        "use_parallel_block": True,
    },
    "deepseek_v3": {"moe_layer_freq": 1, "scoring_func": "sigmoid", "topk_method": "noaux_tc"},
}  # fmt: skip
"""By model_type: keys that published configs have and transformers does not read, because it knows one value only."""


def check_unread(raw: Mapping[str, Any], config: Any, model: str) -> None:
    """Refuse telling settings of config.json that this family does not read.

    raw: config.json as it is, of the text model; config: transformers' own of it. Raises UnsupportedModel naming all.
    """
    known = set(type(config)().to_dict())
    found = {key: raw[key] for key in sorted(TELLING & raw.keys()) if key not in known}
    # A window that its own switch turns off is none.
    if not raw.get("use_sliding_window", True):
        found.pop("sliding_window", None)
    unread = [f"{key} = {value!r}" for key, value in found.items() if not _is_neutral(value)]
    granted = GRANTED.get(config.model_type, {})
    unread += [f"{key} = {raw[key]!r}" for key, value in granted.items() if raw.get(key, value) != value]
    if unread:
        raise UnsupportedModel(
            f"{model}: config.json sets {', '.join(unread)}, which changes numbers in other families, but a "
            f"{config.model_type!r} does not read it. Correct model_type, or take out what does not belong to it."
        )


def _is_neutral(value: Any) -> bool:
    """Left out, off, or times one."""
    return value is None or value is False or (not isinstance(value, bool) and value == 1)
