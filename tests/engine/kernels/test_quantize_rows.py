"""Inputs as kernels round them, against the definition of quant/activations.py, bit for bit."""

import pytest
import torch

from evalcard_engine.kernels.quantize_rows import quantize_rows, quantize_rows_reference, serves
from evalcard_engine.quant.weight import Activations

WAYS = {
    "int8 by token": Activations("int8", "token"),
    "int8 static": Activations("int8", "tensor", scale=torch.tensor(0.02)),
    "fp8 by token": Activations("fp8_e4m3", "token"),
    "fp8 bounded": Activations("fp8_e4m3", "token", limit=1.5),
    "fp8 by 128": Activations("fp8_e4m3", "group", 128),
    "fp8 by 48": Activations("fp8_e4m3", "group", 48),
    "mxfp8": Activations("fp8_e4m3", "group", 32, power_of_two=True),
    "fp8 static": Activations("fp8_e4m3", "tensor", scale=torch.tensor(0.004)),
}
DTYPES = [torch.float16, torch.bfloat16, torch.float32]


def hard_rows(width: int, dtype: torch.dtype) -> torch.Tensor:
    """Large, small, vanishing, zero and lopsided rows, one of them full of ties."""
    x = torch.randn(7, width, generator=torch.Generator().manual_seed(width))
    x[1] *= 1e3
    x[2] *= 1e-4
    x[3] = 0
    x[4] *= 1e-7
    x[5] = (torch.arange(width) % 255 - 127).float() / 2
    x[6, 0] = 900
    return x.to(dtype)


def spread(codes: torch.Tensor, scales: torch.Tensor, size: int) -> torch.Tensor:
    return codes.float() * scales.repeat_interleave(size, dim=1)[:, : codes.shape[1]]


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize(("width", "dtype"), [(1, DTYPES[2]), (16, DTYPES[1]), *((300, dtype) for dtype in DTYPES)])
def test_codes_times_scales_are_the_definition(name: str, width: int, dtype: torch.dtype) -> None:
    how, x = WAYS[name], hard_rows(width, dtype)
    codes, scales = quantize_rows(x, how)
    assert codes.dtype == (torch.int8 if how.element == "int8" else torch.float8_e4m3fn)
    size = how.group_size if how.per == "group" else width
    assert scales.shape == (7, -(-width // size))
    assert torch.equal(spread(codes, scales, size), quantize_rows_reference(x, how))


@pytest.mark.parametrize("name", WAYS)
def test_a_row_that_is_not_finite_shows_and_no_other_does(name: str) -> None:
    how, x = WAYS[name], hard_rows(140, torch.float32)
    x[0, 3], x[2, 139] = torch.nan, -torch.inf
    codes, scales = quantize_rows(x, how)
    found = spread(codes, scales, how.group_size if how.per == "group" else 140)
    expected = quantize_rows_reference(x, how)
    assert found.isnan().any(dim=1).tolist() == [True, False, True, False, False, False, False]
    assert torch.equal(found[[1, 3, 4, 5, 6]], expected[[1, 3, 4, 5, 6]])
    if how.per == "group":
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def test_wide_rows_and_rows_with_gaps() -> None:
    x = torch.randn(3, 9001, generator=torch.Generator().manual_seed(0))[::2, 100:9000]
    how = WAYS["int8 by token"]
    codes, scales = quantize_rows(x, how)
    assert torch.equal(codes.float() * scales, quantize_rows_reference(x, how))
    assert quantize_rows(x[:0], how)[0].shape == (0, 8900)


def test_outliers_and_fp4_are_left_to_torch() -> None:
    assert not serves(Activations("int8", "token", outliers=6.0)) and not serves(Activations("fp4_e2m1", "group", 16))
    with pytest.raises(AssertionError, match="outliers"):
        quantize_rows(torch.ones(1, 4), Activations("int8", "token", outliers=6.0))
