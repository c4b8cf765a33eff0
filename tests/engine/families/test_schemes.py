"""Schemes on mixtures of experts: every expert's linears get them, what weighs the experts does not."""

import pytest
import torch

from evalcard_engine.export import export
from evalcard_engine.quant.int8_linear import Int8Linear
from evalcard_engine.quant.linear import ExactLinear
from evalcard_engine.quant.scheme import parse_scheme

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
@pytest.mark.parametrize("scheme", ["w8a8", "w4a16", "kv=int8"])
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


@pytest.mark.parametrize("name", ["qwen2_moe", "gpt_oss", "granitemoe"])
def test_a_written_checkpoint_gives_the_bits_of_the_scheme_on_the_fly(
    made, packed, some_tokens, tmp_path, name: str
) -> None:
    """Experts that came in one tensor are written apart, as compressed checkpoints have them."""
    ids = some_tokens(40)
    found = export(str(made(name).folder), parse_scheme("w8a8"), tmp_path)
    assert any("shared_expert_gate" in entry for entry in found["ignore"])
    models = (made(name).open_at(tmp_path), made(name).open("w8a8"))
    (written,), (expected,) = (packed(model, ids, 16).step((0, 0, 40)) for model in models)
    assert torch.equal(written, expected)


@pytest.mark.parametrize("name", MIXTURES)
def test_half_precision_is_as_near_as_transformers_own(made, packed, some_tokens, name: str) -> None:
    """Near ties of experts go either way in it, so what it costs there is the measure."""
    from transformers import AutoModelForCausalLM

    ids, folder = some_tokens(280), made(name).folder
    (found,) = packed(made(name).open(dtype="bfloat16"), ids, 256).step((0, 0, 280))
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="eager").eval()
    with torch.no_grad():
        usual = theirs(ids[0][None], use_cache=False).logits[0].float()
    expected = made(name).logits(ids[0])
    ours, usual = ((one - expected).norm() / expected.norm() for one in (found, usual))
    assert 0 < ours < 1.2 * usual, (ours, usual)


@pytest.mark.parametrize("name", [*MIXTURES, "cohere2"])
def test_no_bit_depends_on_the_threads(made, packed, some_tokens, name: str) -> None:
    ids, before = some_tokens(300), torch.get_num_threads()
    model, found = made(name).open(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found += packed(model, ids, 256).step((0, 0, 300))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)
