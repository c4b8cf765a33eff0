"""Joined linears against the same linears one by one, bit by bit."""

import pytest
import torch
from torch import nn

from evalcard_engine.arithmetic.exact_linear import compiled_serves
from evalcard_engine.joined import QKV, join, project
from evalcard_engine.quant.held import held_bytes
from evalcard_engine.quant.linear import ExactLinear

needs_compiled = pytest.mark.skipif(not compiled_serves(torch.bfloat16), reason="no compiled linears here")


def owner_of(
    outs: tuple[int, ...] = (96, 32, 32),
    biases: tuple[bool, ...] = (False, False, False),
    dtype: torch.dtype = torch.bfloat16,
    width: int = 48,
) -> nn.Module:
    generator = torch.Generator().manual_seed(sum(outs))
    owner = nn.Module()
    for name, out, has_bias in zip(QKV, outs, biases, strict=True):
        weight = torch.randn(out, width, generator=generator).to(dtype)
        bias = torch.randn(out, generator=generator).to(dtype) if has_bias else None
        owner.add_module(name, ExactLinear(weight, bias))
    return owner


def one_by_one(owner: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    return [owner.get_submodule(name)(x) for name in QKV]


@needs_compiled
@pytest.mark.parametrize("biases", [(False,) * 3, (True,) * 3])
@torch.inference_mode()
def test_a_joined_product_is_each_linear_s_own(biases: tuple[bool, ...]) -> None:
    owner = owner_of(biases=biases)
    inputs = [torch.randn(1, rows, 48).bfloat16() for rows in (0, 1, 7, 300)]
    before, held = [one_by_one(owner, x) for x in inputs], held_bytes(owner)
    weights = [owner.get_submodule(name).weight.weight.clone() for name in QKV]
    join(owner, QKV)
    assert "joined_linears" in vars(owner) and len(list(owner.modules())) == 4
    assert held_bytes(owner) <= held + 2 * 160 * any(biases), "weights are not held twice"
    for x, expected in zip(inputs, before, strict=True):
        for found in (project(owner, QKV, x), one_by_one(owner, x)):
            assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    assert all(
        torch.equal(owner.get_submodule(name).weight.weight, weight) for name, weight in zip(QKV, weights, strict=True)
    )


@needs_compiled
@torch.inference_mode()
def test_whoever_watches_a_linear_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    owner, x = owner_of(), torch.randn(5, 48).bfloat16()
    join(owner, QKV)
    seen: list[torch.Tensor] = []
    hook = owner.get_submodule("k_proj").register_forward_hook(lambda module, given, out: seen.append(out))
    watched = project(owner, QKV, x)
    hook.remove()
    assert len(seen) == 1 and torch.equal(seen[0], watched[1])
    assert torch.equal(project(owner, QKV, x)[1], watched[1]) and len(seen) == 1


@pytest.mark.parametrize(
    "owner",
    [
        owner_of(outs=(96, 48, 32)),
        owner_of(biases=(True, False, False)),
        owner_of(dtype=torch.float32),
        owner_of(width=47),
        nn.Module(),
    ],
    ids=["half a panel", "one bias", "float32", "odd width", "no linears"],
)
@torch.inference_mode()
def test_what_cannot_be_joined_stays_as_it_is(owner: nn.Module) -> None:
    join(owner, QKV)
    assert "joined_linears" not in vars(owner)
    if owner._modules:
        width = owner.get_submodule("q_proj").weight.in_features
        x = torch.randn(3, width, dtype=owner.get_submodule("q_proj").weight.weight.dtype)
        assert all(
            torch.equal(one, other) for one, other in zip(project(owner, QKV, x), one_by_one(owner, x), strict=True)
        )
