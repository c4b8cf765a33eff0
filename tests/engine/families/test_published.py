"""Settings of published models, cut to a few layers: taken or refused, and read as what they mean.

Values are facts from the models' config.json on the Hub; the number of layers alone is smaller.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from evalcard_engine.attention.reach import Chunked
from evalcard_engine.attention.temperature import Temperature
from evalcard_engine.building import build, decoder_layers, stored_shapes
from evalcard_engine.checkpoint.source import Checkpoint
from evalcard_engine.errors import UnsupportedModel
from evalcard_engine.families import family_of

YARN = {"beta_fast": 32, "beta_slow": 1, "original_max_position_embeddings": 4096}
LLLG = ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]
PUBLISHED: dict[str, tuple[dict[str, Any], list[Any], tuple[int, int, int]]] = {
    "mistralai/Mixtral-8x7B-v0.1": (
        {
            "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768,
            "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 8,
            "num_local_experts": 8, "output_router_logits": False, "rope_theta": 1e6, "sliding_window": None,
            "vocab_size": 32000, "rms_norm_eps": 1e-5,
        },
        [None, None], (8, 128, 128),
    ),
    "Qwen/Qwen1.5-MoE-A2.7B": (
        {
            "model_type": "qwen2_moe", "decoder_sparse_step": 1, "hidden_size": 2048, "intermediate_size": 5632,
            "max_position_embeddings": 8192, "max_window_layers": 21, "moe_intermediate_size": 1408,
            "norm_topk_prob": False, "num_attention_heads": 16, "num_experts": 60, "num_experts_per_tok": 4,
            "num_hidden_layers": 2, "num_key_value_heads": 16, "shared_expert_intermediate_size": 5632,
            "sliding_window": 32768, "use_sliding_window": False, "vocab_size": 151936,
        },
        [None, None], (16, 128, 128),
    ),
    "google/gemma-2-2b": (
        {
            "model_type": "gemma2", "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "head_dim": 256,
            "hidden_size": 2304, "hidden_activation": "gelu_pytorch_tanh", "hidden_act": "gelu_pytorch_tanh",
            "intermediate_size": 9216, "num_attention_heads": 8, "num_hidden_layers": 2, "num_key_value_heads": 4,
            "query_pre_attn_scalar": 256, "sliding_window": 4096, "vocab_size": 256000,
        },
        [4096, None], (4, 256, 256),
    ),
    "microsoft/Phi-4-mini-instruct": (
        {
            "model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192, "max_position_embeddings": 131072,
            "num_attention_heads": 24, "num_hidden_layers": 2, "num_key_value_heads": 8, "partial_rotary_factor": 0.75,
            "original_max_position_embeddings": 4096, "sliding_window": 262144, "vocab_size": 200064,
            "rope_scaling": {"type": "longrope", "long_factor": [2.0] * 48, "short_factor": [1.0] * 48},
        },
        [262144, 262144], (8, 128, 128),
    ),
    "CohereLabs/c4ai-command-r7b-12-2024": (
        {
            "model_type": "cohere2", "head_dim": 128, "hidden_size": 4096, "intermediate_size": 14336,
            "layer_norm_eps": 1e-5, "logit_scale": 0.25, "num_attention_heads": 32, "num_hidden_layers": 4,
            "num_key_value_heads": 8, "order_of_interleaved_layers": "local_attn_first", "rope_theta": 50000,
            "position_embedding_type": "rope_gptj", "rotary_pct": 1.0, "sliding_window": 4096,
            "sliding_window_pattern": 4, "use_embedding_sharing": True, "use_gated_activation": True,
            "use_parallel_block": True, "use_parallel_embedding": True, "vocab_size": 256000,
        },
        [4096, 4096, 4096, None], (8, 128, 128),
    ),
    "LGAI-EXAONE/EXAONE-4.0-32B": (
        {
            "model_type": "exaone4", "head_dim": 128, "hidden_size": 5120, "intermediate_size": 27392,
            "layer_types": LLLG, "num_attention_heads": 40, "num_hidden_layers": 4, "num_key_value_heads": 8,
            "rope_theta": 1e6, "sliding_window": 4096, "sliding_window_pattern": "LLLG", "vocab_size": 102400,
            "max_position_embeddings": 131072,
            "rope_scaling": {
                "factor": 16.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "rope_type": "llama3",
                "original_max_position_embeddings": 8192,
            },
        },
        [4096, 4096, 4096, None], (8, 128, 128),
    ),
    "openai/gpt-oss-20b": (
        {
            "model_type": "gpt_oss", "attention_bias": True, "experts_per_token": 4, "head_dim": 64,
            "hidden_size": 2880, "initial_context_length": 4096, "intermediate_size": 2880,
            "layer_types": ["sliding_attention", "full_attention"], "max_position_embeddings": 131072,
            "num_attention_heads": 64, "num_experts_per_tok": 4, "num_hidden_layers": 2, "num_key_value_heads": 8,
            "num_local_experts": 32, "rope_theta": 150000, "sliding_window": 128, "swiglu_limit": 7.0,
            "rope_scaling": YARN | {"factor": 32.0, "rope_type": "yarn", "truncate": False}, "vocab_size": 201088,
        },
        [128, None], (8, 64, 64),
    ),
    "deepseek-ai/DeepSeek-V3": (
        {
            "model_type": "deepseek_v3", "first_k_dense_replace": 3, "hidden_size": 7168, "intermediate_size": 18432,
            "kv_lora_rank": 512, "max_position_embeddings": 163840, "moe_intermediate_size": 2048, "moe_layer_freq": 1,
            "n_group": 8, "n_routed_experts": 256, "n_shared_experts": 1, "norm_topk_prob": True,
            "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 4, "num_key_value_heads": 128,
            "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
            "rope_scaling": YARN | {"factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0, "type": "yarn"},
            "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "topk_group": 4, "topk_method": "noaux_tc",
            "v_head_dim": 128, "vocab_size": 129280,
        },
        [None] * 4, (128, 192, 128),
    ),
    "meta-llama/Llama-4-Scout-17B-16E": (
        {
            "model_type": "llama4",
            "text_config": {
                "model_type": "llama4_text", "attention_chunk_size": 8192, "attn_scale": 0.1, "floor_scale": 8192,
                "attn_temperature_tuning": True, "head_dim": 128, "hidden_size": 5120, "intermediate_size": 8192,
                "intermediate_size_mlp": 16384, "interleave_moe_layer_step": 1, "num_hidden_layers": 4,
                "max_position_embeddings": 10485760, "no_rope_layers": [1, 1, 1, 0], "num_attention_heads": 40,
                "num_experts_per_tok": 1, "num_key_value_heads": 8, "num_local_experts": 16, "use_qk_norm": True,
                "rope_scaling": {
                    "factor": 16.0, "high_freq_factor": 1.0, "low_freq_factor": 1.0, "rope_type": "llama3",
                    "original_max_position_embeddings": 8192,
                },
                "vocab_size": 202048,
            },
        },
        [Chunked(8192)] * 3 + [None], (8, 128, 128),
    ),
}  # fmt: skip


def built(folder: Path, name: str, config: dict[str, Any]):
    (folder / "config.json").write_text(json.dumps(config))
    family = family_of(config, name)
    return family, *build(Checkpoint(name, folder, config, {}), torch.float32, "cpu", family.experts)


@pytest.mark.parametrize("name", PUBLISHED)
def test_reach_and_cache_of_a_published_model(tmp_path: Path, name: str) -> None:
    settings, reaches, shape = PUBLISHED[name]
    family, config, module = built(tmp_path, name, settings)
    rules = [family.rule(layer.self_attn) for layer in decoder_layers(module)]
    assert [rule.reach for rule in rules] == reaches
    assert family.kv_shape(config) == shape
    wanted = [None, None, None, Temperature(0.1, 8192)] if family.has_temperature else [None] * len(rules)
    assert [rule.temperature for rule in rules] == wanted


def test_tensors_that_deepseek_s_files_hold_are_asked_for(tmp_path: Path) -> None:
    _, _, module = built(tmp_path, "d", PUBLISHED["deepseek-ai/DeepSeek-V3"][0])
    wanted = stored_shapes(module)
    assert wanted["model.layers.3.mlp.gate.e_score_correction_bias"] == (256,)
    assert wanted["model.layers.3.mlp.experts.255.gate_proj.weight"] == (2048, 7168)
    assert wanted["model.layers.3.mlp.shared_experts.down_proj.weight"] == (7168, 2048)
    assert wanted["model.layers.2.mlp.up_proj.weight"] == (18432, 7168)
    assert wanted["model.layers.0.self_attn.kv_a_proj_with_mqa.weight"] == (576, 7168)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("deepseek-ai/DeepSeek-V3", {"scoring_func": "softmax"}, "scoring_func = 'softmax'"),
        ("deepseek-ai/DeepSeek-V3", {"topk_method": "greedy"}, "topk_method = 'greedy'"),
        ("CohereLabs/c4ai-command-r7b-12-2024", {"use_parallel_block": False}, "use_parallel_block = False"),
        ("CohereLabs/c4ai-command-r7b-12-2024", {"rotary_pct": 0.5}, "rotary_pct = 0.5"),
    ],
)
def test_settings_that_a_family_takes_for_granted(tmp_path: Path, name: str, change: dict, said: str) -> None:
    with pytest.raises(UnsupportedModel, match=said):
        built(tmp_path, name, PUBLISHED[name][0] | change)
