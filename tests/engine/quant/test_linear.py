"""Linears against their float definition, alone and in company."""

import pytest
import torch
import torch.nn.functional as F

from evalcard_engine.quant.linear import DenseLinear, Int8Linear, plain_linear, quantized_linear
from evalcard_engine.quant.quantize import quantize, quantize_tokens
from evalcard_engine.quant.scheme import SCHEMES


def inputs(width: int, out: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 37, width, generator=generator)
    x[0, 5] = 0
    return x, torch.randn(out, width, generator=generator), torch.randn(out, generator=generator)


@pytest.mark.parametrize(("width", "out"), [(576, 192), (33, 7), (100, 30)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_w8a8_is_the_product_of_what_was_rounded(width: int, out: int, has_bias: bool) -> None:
    x, matrix, bias = inputs(width, out)
    weight = quantize(matrix, SCHEMES["w8a8"])
    linear = Int8Linear(weight, bias if has_bias else None)
    values, scales = quantize_tokens(x[0])
    expected = (values * scales).double() @ weight.dequantize().double().t() + (bias.double() if has_bias else 0)
    found = linear(x)
    torch.testing.assert_close(found[0].double(), expected, rtol=1e-5, atol=1e-5)
    for start, stop in ((0, 1), (4, 7), (36, 37)):
        assert torch.equal(linear(x[:, start:stop]), found[:, start:stop])


def test_w8a8_shows_an_input_that_is_not_finite() -> None:
    x, matrix, _ = inputs(64, 8)
    x[0, 1, 3] = torch.nan
    out = Int8Linear(quantize(matrix, SCHEMES["w8a8"]), None)(x)
    assert not torch.isfinite(out[0, 1]).any() and torch.isfinite(out[0, 0]).all()


def test_w4a16_is_the_linear_of_the_dequantized_weight() -> None:
    x, matrix, bias = inputs(96, 20)
    weight = quantize(matrix, SCHEMES["w4a16"])
    found = quantized_linear(weight, bias, torch.float32)(x)
    assert torch.equal(found, plain_linear(weight.dequantize(), bias)(x))
    torch.testing.assert_close(found, F.linear(x, weight.dequantize(), bias), rtol=1e-4, atol=1e-4)


def test_dense_and_exact_agree() -> None:
    x, matrix, bias = inputs(96, 20)
    torch.testing.assert_close(plain_linear(matrix, bias)(x), DenseLinear(matrix, bias)(x), rtol=1e-4, atol=1e-4)
    assert torch.equal(plain_linear(matrix, None)(x[:, :0]), x.new_empty(1, 0, 20))
