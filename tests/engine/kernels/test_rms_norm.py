"""RMSNorm against torch and against transformers' own modules."""

from collections.abc import Callable

import pytest
import torch
from transformers.models.gemma3.modeling_gemma3 import Gemma3RMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from evalcard_engine.kernels.rms_norm import rms_norm, rms_norm_reference

DTYPES = [torch.float16, torch.bfloat16, torch.float32]


def assert_close(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Two roundings to the dtype that may fall on the other side, and float32 sums in another order."""
    eps = torch.finfo(expected.dtype).eps
    torch.testing.assert_close(found, expected, rtol=2 * eps + 2**-21, atol=eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 15, 16, 17, 127, 576, 4099])
@pytest.mark.parametrize("add_one", [False, True])
@pytest.mark.parametrize("has_residual", [False, True])
def test_norm(width: int, dtype: torch.dtype, add_one: bool, has_residual: bool, make_rows: Callable) -> None:
    x, weight = make_rows(5, width, dtype), torch.randn(width).to(dtype)
    x[3] *= 100
    residual = make_rows(5, width, dtype, seed=2) if has_residual else None
    found, total = rms_norm(x, weight, 1e-5, residual, add_one=add_one)
    expected, expected_total = rms_norm_reference(x, weight, 1e-5, residual, add_one=add_one)
    assert torch.equal(total, expected_total) and found.dtype == dtype
    assert_close(found, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("module", "add_one"), [(LlamaRMSNorm, False), (Gemma3RMSNorm, True)])
def test_the_models_own_modules(module: type, add_one: bool, dtype: torch.dtype, make_rows: Callable) -> None:
    norm = module(96, eps=1e-6)
    norm.weight.data = torch.randn(96).to(dtype)
    x = make_rows(9, 96, dtype)
    with torch.no_grad():
        expected = norm(x)
    assert_close(
        rms_norm(x, norm.weight.data, norm.eps if add_one else norm.variance_epsilon, add_one=add_one)[0], expected
    )


def test_rows_with_gaps_alone_and_none(make_rows: Callable) -> None:
    x, weight = make_rows(8, 90, torch.float32)[::2, 10:80], torch.randn(70)
    whole, total = rms_norm(x, weight, 1e-6)
    assert total is x and torch.equal(whole, rms_norm(x.contiguous(), weight, 1e-6)[0])
    assert torch.equal(rms_norm(x[2:3], weight, 1e-6)[0], whole[2:3])
    assert rms_norm(x[:0], weight, 1e-6)[0].shape == (0, 70)


def test_a_bad_tensor_is_named() -> None:
    x = torch.zeros(2, 8)
    with pytest.raises(AssertionError, match=r"weight \(7,\)"):
        rms_norm(x, torch.ones(7), 1e-6)
    with pytest.raises(AssertionError, match="residual is torch.float16"):
        rms_norm(x, torch.ones(8), 1e-6, x.half())
