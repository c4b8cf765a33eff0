"""Which models are taken, and how their tensors are named."""

from types import SimpleNamespace

import pytest

from evalcard_engine.errors import UnsupportedModel
from evalcard_engine.families import FAMILIES, check_rope, family_of


def test_known_families_are_taken() -> None:
    assert {"llama", "mistral", "qwen2", "qwen3", "gemma3_text", "gemma3"} <= set(FAMILIES)
    for name in FAMILIES:
        assert family_of({"model_type": name}, "m").model_type == name


@pytest.mark.parametrize("config", [{}, {"model_type": "mamba"}, {"model_type": None}])
def test_unknown_families_are_sent_elsewhere(config: dict) -> None:
    with pytest.raises(UnsupportedModel, match="llama.*--backend vllm or --backend hf"):
        family_of(config, "org/name")


def test_models_that_look_ahead_are_refused() -> None:
    config = {"model_type": "gemma3", "text_config": {"use_bidirectional_attention": True}}
    with pytest.raises(UnsupportedModel, match="bidirectional"):
        family_of(config, "m")


@pytest.mark.parametrize(
    ("tensor", "parameter"),
    [
        ("model.language_model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.q_proj.weight"),
        ("language_model.model.embed_tokens.weight", "model.embed_tokens.weight"),
        ("language_model.lm_head.weight", "lm_head.weight"),
        ("lm_head.weight", "lm_head.weight"),
        ("vision_tower.x", None),
        ("model.multi_modal_projector.x", None),
        ("model.layers.3.rotary_emb.inv_freq", None),
    ],
)
def test_names_of_a_multimodal_checkpoint(tensor: str, parameter: str | None) -> None:
    assert FAMILIES["gemma3"].module_name(tensor) == parameter


def test_windows_as_each_family_hands_them_over() -> None:
    layer = SimpleNamespace(sliding_window=5, config=SimpleNamespace(sliding_window=7))
    assert FAMILIES["qwen2"].window(layer) == 5
    assert FAMILIES["mistral"].window(layer) == 7
    assert FAMILIES["llama"].window(SimpleNamespace(config=layer.config)) is None


def test_rope_that_depends_on_the_batch_is_refused_wherever_it_stands() -> None:
    check_rope(SimpleNamespace(rope_parameters={"rope_type": "yarn"}), "m")
    nested = {"full_attention": {"rope_type": "default"}, "sliding_attention": {"rope_type": "longrope"}}
    with pytest.raises(UnsupportedModel, match="longrope"):
        check_rope(SimpleNamespace(rope_parameters=nested), "m")


@pytest.mark.parametrize(("rope_type", "why"), [("dynamic", "length of the batch"), ("nonsense", "is unknown here")])
def test_an_unknown_rope_is_not_said_to_depend_on_the_batch(rope_type: str, why: str) -> None:
    with pytest.raises(UnsupportedModel, match=f"{rope_type}', which .*{why}"):
        check_rope(SimpleNamespace(rope_parameters={"rope_type": rope_type}), "m")
