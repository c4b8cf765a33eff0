"""Metadata in transformers' words; what is not understood is refused, all of it at once."""

import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from evalcard_engine.checkpoint.gguf_file import GGUFFile, GGUFTensor
from evalcard_engine.checkpoint.gguf_model import GGUFModel, describe, end_ids
from evalcard_engine.errors import EngineError, UnsupportedModel

SIZES = {
    "context_length": 2048, "embedding_length": 64, "block_count": 12, "feed_forward_length": 96,
    "attention.head_count": 4, "attention.head_count_kv": 2, "attention.layer_norm_rms_epsilon": 1e-6,
    "attention.sliding_window": 512,
}  # fmt: skip


def make(
    arch: str = "llama", tensors: Mapping[str, tuple[int, ...]] | None = None, path: Path = Path("m"), **changes: Any
) -> GGUFFile:
    """A header; ``__`` in a change's name stands for a dot, None leaves the setting out."""
    metadata: dict[str, Any] = {"general.architecture": arch}
    metadata |= {f"{arch}.{key}": value for key, value in SIZES.items() if arch == "gemma3" or "window" not in key}
    for key, value in changes.items():
        name = key.replace("__", ".")
        metadata[name if name.startswith(("general", "split", "tokenizer")) else f"{arch}.{name}"] = value
    shapes = {"token_embd.weight": (100, 64), "output.weight": (100, 64)} if tensors is None else tensors
    places = {name: GGUFTensor("F32", shape, 0, 4 * shape[0]) for name, shape in shapes.items()}
    return GGUFFile(path, {key: value for key, value in metadata.items() if value is not None}, places)


def config(**arguments: Any) -> Mapping[str, Any]:
    return describe(make(**arguments), "m").config


def faults(**arguments: Any) -> str:
    with pytest.raises(EngineError) as caught:
        describe(make(**arguments), "m")
    return str(caught.value)


def test_a_llama() -> None:
    found = config(rope__freq_base=5e5, tokenizer__ggml__tokens=["a"] * 101, tokenizer__ggml__eos_token_id=7)
    assert dict(found) == {
        "model_type": "llama", "max_position_embeddings": 2048, "hidden_size": 64, "num_hidden_layers": 12,
        "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "rms_norm_eps": 1e-6, "vocab_size": 101, "tie_word_embeddings": False, "bos_token_id": None, "eos_token_id": 7,
        "attention_bias": False, "mlp_bias": False, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5},
        "quantization_config": {"quant_method": "gguf"},
    }  # fmt: skip


def test_sizes_that_the_file_leaves_to_others() -> None:
    found = config(tensors={"token_embd.weight": (100, 64)}, attention__head_count_kv=None, vocab_size=None)
    assert (found["num_key_value_heads"], found["vocab_size"], found["tie_word_embeddings"]) == (4, 100, True)
    assert config(attention__key_length=32, attention__value_length=32, rope__dimension_count=32)["head_dim"] == 32


@pytest.mark.parametrize(("layers", "heads", "scalar"), [(12, 4, 32), (62, 4, 16)])
def test_a_gemma(layers: int, heads: int, scalar: int) -> None:
    """Every sixth layer sees everything; the one with 62 layers scales its queries by hidden size / heads."""
    found = config(
        arch="gemma3", block_count=layers, attention__head_count=heads, attention__key_length=32,
        attention__value_length=32, rope__freq_base=1e6, rope__scaling__type="linear", rope__scaling__factor=8.0,
        final_logit_softcapping=30.0,
    )  # fmt: skip
    assert (found["model_type"], found["sliding_window"]) == ("gemma3_text", 512)
    assert found["query_pre_attn_scalar"] == scalar
    full = [number for number, kind in enumerate(found["layer_types"]) if kind == "full_attention"]
    assert full == list(range(5, layers, 6)) and len(found["layer_types"]) == layers
    assert found["final_logit_softcapping"] == 30.0
    assert found["rope_parameters"] == {
        "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    }


def test_patterns_of_windows() -> None:
    pattern = [(number + 1) % 6 != 0 for number in range(12)]
    for same in (6, pattern):
        assert config(arch="gemma3", attention__sliding_window_pattern=same)["layer_types"].count("full_attention") == 2
    for other in (4, [True] * 12):
        assert "sliding_window_pattern is" in faults(arch="gemma3", attention__sliding_window_pattern=other)


@pytest.mark.parametrize(
    ("arch", "name", "parameter", "shift", "heads"),
    [
        ("llama", "token_embd.weight", "model.embed_tokens.weight", 0, 0),
        ("llama", "output_norm.weight", "model.norm.weight", 0, 0),
        ("llama", "output.weight", "lm_head.weight", 0, 0),
        ("llama", "blk.11.attn_q.weight", "model.layers.11.self_attn.q_proj.weight", 0, 4),
        ("llama", "blk.3.attn_k.bias", "model.layers.3.self_attn.k_proj.bias", 0, 2),
        ("llama", "blk.3.attn_v.weight", "model.layers.3.self_attn.v_proj.weight", 0, 0),
        ("llama", "blk.3.ffn_norm.weight", "model.layers.3.post_attention_layernorm.weight", 0, 0),
        ("llama", "blk.3.ffn_gate_exps.weight", "blk.3.ffn_gate_exps.weight", 0, 0),
        ("llama", "blk.3.post_ffw_norm.weight", "blk.3.post_ffw_norm.weight", 0, 0),
        ("qwen2", "blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj.weight", 0, 0),
        ("qwen3", "blk.0.attn_k_norm.weight", "model.layers.0.self_attn.k_norm.weight", 0, 0),
        ("gemma3", "output_norm.weight", "model.norm.weight", -1, 0),
        ("gemma3", "blk.0.attn_q_norm.weight", "model.layers.0.self_attn.q_norm.weight", -1, 0),
        ("gemma3", "blk.0.attn_norm.weight", "model.layers.0.input_layernorm.weight", -1, 0),
        ("gemma3", "blk.0.ffn_norm.weight", "model.layers.0.pre_feedforward_layernorm.weight", -1, 0),
        ("gemma3", "blk.0.post_attention_norm.weight", "model.layers.0.post_attention_layernorm.weight", -1, 0),
        ("gemma3", "blk.0.post_ffw_norm.weight", "model.layers.0.post_feedforward_layernorm.weight", -1, 0),
        ("gemma3", "blk.0.attn_k.weight", "model.layers.0.self_attn.k_proj.weight", 0, 0),
    ],
)
def test_names(arch: str, name: str, parameter: str, shift: float, heads: int) -> None:
    found: GGUFModel = describe(make(arch, {"token_embd.weight": (100, 64), name: (8,)}), "m")
    stored = found.tensors[parameter]
    assert (stored.shift, stored.heads) == (shift, heads)


def test_two_tensors_for_one_parameter_are_refused() -> None:
    both = {"token_embd.weight": (100, 64), "output.weight": (100, 64), "lm_head.weight": (100, 64)}
    assert "two tensors for lm_head.weight" in faults(tensors=both)


def test_all_faults_come_in_one_message() -> None:
    message = faults(
        tensors={}, block_count=None, context_length=0, attention__head_count=[4, 4],
        attention__layer_norm_rms_epsilon=-1.0, logit_scale=0.5, attention__causal=False, expert_count=8,
        attention__new_trick=1,
    )  # fmt: skip
    for part in (
        "llama.block_count is missing; it must be a whole number from 1", "llama.context_length is '0'",
        "llama.attention.head_count is '[4, 4]'", "llama.attention.layer_norm_rms_epsilon is '-1.0'",
        "token_embd.weight is missing", "llama.logit_scale is 0.5; only 1.0 is run",
        "llama.attention.causal is False; only True is run", "llama.expert_count is 8; only 0 is run",
        "llama.attention.new_trick is '1', a setting that this engine does not know",
    ):  # fmt: skip
        assert part in message, part


def test_settings_that_change_nothing_are_let_pass() -> None:
    assert config(attention__causal=True, expert_count=0, rope__scaling__attn_factor=1.0, general__file_type=3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention__value_length": 8}, "value_length is 8, heads are 16 wide"),
        ({"rope__dimension_count": 8}, "dimension_count is 8, heads are 16 wide"),
        ({"attention__key_length": 15}, "heads are 15 wide, which has no halves"),
        ({"attention__sliding_window": 64}, "sliding_window is '64', a setting that this engine does not know"),
        ({"rope__scaling__factor": "two"}, "llama.rope.scaling.factor is 'two'; it must be a number above 0"),
        ({"arch": "gemma3", "final_logit_softcapping": -3.0}, "gemma3.final_logit_softcapping is '-3.0'"),
        ({"rope__scaling__type": "longrope"}, "'longrope'; none, linear and yarn are run"),
        ({"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0}, "original_context_length is missing"),
        ({"rope__scaling__yarn_attn_factor": 1.3}, "yarn_attn_factor is 1.3; only 1.0 is run"),
        ({"arch": "qwen2", "attention__key_length": 8}, "4 heads of 8 are not as wide as the model, 64"),
        ({"arch": "gemma3", "attention__sliding_window": None}, "sliding_window is missing"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_honoured(changes: dict[str, Any], message: str) -> None:
    assert message in faults(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arch": "falcon"}, "architecture 'falcon'; this engine runs gemma3, llama, qwen2, qwen3 from GGUF"),
        ({"general__architecture": None}, "architecture None"),
        ({"general__architecture": ["llama"]}, "architecture \\['llama'\\]"),
        ({"general__type": "adapter"}, "of the type 'adapter'; give the one that holds the model"),
        ({"split__count": 3, "split__no": 1}, r"part 1 \(from 0\) of the 3 parts of a split GGUF; join"),
    ],
)
def test_files_that_are_no_model_of_ours(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UnsupportedModel, match=message):
        describe(make(**changes), "m")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"rope_type": "default", "rope_theta": 10000.0}),
        ({"rope__scaling__type": "none"}, {"rope_type": "default", "rope_theta": 10000.0}),
        ({"rope__scale_linear": 2.0}, {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}),
        ({"rope__scaling__factor": 1.0}, {"rope_type": "default", "rope_theta": 10000.0}),
        (
            {"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0, "rope__scaling__original_context_length": 512,
             "rope__scaling__yarn_beta_fast": 16.0},
            {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 512,
             "beta_fast": 16.0, "beta_slow": 1.0},
        ),
    ],
)  # fmt: skip
def test_position_encodings(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    assert config(**changes)["rope_parameters"] == expected


def llama3_file(folder: Path, factor: float, old: int = 8192, **more: Any) -> GGUFFile:
    """rope_freqs.weight holds by what transformers' own rule divides the frequencies."""
    base, width = 5e5, 128
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rope = {"rope_type": "llama3", "rope_theta": base, "factor": factor, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": old}  # fmt: skip
    settings = LlamaConfig(hidden_size=4 * width, num_attention_heads=4, head_dim=width, rope_parameters=rope)
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](settings, torch.device("cpu"))
    plain = 1 / base ** (torch.arange(0, width, 2).float() / width)
    path = folder / "f"
    path.write_bytes(struct.pack(f"<{width // 2}f", *(plain / scaled).tolist()))
    tensors = {"token_embd.weight": (100, 4 * width), "rope_freqs.weight": (width // 2,)}
    return make(tensors=tensors, path=path, embedding_length=4 * width, rope__freq_base=base, **more)


@pytest.mark.parametrize("factor", [8.0, 32.0])
def test_the_divisors_of_llama_3(tmp_path: Path, factor: float) -> None:
    found = describe(llama3_file(tmp_path, factor), "m")
    rope = found.config["rope_parameters"]
    assert rope.pop("factor") == pytest.approx(factor, rel=1e-6)
    assert rope == {"rope_type": "llama3", "rope_theta": 5e5, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 8192}  # fmt: skip
    assert "rope_freqs.weight" not in found.tensors


def test_divisors_of_another_rule_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="holds other divisors than the rule of Llama 3 gives for a factor of 8"):
        describe(llama3_file(tmp_path, 8.0, old=4096), "m")
    with pytest.raises(EngineError, match="rope_freqs.weight together with llama.rope.scaling.type 'linear'"):
        describe(llama3_file(tmp_path, 8.0, rope__scaling__type="linear", rope__scaling__factor=2.0), "m")
    tensors = {"token_embd.weight": (100, 64), "rope_freqs.weight": (5,)}
    with pytest.raises(EngineError, match=re.escape("rope_freqs.weight is F32 [5], not F32 [8]")):
        describe(make(tensors=tensors), "m")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"eos_token_id": 2}, (2,)),
        ({"eos_token_id": 128001, "eot_token_id": 128009, "eom_token_id": 128008}, (128001, 128008, 128009)),
        ({"eos_token_id": 1, "tokens": ["<pad>", "<eos>", "<bos>", "<end_of_turn>"]}, (1, 3)),
        ({"eos_token_id": 2, "eot_token_id": 0, "tokens": ["a", "<|im_end|>", "b"]}, (0, 2)),
        ({}, ()),
    ],
)
def test_ids_that_end_an_answer(fields: dict[str, Any], expected: tuple[int, ...]) -> None:
    assert end_ids({f"tokenizer.ggml.{key}": value for key, value in fields.items()}) == expected
