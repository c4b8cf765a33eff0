"""Rounding to nearest: error bounds, odd shapes, zeros, outliers and what cannot be rounded."""

from dataclasses import replace

import pytest
import torch

from evalcard_engine.errors import EngineError
from evalcard_engine.quant.quantize import quantize, quantize_tokens
from evalcard_engine.quant.scheme import SCHEMES, group_size_for

W8, W4 = SCHEMES["w8a8"], SCHEMES["w4a16"]


@pytest.mark.parametrize("scheme", [W8, W4], ids=lambda scheme: scheme.name)
@pytest.mark.parametrize("shape", [(5, 1), (3, 7), (8, 96), (2, 131), (4, 576)])
def test_error_is_at_most_half_a_scale(scheme, shape: tuple[int, int]) -> None:
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    weight[0, 0] *= 100
    found = quantize(weight, scheme)
    bound = found.scales.repeat_interleave(found.group_size, dim=1) / 2
    # 127.5 scales is an end of the range: the quotient's own rounding is 127.5 times float32's.
    assert bool(((found.dequantize() - weight).abs() <= bound * (1 + 1e-4)).all())


@pytest.mark.parametrize("scheme", [W8, W4], ids=lambda scheme: scheme.name)
def test_the_whole_range_is_used(scheme) -> None:
    """The largest weight of a group lands on the end of the range, so half a scale is the best there is."""
    weight = torch.randn(64, 96, generator=torch.Generator().manual_seed(0))
    integers = quantize(weight, scheme).integers()
    top = weight.abs().argmax(dim=1, keepdim=True)
    assert bool((integers.gather(1, top).int().abs() >= 2 ** (scheme.weight_bits - 1) - 1).all())


@pytest.mark.parametrize("scheme", [W8, W4], ids=lambda scheme: scheme.name)
def test_rows_of_zeros_stay_zero(scheme) -> None:
    weight = torch.randn(3, 256, generator=torch.Generator().manual_seed(0))
    weight[1] = 0
    found = quantize(weight, scheme)
    assert bool((found.dequantize()[1] == 0).all()) and bool(torch.isfinite(found.scales).all())


def test_an_outlier_spoils_only_its_own_group() -> None:
    weight = torch.randn(2, 256, generator=torch.Generator().manual_seed(0))
    weight[0, 200] = 1000.0
    error = (quantize(weight, W4).dequantize() - weight).abs()
    assert error[0, 128:].max() > 0.5
    assert error[0, :128].max() < 0.4 and error[1].max() < 0.4


def test_scales_are_stored_in_the_weights_dtype_and_used_as_stored() -> None:
    weight = torch.randn(8, 128, generator=torch.Generator().manual_seed(0)).bfloat16()
    found = quantize(weight, W4)
    assert found.scales.dtype == torch.bfloat16
    expected = torch.round(weight.float() / found.scales.float()).clamp(-8, 7)
    assert torch.equal(found.integers().float(), expected)


def test_scales_too_small_for_the_dtype_do_not_divide_by_zero() -> None:
    found = quantize(torch.full((1, 128), 6e-8).half(), W4)
    assert bool(torch.isfinite(found.dequantize()).all())


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_weights_that_are_not_finite_are_refused_by_name(bad: float) -> None:
    weight = torch.ones(2, 128)
    weight[1, 5] = bad
    with pytest.raises(EngineError, match="layers.3.mlp"):
        quantize(weight, W8, "layers.3.mlp")


def test_group_size_is_the_largest_divisor() -> None:
    cases = {(576, 128): 96, (1536, 128): 128, (100, 128): 100, (131, 128): 1, (7, 128): 7, (4096, None): 4096}
    for (width, wanted), expected in cases.items():
        assert group_size_for(width, wanted) == expected
        brute = [size for size in range(1, width + 1) if width % size == 0 and size <= (wanted or width)]
        assert expected == max(brute)


def test_tokens_are_rounded_by_row() -> None:
    x = torch.randn(9, 33, generator=torch.Generator().manual_seed(0))
    x[3] = 0
    x[4] *= 1e6
    values, scales = quantize_tokens(x)
    assert values.dtype == torch.int8 and scales.shape == (9, 1)
    assert bool(((values * scales - x).abs() <= scales / 2 * (1 + 1e-5)).all())
    assert bool((values[3] == 0).all())
    for row in range(9):
        alone = quantize_tokens(x[row : row + 1])
        assert torch.equal(alone[0][0], values[row]) and torch.equal(alone[1][0], scales[row])


def test_a_token_that_is_not_finite_shows_in_its_scale() -> None:
    _, scales = quantize_tokens(torch.tensor([[1.0, torch.nan], [torch.inf, 1.0], [1.0, 2.0]]))
    assert torch.isfinite(scales)[:, 0].tolist() == [False, False, True]


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("symmetric", [True, False])
def test_integers_are_compressed_tensors_own(bits: int, symmetric: bool) -> None:
    quantization = pytest.importorskip("compressed_tensors.quantization", reason="compressed-tensors is not installed")
    from compressed_tensors.quantization.lifecycle.forward import fake_quantize
    from compressed_tensors.quantization.utils import calculate_qparams

    weight = torch.randn(16, 256, generator=torch.Generator().manual_seed(0))
    weight[3] += 5
    args = quantization.QuantizationArgs(num_bits=bits, strategy="group", group_size=64, symmetric=symmetric)
    groups = weight.view(16, 4, 64)
    scale, zero = calculate_qparams(groups.amin(-1), groups.amax(-1), args)
    scheme = replace(SCHEMES["w4a16"], element=f"int{bits}", group_size=64, symmetric=symmetric)
    found = quantize(weight, scheme)
    assert torch.equal(found.scales, scale)
    assert torch.equal(found.dequantize(), fake_quantize(weight, scale, zero.to(torch.int8), args))
