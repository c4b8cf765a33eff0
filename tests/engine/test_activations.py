"""Exact activations: torch's values, and no element that depends on where it lies."""

import pytest
import torch

from evalcard_engine.activations import ACTIVATIONS, ExactActivation
from evalcard_engine.errors import UnsupportedModel
from evalcard_engine.quant.workspace import Workspace


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_values_are_those_of_transformers(name: str) -> None:
    from transformers.activations import ACT2FN

    x = torch.cat((torch.linspace(-30, 30, 4001), torch.tensor([0.0, -100.0, 100.0, 1e30, -1e30])))
    found = ExactActivation(name)(x).double()
    torch.testing.assert_close(found, ACT2FN[name](x.double()), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_no_element_depends_on_shape_or_threads(name: str) -> None:
    act = ExactActivation(name)
    x = torch.randn(97, 1001, generator=torch.Generator().manual_seed(0)) * 4
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        whole = act(x)
        torch.set_num_threads(1)
        assert torch.equal(act(x), whole)
        assert torch.equal(torch.stack([act(row) for row in x]), whole)
        assert torch.equal(act(x.flatten()[13:1013]), whole.flatten()[13:1013])
    finally:
        torch.set_num_threads(before)


def test_half_precision_is_rounded_once() -> None:
    x = torch.linspace(-5, 5, 101).bfloat16()
    assert torch.equal(ExactActivation("silu")(x), ExactActivation("silu")(x.float()).bfloat16())


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_gate_of_an_mlp_is_the_product_to_the_last_bit(name: str, dtype: torch.dtype) -> None:
    act = ExactActivation(name)
    generator = torch.Generator().manual_seed(0)
    gate, up = (torch.randn(97, 1001, generator=generator).mul_(8).to(dtype) for _ in range(2))
    gate[0, :3] = torch.tensor([0.0, -120.0, 120.0])
    expected = act(gate) * up
    kept = up.clone()
    assert torch.equal(act.gate(gate, up, Workspace()), expected) and torch.equal(up, kept)


def test_unknown_activations_are_refused() -> None:
    with pytest.raises(UnsupportedModel, match="--backend"):
        ExactActivation("quick_gelu")
