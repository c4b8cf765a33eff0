"""What each model family does differently, as one table: which tensors a layer has, and what configs leave out.

Shapes follow the modules of transformers 5; the tests build them without memory and count. A new family is a line here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from evalcard.footprint import windows
from evalcard.footprint.settings import Settings

Bias = bool | str
"""Whether there are biases, or the config's name for that."""


@dataclass(frozen=True, slots=True)
class Experts:
    """The sparse half of a family's layers."""

    width: str = "moe_intermediate_size"
    """The config's name for the inner width of one expert."""
    dense_width: str = "intermediate_size"
    """Likewise of an MLP in a layer without experts."""
    is_sparse: Callable[[Settings, int], bool] = lambda config, at: True
    """Whether the layer (from 0) has experts."""
    shared_width: Callable[[Settings], int] = lambda config: 0
    """Inner width of what every token passes through beside its experts; 0 is none."""
    has_shared_gate: bool = False
    """One output that scales the shared expert."""
    has_biases: bool = False
    """Of the experts and of the router."""
    may_be_none: bool = False
    """Whether a config may say 0 of them, which makes all layers dense."""
    has_correction: bool = False
    """A vector of the router, one number an expert, that balances them."""


@dataclass(frozen=True, slots=True)
class Family:
    """A decoder: embedding, layers of attention and a gated MLP or experts, a last norm, a head."""

    defaults: Mapping[str, Any]
    """What transformers assumes where a config leaves a name out."""
    norms: int = 2
    """Vectors as wide as the model in each layer."""
    qk_norm: Literal["head", "width"] | None = None
    """Norms of queries and keys: one vector a head wide each, or as wide as all heads together."""
    qkv_bias: Bias = False
    o_bias: Bias = False
    mlp_bias: Bias = False
    has_sinks: bool = False
    """A number for each head that takes up attention."""
    is_mla: bool = False
    """Keys and values are made from one latent vector (DeepSeek-V2, 2024), which is what a cache may hold."""
    experts: Experts | None = None
    window_rule: windows.Rule = windows.none


def _every_step(config: Settings, at: int) -> bool:
    step = config.count("decoder_sparse_step")
    return at not in config.numbers("mlp_only_layers") and (at + 1) % step == 0


def _after_dense(config: Settings, at: int) -> bool:
    return at >= (config.optional("first_k_dense_replace") or 0)


def _interleaved(config: Settings, at: int) -> bool:
    """moe_layers where the config lists them, else every interleave_moe_layer_step-th layer."""
    listed = config.get("moe_layers")
    return (
        at in config.numbers("moe_layers")
        if listed is not None
        else (at + 1) % config.count("interleave_moe_layer_step") == 0
    )


_LLAMA = {"vocab_size": 32000, "num_attention_heads": 32, "tie_word_embeddings": False, "intermediate_size": 11008}
_QWEN = {"vocab_size": 151936, "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 22016,
         "tie_word_embeddings": False, "sliding_window": 4096, "max_window_layers": 28}  # fmt: skip
_QWEN_MOE = {"tie_word_embeddings": False, "vocab_size": 151936, "sliding_window": 4096, "max_window_layers": 28,
             "decoder_sparse_step": 1}  # fmt: skip
_GEMMA = {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "intermediate_size": 9216,
          "sliding_window": 4096, "tie_word_embeddings": True}  # fmt: skip
_ATTENTION: dict[str, Any] = {"qkv_bias": "attention_bias", "o_bias": "attention_bias"}

FAMILIES: dict[str, Family] = {
    "llama": Family({**_LLAMA, "max_position_embeddings": 2048}, mlp_bias="mlp_bias", **_ATTENTION),
    "mistral": Family(
        {**_LLAMA, "num_key_value_heads": 8, "intermediate_size": 14336, "sliding_window": 4096,
         "max_position_embeddings": 131072},
        window_rule=windows.everywhere,
    ),
    "mixtral": Family(
        {**_LLAMA, "num_key_value_heads": 8, "intermediate_size": 14336, "num_local_experts": 8,
         "num_experts_per_tok": 2, "max_position_embeddings": 131072},
        experts=Experts(width="intermediate_size"),
        window_rule=windows.everywhere,
    ),
    "qwen2": Family({**_QWEN, "max_position_embeddings": 32768}, qkv_bias=True, window_rule=windows.after_layers),
    "qwen3": Family(
        {**_QWEN, "head_dim": 128, "max_position_embeddings": 32768},
        qk_norm="head", **_ATTENTION, window_rule=windows.after_layers,
    ),
    "qwen2_moe": Family(
        {**_QWEN_MOE, "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 5632,
         "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_experts": 60,
         "num_experts_per_tok": 4, "qkv_bias": True, "max_position_embeddings": 32768},
        qkv_bias="qkv_bias",
        experts=Experts(
            is_sparse=_every_step,
            shared_width=lambda config: config.count("shared_expert_intermediate_size", least=0),
            has_shared_gate=True,
            may_be_none=True,
        ),
        window_rule=windows.alternating_before,
    ),
    "qwen3_moe": Family(
        {**_QWEN_MOE, "num_attention_heads": 32, "num_key_value_heads": 4, "intermediate_size": 6144,
         "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8,
         "max_position_embeddings": 32768},
        qk_norm="head", **_ATTENTION, experts=Experts(is_sparse=_every_step, may_be_none=True),
        window_rule=windows.if_used,
    ),
    "gemma2": Family(
        {**_GEMMA, "vocab_size": 256000, "max_position_embeddings": 8192},
        norms=4, **_ATTENTION, window_rule=windows.but_every(2),
    ),
    "gemma3_text": Family(
        {**_GEMMA, "vocab_size": 262208, "max_position_embeddings": 131072},
        norms=4, qk_norm="head", **_ATTENTION, window_rule=windows.by_pattern(6),
    ),
    "phi3": Family(
        {**_LLAMA, "vocab_size": 32064, "intermediate_size": 8192, "max_position_embeddings": 4096},
        window_rule=windows.everywhere,
    ),
    "granite": Family({**_LLAMA, "max_position_embeddings": 2048}, mlp_bias="mlp_bias", **_ATTENTION),
    "olmo2": Family(
        {**_LLAMA, "vocab_size": 50304, "max_position_embeddings": 2048}, qk_norm="width", **_ATTENTION
    ),
    "olmo3": Family(
        {**_LLAMA, "vocab_size": 50304, "sliding_window": 4096, "max_position_embeddings": 2048},
        qk_norm="width", **_ATTENTION, window_rule=windows.but_every(4),
    ),
    "smollm3": Family(
        {"vocab_size": 128256, "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 11008,
         "tie_word_embeddings": True, "no_rope_layer_interval": 4, "max_position_embeddings": 32768},
        mlp_bias="mlp_bias", **_ATTENTION, window_rule=windows.without_positions,
    ),
    "cohere2": Family(
        {"vocab_size": 256000, "num_attention_heads": 64, "intermediate_size": 22528, "sliding_window": 4096,
         "tie_word_embeddings": True, "max_position_embeddings": 8192},
        norms=1, **_ATTENTION, window_rule=windows.by_pattern(4),
    ),
    "glm4": Family(
        {"vocab_size": 151552, "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128,
         "intermediate_size": 13696, "tie_word_embeddings": False, "attention_bias": True,
         "max_position_embeddings": 131072},
        norms=4, qkv_bias="attention_bias",
    ),
    "exaone4": Family(
        {"vocab_size": 102400, "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 16384,
         "sliding_window": 4096, "tie_word_embeddings": False, "max_position_embeddings": 2048},
        qk_norm="head", window_rule=windows.by_pattern(4),
    ),
    "gpt_oss": Family(
        {"vocab_size": 201088, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
         "intermediate_size": 2880, "num_local_experts": 128, "num_experts_per_tok": 4, "attention_bias": True,
         "sliding_window": 128, "tie_word_embeddings": False, "max_position_embeddings": 131072},
        has_sinks=True, **_ATTENTION, experts=Experts(width="intermediate_size", has_biases=True),
        window_rule=windows.but_every(2),
    ),
    "deepseek_v3": Family(
        {"vocab_size": 129280, "num_attention_heads": 128, "num_key_value_heads": 128, "intermediate_size": 18432,
         "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
         "first_k_dense_replace": 3, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64,
         "v_head_dim": 128, "qk_nope_head_dim": 128, "tie_word_embeddings": False, "max_position_embeddings": 4096},
        is_mla=True, **_ATTENTION,
        experts=Experts(
            is_sparse=_after_dense,
            shared_width=lambda c: (c.optional("n_shared_experts") or 0) * c.count("moe_intermediate_size"),
            has_correction=True,
        ),
    ),
    "llama4_text": Family(
        {"vocab_size": 202048, "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128,
         "intermediate_size": 8192, "intermediate_size_mlp": 16384, "num_local_experts": 16,
         "num_experts_per_tok": 1, "interleave_moe_layer_step": 1, "no_rope_layer_interval": 4,
         "attention_chunk_size": 8192, "tie_word_embeddings": False, "max_position_embeddings": 131072},
        **_ATTENTION,
        experts=Experts(
            width="intermediate_size",
            dense_width="intermediate_size_mlp",
            is_sparse=_interleaved,
            shared_width=lambda config: config.count("intermediate_size"),
        ),
        window_rule=windows.chunks,
    ),
}  # fmt: skip
"""By model_type of the text model."""
