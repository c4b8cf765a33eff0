"""Fused layers against transformers' own forward over the same linears, bit by bit."""

from pathlib import Path

import pytest
import torch
from torch import nn

from evalcard_engine import fusion
from evalcard_engine.fusion import BLOCK_ROWS, fuse
from evalcard_engine.models import open_model
from evalcard_engine.quant import int8_linear
from evalcard_engine.quant.int8_linear import Int8Linear, quantize_rows
from evalcard_engine.quant.scheme import parse_scheme

FAMILIES = ("llama", "qwen3", "gemma3_text")
SCHEMES = (None, "w8a8", "w4a16")


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A tiny model of every kind of MLP and attention, whose head size is not hidden / heads."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    made = {}
    for family in FAMILIES:
        config = AutoConfig.for_model(
            family, vocab_size=64, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=3,
            num_key_value_heads=1, head_dim=32, max_position_embeddings=64,
        )  # fmt: skip
        made[family] = tmp_path_factory.mktemp(family)
        AutoModelForCausalLM.from_config(config).save_pretrained(made[family])
    return made


def layers_of(folder: Path, scheme: str | None) -> list[nn.Module]:
    model = open_model(str(folder), dtype="float32", device="cpu", scheme=parse_scheme(scheme) if scheme else None)
    return list(model._module.get_submodule("model.layers").children())


def as_transformers_does(mlp: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return type(mlp).forward(mlp, x)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scheme", SCHEMES)
@torch.inference_mode()
def test_an_mlp_in_blocks_changes_no_bit(checkpoints: dict[str, Path], family: str, scheme: str | None) -> None:
    for layer in layers_of(checkpoints[family], scheme):
        assert "forward" in vars(layer.mlp)
        for rows in (0, 1, 5, BLOCK_ROWS, BLOCK_ROWS + 1, 2 * BLOCK_ROWS + 61):
            x = torch.randn(1, rows, 48, generator=torch.Generator().manual_seed(rows)) * 3
            before = x.clone()
            found = layer.mlp(x)
            assert found.shape == x.shape and torch.equal(x, before)
            assert torch.equal(found, as_transformers_does(layer.mlp, x)), rows


@torch.inference_mode()
def test_codes_are_shared_where_an_input_is(checkpoints: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for module in (int8_linear, fusion):
        monkeypatch.setattr(module, "quantize_rows", lambda x, at: made.append(x) or quantize_rows(x, at))
    layer = layers_of(checkpoints["llama"], "w8a8")[0]
    assert all(isinstance(linear, Int8Linear) for linear in (layer.self_attn.q_proj, layer.mlp.down_proj))
    x = torch.randn(1, 9, 48)
    for linear in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj):
        linear(x)
    assert len(made) == 1
    layer.mlp(x)
    # Compiled code makes the codes for down in the pass that makes the gate.
    assert len(made) == (2 if layer.mlp.act_fn.is_compiled_silu else 3), "one for gate and up, one for down"


@pytest.mark.parametrize("scheme", SCHEMES)
@torch.inference_mode()
def test_whoever_watches_the_linears_sees_each_of_them(checkpoints: dict[str, Path], scheme: str | None) -> None:
    mlp, seen = layers_of(checkpoints["llama"], scheme)[0].mlp, []
    x = torch.randn(1, 300, 48)
    alone = mlp(x)
    names = ("gate_proj", "up_proj", "down_proj")
    handles = [mlp.get_submodule(name).register_forward_hook(lambda *_, name=name: seen.append(name)) for name in names]
    assert torch.equal(mlp(x), alone) and seen == list(names)
    for handle in handles:
        handle.remove()
    assert torch.equal(mlp(x), alone) and seen == list(names)


class Doubling(nn.Module):
    """A linear of a kind that the fusion does not know."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


def test_linears_of_another_kind_are_left_as_they_are(checkpoints: dict[str, Path]) -> None:
    model = open_model(str(checkpoints["llama"]), dtype="float32", device="cpu", scheme=None)._module
    layers = list(model.get_submodule("model.layers").children())
    for layer in layers:
        del vars(layer.mlp)["forward"]
    layers[0].mlp.up_proj = Doubling()
    fuse(model)
    assert ["forward" in vars(layer.mlp) for layer in layers] == [False, True]


@pytest.mark.parametrize("scheme", [None, "w8a8"])
@torch.inference_mode()
def test_half_precision_takes_the_same_steps(checkpoints: dict[str, Path], scheme: str | None) -> None:
    found = parse_scheme(scheme) if scheme else None
    model = open_model(str(checkpoints["llama"]), dtype="bfloat16", device="cpu", scheme=found)._module
    mlp = model.get_submodule("model.layers.0.mlp")
    x = torch.randn(1, BLOCK_ROWS + 3, 48).bfloat16()
    assert torch.equal(mlp(x), as_transformers_does(mlp, x))
