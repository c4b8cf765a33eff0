"""Schemes on mixtures of experts: every expert's linears get them, what weighs the experts does not."""

import pytest
import torch

from evalcard_engine.quant.int8_linear import Int8Linear
from evalcard_engine.quant.linear import ExactLinear

MIXTURES = ["mixtral", "qwen2_moe", "gpt_oss", "llama4_text", "deepseek_v3"]


@pytest.mark.parametrize("name", MIXTURES)
def test_w8a8_runs_every_linear_of_the_decoder_but_what_weighs_experts(made, name: str) -> None:
    model = made(name).open("w8a8")
    linears = {key: one for key, one in model._module.named_modules() if isinstance(one, (Int8Linear, ExactLinear))}
    plain = {key.rpartition(".")[2] for key, one in linears.items() if isinstance(one, ExactLinear)}
    assert plain == {"lm_head"} | ({"shared_expert_gate"} if name == "qwen2_moe" else set())
    assert any(".experts.3." in key for key, one in linears.items() if isinstance(one, Int8Linear))
    assert model.info.bits_per_weight < 12


@pytest.mark.parametrize("name", [*MIXTURES, "phi3", "glm4"])
@pytest.mark.parametrize("scheme", ["w8a8", "w4a16"])
def test_compressed_rows_are_exact_too(made, packed, some_tokens, name: str, scheme: str) -> None:
    tokens = some_tokens(3, 290, 17)
    model = made(name).open(scheme)
    whole = packed(model, tokens, 256).step((0, 0, 3), (1, 0, 290), (2, 0, 17))
    run = packed(model, tokens, 16)
    parts = [(1, 0, 5), (1, 5, 6), (1, 6, 260), (1, 260, 290)]
    alone = torch.cat([run.step(part)[0] for part in parts])
    assert torch.equal(alone, whole[1])
    plain = made(name).logits(tokens[1])
    assert not torch.equal(whole[1], plain)
    relative = (whole[1] - plain).norm() / plain.norm()
    assert relative < (0.3 if scheme == "w8a8" else 1.0), relative
