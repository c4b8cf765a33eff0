"""Parameters counted from a config against transformers' own modules, built without memory."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcard.errors import UserError
from evalcard.footprint.families import FAMILIES
from evalcard.footprint.footprint import Footprint, footprint_of

_NOT_FOR_TRANSFORMERS = ("model_type", "quantization_config", "torch_dtype")


def true_count(config: dict[str, Any]) -> int:
    """Numbers in the state of transformers' model, each tensor once."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

    given = {key: value for key, value in config.items() if key not in _NOT_FOR_TRANSFORMERS}
    if given.get("sliding_window_pattern") == "LLLG":  # read by other engines only
        del given["sliding_window_pattern"]
    kind = AutoModelForImageTextToText if "vision_config" in config else AutoModelForCausalLM
    with torch.device("meta"):
        model = kind.from_config(AutoConfig.for_model(config["model_type"], **given))
    return sum({id(one): one.numel() for one in model.state_dict(keep_vars=True).values()}.values())


def test_published_sizes_are_exact(published: dict[str, dict[str, Any]]):
    counted = {name: footprint_of(config).num_parameters for name, config in published.items()}
    assert counted == {name: true_count(config) for name, config in published.items()}
    assert len({footprint_of(config).model_type for config in published.values()}) == len(FAMILIES) >= 12


TINY = {"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 6, "num_attention_heads": 6,
        "num_key_value_heads": 2, "vocab_size": 97, "pad_token_id": None}  # fmt: skip
_EXPERTS = {"num_local_experts": 5, "num_experts_per_tok": 2}
_QWEN_EXPERTS = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "head_dim": 8,
                 "decoder_sparse_step": 2, "mlp_only_layers": [3]}  # fmt: skip
_DEEPSEEK = {"num_key_value_heads": 6, "n_routed_experts": 8, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 3,
             "moe_intermediate_size": 20, "first_k_dense_replace": 2, "kv_lora_rank": 12, "qk_rope_head_dim": 4,
             "qk_nope_head_dim": 6, "v_head_dim": 10}  # fmt: skip
OPTIONS: dict[str, dict[str, Any]] = {
    "all biases": {"model_type": "llama", "attention_bias": True, "mlp_bias": True},
    "no kv heads said": {"model_type": "llama", "num_key_value_heads": None},
    "a head size of its own": {"model_type": "mistral", "head_dim": 16},
    "tied": {"model_type": "qwen2", "tie_word_embeddings": True},
    "untied": {"model_type": "gemma2", "head_dim": 8, "tie_word_embeddings": False},
    "biases beside norms of heads": {"model_type": "qwen3", "head_dim": 8, "attention_bias": True},
    "experts": {"model_type": "mixtral", **_EXPERTS},
    "experts in every other layer": {"model_type": "qwen3_moe", **_QWEN_EXPERTS},
    "a shared expert": {"model_type": "qwen2_moe", **_QWEN_EXPERTS, "shared_expert_intermediate_size": 40},
    "no biases with sinks": {"model_type": "gpt_oss", "head_dim": 8, **_EXPERTS, "attention_bias": False},
    "narrow queries": {"model_type": "deepseek_v3", **_DEEPSEEK, "q_lora_rank": 14, "attention_bias": True},
    "wide queries": {"model_type": "deepseek_v3", **_DEEPSEEK, "q_lora_rank": None, "n_shared_experts": 2},
    "interleaved experts": {"model_type": "llama4_text", "head_dim": 8, **_EXPERTS, "interleave_moe_layer_step": 2,
                            "intermediate_size_mlp": 56},
    "listed experts": {"model_type": "llama4_text", "head_dim": 8, **_EXPERTS, "moe_layers": [0, 4],
                       "intermediate_size_mlp": 56},
    "norms of all heads": {"model_type": "olmo2", "attention_bias": True},
    "glm's biases": {"model_type": "glm4", "head_dim": 8, "attention_bias": True},
    "a norm for both halves": {"model_type": "cohere2", "attention_bias": True},
    "an MLP with biases": {"model_type": "smollm3", "mlp_bias": True, "tie_word_embeddings": False},
}  # fmt: skip


@pytest.mark.parametrize("option", OPTIONS)
def test_options_of_families_are_exact(option: str):
    config = {**TINY, **OPTIONS[option]}
    assert footprint_of(config).num_parameters == true_count(config)


def test_defaults_are_those_of_transformers():
    from transformers import AutoConfig

    for model_type, family in FAMILIES.items():
        theirs = AutoConfig.for_model(model_type).to_dict()
        # transformers forgets a window that it does not use.
        ours = {key: value for key, value in family.defaults.items() if not key.startswith(("sliding_w", "max_window"))}
        names = {"num_experts": "num_local_experts"} if "num_local_experts" in theirs else {}
        assert {key: theirs[names.get(key, key)] for key in ours} == ours, model_type


def test_active_parameters(published: dict[str, dict[str, Any]]):
    """As the makers say: 12.9 of 46.7, 3.3 of 30.5, 37 of 671, 17 of 109 billion."""
    found = {name: footprint_of(config) for name, config in published.items()}
    said = {"Mixtral-8x7B-v0.1": (46.7, 12.9), "Qwen3-30B-A3B": (30.5, 3.3), "DeepSeek-V3": (671, 37.5),
            "Llama-4-Scout": (108.6, 17.2), "Qwen1.5-MoE-A2.7B": (14.3, 2.7)}  # fmt: skip
    for name, (total, active) in said.items():
        assert found[name].num_parameters / 1e9 == pytest.approx(total, rel=0.005), name
        assert found[name].num_active / 1e9 == pytest.approx(active, rel=0.02), name
        assert found[name].has_experts
    dense = found["Meta-Llama-3-70B"]
    assert not dense.has_experts and dense.num_active == dense.num_parameters == 70_553_706_496


def test_kinds_add_up(published: dict[str, dict[str, Any]]):
    for config in published.values():
        found = footprint_of(config)
        assert sum(found.by_kind.values()) == found.num_parameters
        assert ("head" in found.by_kind) == (found.tied_head is None)
    kinds = footprint_of(published["Qwen1.5-MoE-A2.7B"]).by_kind
    assert kinds["experts"] == 24 * 60 * 3 * 2048 * 1408 and kinds["shared experts"] == 24 * 3 * 2048 * 5632
    assert kinds["router"] == 24 * (60 + 1) * 2048 and kinds["embedding"] == kinds["head"] == 151936 * 2048


def test_a_text_model_inside_another_is_counted_with_what_is_beside_it(published: dict[str, dict[str, Any]]):
    whole = published["Llama-4-Scout"]
    text = footprint_of(whole["text_config"])
    assert footprint_of(whole).num_parameters - text.num_parameters == footprint_of(whole).by_kind["vision"] > 8e8
    assert footprint_of(whole).num_active == text.num_active


class TestRefusals:
    @pytest.mark.parametrize("config", [{"model_type": "mamba2"}, {}, {"model_type": 7}])
    def test_an_unknown_family_names_the_known_ones(self, config: dict[str, Any]):
        with pytest.raises(UserError, match=r"not counted here\. Known are cohere2, .*qwen3_moe"):
            footprint_of(config)

    def test_a_config_without_a_family_is_said_to_be(self):
        with pytest.raises(
            UserError, match="^the config names no model_type, so that its tensors are not counted here"
        ):
            footprint_of({"hidden_size": 8})

    @pytest.mark.parametrize(
        "wrong, message",
        [
            ({"hidden_size": None}, "has no hidden_size"),
            ({"hidden_size": "48"}, r"hidden_size = '48'; it must be a whole number of at least 1"),
            ({"num_hidden_layers": 0}, "num_hidden_layers = 0"),
            ({"num_hidden_layers": 10**9}, "no model has as many"),
            ({"num_attention_heads": float("nan")}, "num_attention_heads = nan"),
            ({"num_key_value_heads": 4}, "must divide num_attention_heads = 6"),
            ({"head_dim": 0}, "head_dim = 0"),
            ({"num_attention_heads": 50}, "num_attention_heads = 50, more than hidden_size = 48"),
            ({"vocab_size": True}, "vocab_size = True"),
            ({"vocab_size": 10**400}, "vocab_size = 1000"),
            ({"layer_types": ["full_attention"]}, "lists 1 layers"),
            ({"layer_types": ["full_attention"] * 5 + ["mamba"]}, "layers of type mamba"),
            ({"num_kv_shared_layers": 6}, "must be less than its 6 layers"),
        ],
    )
    def test_what_gives_no_size_is_named(self, wrong: dict[str, Any], message: str):
        with pytest.raises(UserError, match=message):
            footprint_of({"model_type": "llama", **TINY, **wrong})

    @pytest.mark.parametrize(
        ("family", "wrong", "message"),
        [
            ("mixtral", {"num_local_experts": 0}, "num_local_experts = 0; it must be a whole number of at least 1"),
            ("mixtral", {"num_experts_per_tok": 9}, "num_experts_per_tok = 9, which must be at most its .* 8"),
            (
                "deepseek_v3",
                {"num_experts_per_tok": 300},
                "num_experts_per_tok = 300, which must be at most its .* 256",
            ),
            ("deepseek_v3", {"n_routed_experts": 0}, "n_routed_experts = 0"),
        ],
    )
    def test_experts_that_no_layer_can_have(self, family: str, wrong: dict[str, Any], message: str):
        with pytest.raises(UserError, match=message):
            footprint_of({"model_type": family, **TINY, **wrong})

    def test_where_no_experts_means_a_dense_model(self):
        config = {"model_type": "qwen3_moe", **TINY, "head_dim": 8, "num_experts": 0}
        assert not footprint_of(config).has_experts

    def test_a_larger_model_without_its_text(self):
        with pytest.raises(UserError, match="has no text_config"):
            footprint_of({"model_type": "gemma3", **TINY})


_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 70), st.floats(), st.text(max_size=3), st.lists(st.integers(), max_size=7)
)


@settings(max_examples=150, deadline=None)
@given(option=st.sampled_from(sorted(OPTIONS)), data=st.data())
def test_any_config_is_counted_or_refused(option: str, data: st.DataObject):
    config = {**TINY, **OPTIONS[option], "layer_types": None, "sliding_window": 8, "use_sliding_window": True}
    key = data.draw(st.sampled_from(sorted(set(config) - {"model_type"})))
    config[key] = data.draw(_VALUES)
    try:
        found = footprint_of(config)
    except UserError:
        return
    assert isinstance(found, Footprint) and found.num_parameters > 0
    assert 0 < found.cache.num_bytes(1) <= found.cache.num_bytes(100)


def test_sizes_that_the_config_leaves_out_are_told(published: dict[str, dict[str, Any]]):
    config = next(dict(one) for one in published.values() if one["model_type"] == "llama")
    assert not footprint_of(config).assumed
    del config["intermediate_size"], config["vocab_size"]
    assert footprint_of(config).assumed == {"vocab_size": 32000, "intermediate_size": 11008}


@pytest.mark.parametrize("value", [-1, "8", 0, 1, float("nan")])
@pytest.mark.parametrize("name", ["attention_bias", "mlp_bias", "tie_word_embeddings"])
def test_a_flag_that_is_none_is_refused(published: dict[str, dict[str, Any]], name: str, value: Any):
    config = next(dict(one) for one in published.values() if one["model_type"] == "llama")
    with pytest.raises(UserError, match=f"{name} = .*it must be true or false"):
        footprint_of({**config, name: value})
