"""Settings of config.json that would change what a model computes, were they those of its family.

transformers keeps a key that a family's config does not have and never looks at it again. Where such a key is one that
scales or bends numbers in another family, weights and config are of two minds, and no answer could be trusted.
"""

from collections.abc import Mapping
from typing import Any

from evalcard_engine.errors import UnsupportedModel

TELLING = frozenset({
    "alibi", "attention_chunk_size", "attention_multiplier", "attn_logit_softcapping", "clip_qkv",
    "embedding_multiplier", "final_logit_softcapping", "logit_scale", "logits_scaling", "parallel_attn",
    "query_pre_attn_scalar", "residual_multiplier", "scale_depth", "scale_emb", "sliding_window",
    "use_parallel_residual",
})  # fmt: skip
"""Keys that some family reads and that change its logits. Those that add tensors are not needed here: a tensor that
nobody claims is a fault, and so is one that is missing."""


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
    if unread:
        raise UnsupportedModel(
            f"{model}: config.json sets {', '.join(unread)}, which changes numbers in other families, but a "
            f"{config.model_type!r} does not read it. Correct model_type, or take out what does not belong to it."
        )


def _is_neutral(value: Any) -> bool:
    """Left out, off, or times one."""
    return value is None or value is False or (not isinstance(value, bool) and value == 1)
