"""Bytes of a KV cache: the textbook's, and what windows, chunks, latent vectors and shared layers leave."""

from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.footprint.cache import Cache, kv_dtype
from evalcard.footprint.footprint import footprint_of

GIB = 2**30


def cache(config: dict[str, Any], **more: Any) -> Cache:
    return footprint_of({**config, **more}).cache


def test_llama_3_70b(published: dict[str, dict[str, Any]]):
    """2 x 80 layers x 8 KV heads x 128 x 2 bytes; eight times as much were all 64 heads stored."""
    found = cache(published["Meta-Llama-3-70B"])
    assert found.token_bytes() == found.later_bytes() == 327_680
    sizes = [found.num_bytes(tokens) / GIB for tokens in (2048, 8192, 32768, 131072)]
    assert sizes == [0.625, 2.5, 10, 40]
    assert found.num_bytes(32768, "fp8") == found.num_bytes(32768) // 2
    assert cache(published["Meta-Llama-3-70B"], num_key_value_heads=64).token_bytes() == 2.5 * 2**20


def test_int8_has_a_scale_for_each_key_and_value(published: dict[str, dict[str, Any]]):
    assert cache(published["Meta-Llama-3-70B"]).token_bytes("int8") == 2 * 80 * 8 * (128 + 4)


def test_layers_with_a_window_hold_no_more(published: dict[str, dict[str, Any]]):
    gemma = cache(published["gemma-2-9b"])
    token = 2 * 8 * 256 * 2
    assert gemma.windows == ((21, 4096),) and gemma.token_bytes() == 42 * token
    assert gemma.num_bytes(4096) == 42 * token * 4096
    assert gemma.num_bytes(8192) == 21 * token * (8192 + 4096) and gemma.later_bytes() == 21 * token
    mistral = cache(published["Mistral-7B-v0.1"])
    assert mistral.num_bytes(4096) == mistral.num_bytes(131072) and mistral.later_bytes() == 0


@pytest.mark.parametrize(
    "name, more, windows",
    [
        ("gemma-3-1b", {}, ((22, 512),)),
        ("gemma-3-1b", {"sliding_window_pattern": 2}, ((13, 512),)),
        ("Olmo-3-7B", {"sliding_window_pattern": 2}, ((24, 4096),)),
        ("gemma-3-4b", {}, ((29, 1024),)),
        ("gpt-oss-20b", {}, ((12, 128),)),
        ("c4ai-command-r7b", {}, ((24, 4096),)),
        ("Olmo-3-7B", {}, ((24, 4096),)),
        ("EXAONE-4.0-32B", {}, ((48, 4096),)),
        ("EXAONE-4.0-32B", {"sliding_window_pattern": "LG"}, ((32, 4096),)),
        ("EXAONE-4.0-32B", {"sliding_window": None}, ()),
        ("Qwen2.5-7B", {}, ()),
        ("Qwen2.5-7B", {"use_sliding_window": True, "sliding_window": 100, "max_window_layers": 21}, ((7, 100),)),
        ("Qwen1.5-MoE-A2.7B", {"use_sliding_window": True, "max_window_layers": 21}, ((11, 32768),)),
        ("Qwen3-30B-A3B", {"use_sliding_window": True, "sliding_window": 64}, ((48, 64),)),
        ("SmolLM3-3B", {"use_sliding_window": True, "sliding_window": 64}, ((9, 64),)),
        ("Mixtral-8x7B-v0.1", {}, ()),
        ("Phi-3-mini-4k", {}, ((32, 2047),)),
        ("Llama-4-Scout", {}, ((36, 8192),)),
        ("Meta-Llama-3-70B", {"layer_types": ["full_attention", "sliding_attention"] * 40, "sliding_window": 9},
         ((40, 9),)),
    ],
)  # fmt: skip
def test_which_layers_have_windows(
    published: dict[str, dict[str, Any]], name: str, more: dict[str, Any], windows: tuple[tuple[int, int], ...]
):
    assert cache(published[name], **more).windows == windows


@pytest.mark.parametrize("name", ["gemma-2-9b", "gemma-3-1b", "gpt-oss-20b", "Olmo-3-7B", "c4ai-command-r7b",
                                  "Qwen2.5-7B", "Qwen1.5-MoE-A2.7B", "SmolLM3-3B", "Llama-4-Scout"])  # fmt: skip
@pytest.mark.parametrize("is_used", [False, True])
def test_windows_are_those_of_transformers(published: dict[str, dict[str, Any]], name: str, is_used: bool):
    """Its configs spell out layer_types, which this counts without its rules."""
    from transformers import AutoConfig

    config = published[name].get("text_config", published[name])
    config = {**config, "use_sliding_window": is_used, "max_window_layers": 11}
    given = {key: value for key, value in config.items() if key not in ("model_type", "quantization_config")}
    theirs = AutoConfig.for_model(config["model_type"], **given).to_dict()
    spelled = {**config, "layer_types": theirs["layer_types"], "sliding_window": theirs.get("sliding_window")}
    for tokens in (1, 500, 5000, 50000):
        assert cache(config).num_bytes(tokens) == cache(spelled).num_bytes(tokens)


def test_chunks_of_llama_4(published: dict[str, dict[str, Any]]):
    found, token = cache(published["Llama-4-Scout"]), 2 * 8 * 128 * 2
    assert found.num_bytes(131072) == token * (12 * 131072 + 36 * 8192)


def test_a_latent_vector_and_what_it_spares(published: dict[str, dict[str, Any]]):
    found = footprint_of(published["DeepSeek-V3"])
    assert found.cache.token_bytes() == 61 * (512 + 64) * 2 == 70_272
    assert found.expanded_cache is not None
    assert found.expanded_cache.token_bytes() == 61 * 128 * (192 + 128) * 2
    assert footprint_of(published["Qwen3-8B"]).expanded_cache is None


def test_layers_that_share_keys_and_values_store_none(published: dict[str, dict[str, Any]]):
    """The last ones, as in Gemma 3n, whichever windows they have."""
    found = cache(published["gemma-3-1b"], num_kv_shared_layers=10)
    assert sum(one.count for one in found.layers) == 16 and found.windows == ((14, 512),)
    assert found.later_bytes() == 2 * 2 * 256 * 2


def test_dtypes():
    assert [kv_dtype(text) for text in ("BF16", "fp8_e4m3", "int8", "auto", " fp16 ")] == [
        "bf16", "fp8", "int8", "bf16", "fp16",
    ]  # fmt: skip
    with pytest.raises(UserError, match="'nf4'; known are bf16, fp16, fp8, int8"):
        kv_dtype("nf4")
