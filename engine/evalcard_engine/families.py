"""What each model family does differently, in one place; families not listed here are refused."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evalcard_engine.errors import UnsupportedModel

EXACT_ROPE_TYPES = frozenset({"default", "linear", "llama3", "yarn"})
"""Position encodings that depend on the position alone."""

BATCH_ROPE_TYPES = frozenset({"dynamic", "longrope"})
"""Position encodings that change with the longest sequence of a batch."""

OTHER_BACKENDS = "Other engines run it: try --backend vllm or --backend hf."


@dataclass(frozen=True, slots=True)
class Family:
    """One model type: where its text weights are in a checkpoint, and which layers look through a window."""

    model_type: str
    """As in config.json."""
    renames: tuple[tuple[str, str], ...] = ()
    """(prefix in the checkpoint, prefix in the module), the first match wins."""
    ignored: tuple[str, ...] = ()
    """Prefixes of tensors the text model does not have."""
    window_from_config: bool = False
    """All layers share config.sliding_window, where others say it layer by layer."""

    def module_name(self, tensor: str) -> str | None:
        """The module parameter that a checkpoint tensor fills; None where it belongs to no part of the text model."""
        if tensor.startswith(self.ignored) or tensor.endswith("rotary_emb.inv_freq"):
            return None
        for old, new in self.renames:
            if tensor.startswith(old):
                return new + tensor.removeprefix(old)
        return tensor

    def window(self, attention: Any) -> int | None:
        """The sliding window that a layer's attention module hands to the attention function."""
        if self.window_from_config:
            return getattr(attention.config, "sliding_window", None)
        return getattr(attention, "sliding_window", None)


FAMILIES: dict[str, Family] = {
    family.model_type: family
    for family in (
        Family("llama"),
        Family("mistral", window_from_config=True),
        Family("qwen2"),
        Family("qwen3"),
        Family("gemma3_text"),
        Family(
            "gemma3",
            renames=(
                ("model.language_model.", "model."),
                ("language_model.model.", "model."),
                ("language_model.lm_head.", "lm_head."),
            ),
            ignored=(
                "model.vision_tower.",
                "vision_tower.",
                "model.multi_modal_projector.",
                "multi_modal_projector.",
            ),
        ),
    )
}


def family_of(config: Mapping[str, Any], name: str) -> Family:
    """The family of a config.json; raises UnsupportedModel for models this engine would not run exactly."""
    model_type = config.get("model_type")
    family = FAMILIES.get(str(model_type))
    if family is None:
        known = ", ".join(sorted(FAMILIES))
        raise UnsupportedModel(
            f"{name} is of the family {model_type!r}; evalcard's own engine runs {known}. {OTHER_BACKENDS}"
        )
    text = config.get("text_config") or config
    if text.get("use_bidirectional_attention"):
        raise UnsupportedModel(f"{name} looks at later tokens (use_bidirectional_attention). {OTHER_BACKENDS}")
    return family


def check_rope(config: Any, name: str) -> None:
    """Refuse position encodings that depend on the batch; ``config`` is transformers' own, of the text model."""
    parameters = config.rope_parameters or {}
    nested = [value for value in parameters.values() if isinstance(value, Mapping)]
    for rope in nested or [parameters]:
        rope_type = rope.get("rope_type", "default")
        if rope_type not in EXACT_ROPE_TYPES:
            why = "changes with the length of the batch" if rope_type in BATCH_ROPE_TYPES else "is unknown here"
            known = ", ".join(sorted(EXACT_ROPE_TYPES))
            raise UnsupportedModel(
                f"{name} has the position encoding {rope_type!r}, which {why}; "
                f"this engine runs {known}. {OTHER_BACKENDS}"
            )
