"""Experts of their own against transformers' experts in one tensor, and routers against transformers' own code."""

import pytest
import torch
from torch import nn

from evalcard_engine.experts import Experts, separate_experts
from evalcard_engine.routing import make_routers_exact

SIZES = {
    "vocab_size": 16, "hidden_size": 48, "intermediate_size": 40, "num_hidden_layers": 1, "num_attention_heads": 2,
    "num_key_value_heads": 2, "initializer_range": 0.3,
}  # fmt: skip
MIXTURES = {
    "mixtral": ("gated", {"num_local_experts": 6, "num_experts_per_tok": 3}),
    "qwen2_moe": (
        "gated",
        {
            "num_experts": 9, "num_experts_per_tok": 4, "moe_intermediate_size": 24,
            "shared_expert_intermediate_size": 32,
        },
    ),
    "gpt_oss": ("clamped", {"num_local_experts": 6, "num_experts_per_tok": 3, "swiglu_limit": 0.5}),
    "llama4_text": ("scaled", {"num_local_experts": 5, "num_experts_per_tok": 2, "head_dim": 24}),
    "deepseek_v3": (
        "gated",
        {
            "n_routed_experts": 12, "num_experts_per_tok": 4, "n_group": 4, "topk_group": 2, "kv_lora_rank": 8,
            "moe_intermediate_size": 24, "first_k_dense_replace": 0, "q_lora_rank": None,
        },
    ),
}  # fmt: skip


def mixture(name: str, **changes) -> tuple[nn.Module, str]:
    """transformers' model of one layer, and the name of the module in it that holds experts."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(3)
    config = AutoConfig.for_model(name, **SIZES | MIXTURES[name][1] | changes)
    model = AutoModelForCausalLM.from_config(config, experts_implementation="eager").eval().requires_grad_(False)
    for parameter in model.parameters():
        if parameter.dim() < 3:
            nn.init.normal_(parameter, std=0.3)
    return model, "model.layers.0.feed_forward" if name == "llama4_text" else "model.layers.0.mlp"


def apart(name: str) -> nn.Module:
    """The same layer of experts with linears for each, its routers exact."""
    model, place = mixture(name)
    state = {key: tensor.clone() for key, tensor in model.get_submodule(place).experts.state_dict().items()}
    separate_experts(model, MIXTURES[name][0])
    owner = model.get_submodule(place)
    assert isinstance(owner.experts, Experts)
    owner.experts.to_empty(device="cpu")
    is_turned = name in ("gpt_oss", "llama4_text")
    for number, expert in enumerate(owner.experts):
        first, second = (state[leaf][number] for leaf in ("gate_up_proj", "down_proj"))
        first, second = (first.t(), second.t()) if is_turned else (first, second)
        if name == "gpt_oss":
            expert.gate_up_proj.weight.data, expert.gate_up_proj.bias.data = first, state["gate_up_proj_bias"][number]
            expert.down_proj.bias.data = state["down_proj_bias"][number]
        else:
            expert.gate_proj.weight.data, expert.up_proj.weight.data = first.chunk(2)
        expert.down_proj.weight.data = second
    make_routers_exact(model)
    return owner


def first_of(output) -> torch.Tensor:
    return output[0] if isinstance(output, tuple) else output


@pytest.mark.parametrize("name", MIXTURES)
@torch.inference_mode()
def test_equal_transformers_own(name: str) -> None:
    model, place = mixture(name)
    ours, theirs = apart(name), model.get_submodule(place)
    for rows in (1, 2, 9, 130):
        x = torch.randn(1, rows, 48, generator=torch.Generator().manual_seed(rows))
        expected = first_of(theirs(x)).view(rows, 48)
        torch.testing.assert_close(first_of(ours(x)).view(rows, 48), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MIXTURES)
@torch.inference_mode()
def test_routers_keep_rows_apart_and_choose_as_transformers_do(name: str) -> None:
    model, place = mixture(name)
    theirs = model.get_submodule(place)
    ours = apart(name)
    part = "gate" if "gate" in ours._modules else "router"
    router, plain = ours.get_submodule(part), theirs.get_submodule(part)
    x = torch.randn(67, 48, generator=torch.Generator().manual_seed(1))
    whole = router(x)
    for found, expected in zip(whole, plain(x), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    for at, rows in ((0, 1), (3, 2), (5, 7), (9, 33)):
        for found, expected in zip(router(x[at : at + rows]), whole, strict=True):
            assert torch.equal(found, expected[at : at + rows]), (at, rows)


@torch.inference_mode()
def test_no_tokens_give_none() -> None:
    experts = apart("mixtral").experts
    none = torch.zeros(0, 2)
    assert experts(torch.zeros(0, 48), none.long(), none).shape == (0, 48)


@torch.inference_mode()
def test_another_model_of_the_class_keeps_its_own_forward() -> None:
    model, place = mixture("llama4_text")
    apart("llama4_text")
    owner = model.get_submodule(place)
    assert "forward" not in vars(owner) and "forward" not in vars(owner.router)
