"""A llama in a GGUF file of one block type throughout: its logits, and scales that are no numbers in three layers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from evalcard_engine.checkpoint.gguf_file import read_gguf
from evalcard_engine.errors import EngineError
from evalcard_engine.inspection import inspect
from evalcard_engine.models import identify

gguf = pytest.importorskip("gguf", reason="the format's own library writes and dequantizes these files")

NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip
ENDS = {"model.embed_tokens.weight": "token_embd.weight", "lm_head.weight": "output.weight",
        "model.norm.weight": "output_norm.weight"}  # fmt: skip
HEADS = {"attn_q": 4, "attn_k": 2}
HALVES = {"Q4_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,)}
"""Of types that gguf-py only reads: where a block has its half-precision numbers."""
SIZES = {"Q4_K": 3e-4, "Q6_K": 4e-5, "IQ4_NL": 1e-3}
KINDS = ("Q4_0", "Q4_1", "Q8_0", *HALVES)


def blocks(weight: torch.Tensor, kind: str) -> np.ndarray:
    """Quantized by the library, or random blocks of a weight's size."""
    number = gguf.GGMLQuantizationType[kind]
    if kind not in HALVES:
        return gguf.quantize(weight.numpy(), number)
    values, num_bytes = gguf.GGML_QUANT_SIZES[number]
    generator = np.random.default_rng(weight.numel())
    raw = generator.integers(0, 256, (weight.numel() // values, num_bytes), dtype=np.uint8)
    for at in HALVES[kind]:
        halves = (generator.uniform(0.3, 1, len(raw)) * SIZES[kind]).astype(np.float16)
        raw[:, at : at + 2] = halves.view(np.uint8).reshape(-1, 2)
    return raw.reshape(len(weight), -1)


def interleaved(count: int, heads: int) -> np.ndarray:
    """llama.cpp's order of rows: of each head the first of one half, the first of the other, the second ..."""
    return np.arange(count).reshape(heads, 2, -1).transpose(0, 2, 1).reshape(-1)


def write(file: Path, llama: Any, kind: str) -> dict[str, torch.Tensor]:
    """What each linear stands for, by the library."""
    config, weights = llama.model.config, {}
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    for name, tensor in llama.tensors.items():
        if name in ENDS:
            writer.add_tensor(ENDS[name], tensor.numpy())
            continue
        _, _, layer, leaf = name.removesuffix(".weight").split(".", 3)
        short = NAMES[leaf]
        if tensor.dim() == 1:
            writer.add_tensor(f"blk.{layer}.{short}.weight", tensor.numpy())
            continue
        order = interleaved(len(tensor), HEADS.get(short, 0) or len(tensor) // 2) if short in HEADS else slice(None)
        raw, number = blocks(tensor[order].contiguous(), kind), gguf.GGMLQuantizationType[kind]
        writer.add_tensor(f"blk.{layer}.{short}.weight", raw, raw_dtype=number)
        back = torch.empty_like(tensor)
        back[order] = torch.from_numpy(gguf.dequantize(raw, number))
        weights[name.removesuffix(".weight")] = back
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


@pytest.fixture
def llama(make_llama: Callable[..., Any]) -> Any:
    return make_llama(hidden_size=256, intermediate_size=256, num_attention_heads=4)


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_those_of_the_librarys_weights(
    kind: str, llama: Any, run_folder: Callable[[Path], Any], tmp_path: Path
) -> None:
    weights = write(tmp_path / "m.gguf", llama, kind)
    ran = run_folder(tmp_path / "m.gguf")
    plain = llama.reference({})
    expected = llama.reference(weights)
    torch.testing.assert_close(ran.logits, expected, atol=1e-4, rtol=0)
    assert float((plain - expected).abs().max()) > 1e-3, "compression changed nothing"


@pytest.mark.parametrize("kind", KINDS)
def test_all_layers_with_scales_that_are_no_numbers_are_named(kind: str, llama: Any, tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    write(file, llama, kind)
    tensors, content = read_gguf(file).tensors, bytearray(file.read_bytes())
    for name in ("blk.0.attn_q", "blk.1.attn_output", "blk.1.ffn_up"):
        at = tensors[f"{name}.weight"].offset + HALVES.get(kind, (0,))[-1]
        content[at : at + 2] = np.array([np.nan], dtype=np.float16).tobytes()
    file.write_bytes(content)
    with pytest.raises(EngineError) as caught:
        identify(str(file), dtype="float32", device="cpu", scheme=None)
    (fault,) = caught.value.faults
    spoiled = "model.layers.0.self_attn.q_proj, model.layers.1.mlp.up_proj, model.layers.1.self_attn.o_proj"
    assert fault == f"its {kind} scales are not finite (3): {spoiled}" and inspect(str(file)).faults == (fault,)
