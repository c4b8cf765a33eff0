"""What one family of models does differently, and where transformers' modules and configs say so."""

import re
from dataclasses import dataclass
from typing import Any, Literal

from evalcard_engine.attention.reach import Chunked, Reach
from evalcard_engine.attention.rules import LayerRule
from evalcard_engine.attention.temperature import Temperature
from evalcard_engine.checkpoint.expert_tensors import Fused, separate
from evalcard_engine.checkpoint.source import Checkpoint
from evalcard_engine.experts import Kind


@dataclass(frozen=True, slots=True)
class Family:
    """One model type: where its text weights are in a checkpoint, and what its layers' attention does."""

    model_type: str
    """As in config.json."""
    renames: tuple[tuple[str, str], ...] = ()
    """(prefix in the checkpoint, prefix in the module), the first match wins."""
    spellings: tuple[tuple[str, str], ...] = ()
    """(pattern in a name of the checkpoint, what stands there in the module), applied in turn after ``renames``."""
    ignored: tuple[str, ...] = ()
    """Prefixes of tensors the text model does not have."""
    windows: Literal["module", "config", "layer_types"] = "module"
    """Where a layer's sliding window is to be found: its attention module's, one for all layers of the config, or the
    config's for those layers that its layer_types call sliding."""
    has_chunks: bool = False
    """Layers that layer_types call chunked see their own chunk (config.attention_chunk_size) only."""
    has_temperature: bool = False
    """Layers without a position encoding scale their queries by position."""
    is_latent: bool = False
    """Keys and values come from a latent (MLA): every head has its own, and they differ in size."""
    experts: Kind | None = None
    """What a mixture's experts are; None where there are none."""
    fused: tuple[Fused, ...] = ()
    """Tensors that hold all experts of a layer."""
    num_experts: int | None = None
    """Of a checkpoint's config, where it says."""

    def separate(self, checkpoint: Checkpoint) -> Checkpoint:
        """The checkpoint as if every expert had tensors of its own."""
        return separate(checkpoint, self.fused, self.num_experts)

    def module_name(self, tensor: str) -> str | None:
        """The module parameter that a checkpoint tensor fills; None where it belongs to no part of the text model."""
        if tensor.startswith(self.ignored) or tensor.endswith("rotary_emb.inv_freq"):
            return None
        for old, new in self.renames:
            if tensor.startswith(old):
                tensor = new + tensor.removeprefix(old)
                break
        for pattern, there in self.spellings:
            tensor = re.sub(pattern, there, tensor)
        return tensor

    def rule(self, attention: Any) -> LayerRule:
        """What a layer's attention module does and does not tell the attention function."""
        return LayerRule(self.reach(attention), self._temperature(attention))

    def reach(self, attention: Any) -> Reach:
        """Which of the tokens before it a token of the layer sees."""
        if self.has_chunks and attention.config.layer_types[attention.layer_idx] == "chunked_attention":
            return Chunked(attention.config.attention_chunk_size)
        return self.window(attention)

    def window(self, attention: Any) -> int | None:
        """The sliding window of a layer."""
        if self.windows == "module":
            return getattr(attention, "sliding_window", None)
        config = attention.config
        if self.windows == "layer_types" and config.layer_types[attention.layer_idx] != "sliding_attention":
            return None
        return getattr(config, "sliding_window", None)

    def _temperature(self, attention: Any) -> Temperature | None:
        if not self.has_temperature or attention.use_rope or not attention.config.attn_temperature_tuning:
            return None
        return Temperature(attention.config.attn_scale, attention.config.floor_scale)

    def kv_shape(self, config: Any) -> tuple[int, int, int]:
        """(key and value heads, key size, value size) of a layer's cache; ``config`` is transformers' own."""
        if self.is_latent:
            return config.num_attention_heads, config.qk_nope_head_dim + config.qk_rope_head_dim, config.v_head_dim
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return config.num_key_value_heads, size, size
