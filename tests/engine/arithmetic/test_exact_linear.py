"""Linears whose rows keep to themselves, and the test that says so."""

import pytest
import torch
import torch.nn.functional as F

from evalcard_engine.arithmetic import exact_linear
from evalcard_engine.numerics import describe


@pytest.fixture
def restore_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("pack", [exact_linear._pack, exact_linear._keep], ids=["onednn", "tiles"])
@pytest.mark.parametrize(("width", "out"), [(576, 192), (33, 7), (1000, 1001), (64, 1)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_linear_is_right_and_keeps_rows_apart(pack, width: int, out: int, has_bias: bool, restore_threads) -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(out, width, generator=generator)
    bias = torch.randn(out, generator=generator) if has_bias else None
    x = torch.randn(260, width, generator=generator)
    packed = pack(weight)
    torch.set_num_threads(2)
    whole = exact_linear.linear(x, packed, bias)
    exact = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    torch.testing.assert_close(whole.double(), exact, rtol=1e-5, atol=1e-5 * width**0.5)
    torch.set_num_threads(1)
    for rows in (0, 1, 2, 3, 5, 8, 31, 33, 64, 129):
        for start in (0, 1, 100):
            part = exact_linear.linear(x[start : start + rows], packed, bias)
            assert torch.equal(part, whole[start : start + rows]), (rows, start)


def test_linear_keeps_leading_dimensions() -> None:
    packed = exact_linear.pack_linear(torch.eye(3))
    x = torch.arange(12.0).view(1, 4, 3)
    assert torch.equal(exact_linear.linear(x, packed, None), x)


def test_self_test_finds_a_linear_that_mixes_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check must be able to fail: a linear that adds the number of rows is caught, and the string says so."""
    honest = exact_linear.linear
    monkeypatch.setattr(exact_linear, "linear", lambda x, weight, bias: honest(x, weight, bias) + 1e-3 * x.shape[0])
    faults = exact_linear.linear_faults(torch.float32, exact_linear._keep)
    assert faults and "row count" in faults[0]
    assert "rows inexact" in describe("cpu", torch.float32, tuple(faults))
