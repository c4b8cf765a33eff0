"""The card's deployment section."""

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from evalcard.card.deployment import DeploymentView, deployment_view
from evalcard.card.render import make_environment
from evalcard.resources import card_templates

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
    "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072,
}  # fmt: skip
DEEPSEEK = {"model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61,
            "max_position_embeddings": 163840}  # fmt: skip
GEMMA = {"model_type": "gemma3", "text_config": {"hidden_size": 2560, "intermediate_size": 10240,
         "num_hidden_layers": 34, "sliding_window": 1024}, "vision_config": {}}  # fmt: skip


def view(config: dict[str, Any], measured: int | None = None, scheme: str | None = None, kv: str | None = None):
    found = deployment_view(config, measured, scheme, kv)
    assert found is not None
    return found


def rendered(shown: DeploymentView | None) -> str:
    source = '{% from "deployment.md.j2" import deployment %}{{ deployment(view) }}'
    return make_environment(card_templates()).from_string(source).render(view=shown)


def test_figures_follow_from_the_config():
    found = view(LLAMA)
    assert (found.parameters, found.active, found.weights) == ("70.55 billion", None, "131.4 GiB (141.1 GB)")
    assert not found.is_measured and found.token_bytes == "327,680" and found.kv_dtypes == ("bf16", "fp8")
    assert [line.cells[0].split()[0] for line in found.cache] == ["0.625", "2.5", "10", "40"]
    a100 = found.gpus[0]
    assert (a100.name, a100.memory) == ("A100 80 GB", "80 GiB (85.9 GB)")
    # (3 x 72 - 131.42) / 40, 10, 2.5 and 0.625 GiB
    assert (a100.gpus, a100.requests) == ("3", ("135", "33", "8", "2"))


def test_what_was_measured_holds_and_what_it_should_have_been_is_said_where_it_differs():
    counted = 141_107_412_992
    same = view(LLAMA, counted + counted // 200)
    assert same.is_measured and same.weights == "132.1 GiB (141.8 GB)" and same.expected is None
    other = view(LLAMA, counted // 2)
    assert other.weights == "65.71 GiB (70.55 GB)" and other.expected == "131.4 GiB (141.1 GB)"
    text = rendered(other)
    assert "65.71 GiB (70.55 GB), measured; the config lets expect 131.4 GiB (141.1 GB)" in text


def test_a_vision_tower_that_was_not_loaded_is_no_difference():
    whole = view(GEMMA)
    gib = float(whole.weights.split()[0])
    text_only = view({**GEMMA["text_config"], "model_type": "gemma3_text"})  # type: ignore[dict-item]
    assert gib > float(text_only.weights.split()[0])
    assert view(GEMMA, 7_760_000_000).expected is None and view(GEMMA, 6_000_000_000).expected is not None
    assert whole.windows == (("29", "1,024"),) and "29 of 34 layers hold at most 1,024 tokens" in rendered(whole)


def test_schemes_and_caches():
    found = view(LLAMA, None, "w4a16+kv=fp8")
    assert found.weights == "36.79 GiB (39.5 GB)" and found.kv_dtypes == ("fp8", "bf16")
    assert found.token_bytes == "163,840"
    assert view(LLAMA, None, None, "int8").kv_dtypes == ("int8", "bf16", "fp8")
    stored = {"quant_method": "compressed-tensors", "kv_cache_scheme": {"type": "float"}, "config_groups": {
        "group_0": {"weights": {"num_bits": 8, "type": "int", "strategy": "channel"}}}}  # fmt: skip
    compressed = view({**LLAMA, "quantization_config": stored})
    assert compressed.weights.startswith("67.6") and compressed.kv_dtype == "fp8"


def test_experts_and_latent_vectors():
    found = view(DEEPSEEK)
    assert (found.parameters, found.active) == ("671.03 billion", "37.55 billion")
    text = rendered(found)
    assert "of which a token uses 37.55 billion" in text and "70,272 bytes a token in bf16; 4,997,120 bytes in" in text


def test_no_longer_requests_than_the_model_allows():
    assert view({**LLAMA, "max_position_embeddings": 10000}).contexts == ("2,048", "8,192")
    assert view({**LLAMA, "max_position_embeddings": 512}).contexts == ("512",)


@pytest.mark.parametrize(
    "config, measured, scheme",
    [
        (None, 10, None),
        ({}, 10, None),
        ({"model_type": "mamba2"}, 10, None),
        ({"model_type": "llama"}, 10, None),
        ({**LLAMA, "quantization_config": {"quant_method": "hqq"}}, None, None),
        (LLAMA, 0, None),
    ],
)
def test_nothing_where_sizes_are_not_known(config: dict[str, Any] | None, measured: int | None, scheme: str | None):
    assert deployment_view(config, measured, scheme, None) is None
    assert rendered(None).strip() == ""


def test_the_section_is_well_formed():
    from markdown_it import MarkdownIt

    text = rendered(view(DEEPSEEK, None, None, "fp8"))
    html = MarkdownIt("commonmark").enable("table").render(text)
    assert html.count("<table>") == 2 and html.count("<li>") == 3 and "|" not in html
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows} == {4, 8} and len(rows) == 2 + 4 + 2 + 4
    with pytest.raises(FrozenInstanceError):
        view(LLAMA).weights = ""  # type: ignore[misc]
