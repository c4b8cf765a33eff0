"""Small floats and codebooks: against the definitions, and bit by bit against the libraries that made them."""

from fractions import Fraction
from typing import Any

import pytest
import torch

from evalcard_engine.quant.elements import E2M1
from evalcard_engine.quant.floats import NF4, fp4_codes, quantize_fp8, quantize_mxfp4, quantize_nf4, quantize_nvfp4
from evalcard_engine.quant.quantize import quantize, sparsify24
from evalcard_engine.quant.scheme import parse_scheme


def matrix(out: int, width: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(out * width)
    found = torch.randn(out, width, generator=generator) * 0.02
    found[0, 0], found[-1] = 1.5, 0
    return found.to(dtype)


def library(**settings: Any) -> Any:
    quantization = pytest.importorskip("compressed_tensors.quantization", reason="compressed-tensors is not installed")
    return quantization.QuantizationArgs(**settings)


def by_library(weight: torch.Tensor, args: Any, dims: Any, view: Any = None, global_scale: Any = None) -> torch.Tensor:
    """compressed-tensors' own quantize and dequantize, with its own scales over the minima and maxima of ``dims``."""
    from compressed_tensors.quantization.lifecycle.forward import fake_quantize
    from compressed_tensors.quantization.utils import calculate_qparams

    parts = weight if view is None else view(weight)
    scale, zero = calculate_qparams(parts.amin(dim=dims), parts.amax(dim=dims), args, global_scale)
    if scale.dim() == 1:
        scale, zero = scale[:, None], zero[:, None]
    return fake_quantize(weight, scale, zero, args, global_scale=global_scale)


@pytest.mark.parametrize(("out", "width"), [(8, 64), (3, 257)])
def test_fp8_per_channel_is_compressed_tensors_own(out: int, width: int) -> None:
    weight = matrix(out, width)
    args = library(num_bits=8, type="float", strategy="channel", symmetric=True)
    found = quantize_fp8(weight, None).dequantize()
    assert torch.equal(found[:-1], by_library(weight, args, -1)[:-1]) and not found[-1].any()


def test_fp8_blocks_are_compressed_tensors_own() -> None:
    weight = matrix(256, 384)
    weight[-1] = 0.01
    args = library(num_bits=8, type="float", strategy="block", block_structure=[128, 128], symmetric=True)
    theirs = by_library(weight, args, (1, 3), lambda w: w.view(2, 128, 3, 128))
    assert torch.equal(quantize_fp8(weight, 128).dequantize(), theirs)


@pytest.mark.parametrize(("out", "width"), [(130, 200), (128, 128), (1, 1), (257, 129)])
def test_partial_fp8_blocks_have_scales_of_their_own(out: int, width: int) -> None:
    weight = matrix(out, width)
    found = quantize_fp8(weight, 128)
    assert found.scales.shape == (-(-out // 128), -(-width // 128))
    for row in range(0, out, 128):
        for column in range(0, width, 128):
            part = weight[row : row + 128, column : column + 128]
            alone = quantize_fp8(part, 128).dequantize()
            assert torch.equal(found.dequantize()[row : row + 128, column : column + 128], alone)


def test_mxfp4_is_compressed_tensors_own() -> None:
    weight = matrix(16, 96) * torch.logspace(-3, 3, 16)[:, None]
    weight[-1] = 1.0
    args = library(num_bits=4, type="float", strategy="group", group_size=32, symmetric=True, scale_dtype=torch.uint8)
    theirs = by_library(weight, args, -1, lambda w: w.view(16, 3, 32))
    assert torch.equal(quantize_mxfp4(weight, 32).dequantize(), theirs)


def test_nvfp4_is_compressed_tensors_own() -> None:
    from importlib import import_module

    weight = matrix(16, 96)
    weight[-1] = 0.01
    args = library(
        num_bits=4, type="float", strategy="tensor_group", group_size=16, symmetric=True,
        scale_dtype=torch.float8_e4m3fn,
    )  # fmt: skip
    whole = import_module("compressed_tensors.quantization.utils").generate_gparam(weight.min(), weight.max())
    theirs = by_library(weight, args, -1, lambda w: w.view(16, 6, 16), whole)
    assert torch.equal(quantize_nvfp4(weight, 16).dequantize(), theirs)


@pytest.mark.parametrize(("out", "width"), [(8, 64), (5, 100), (3, 7)])
def test_nf4_is_bitsandbytes_own(out: int, width: int) -> None:
    functional = pytest.importorskip("bitsandbytes.functional", reason="bitsandbytes is not installed")
    weight = matrix(out, width)
    packed, state = functional.quantize_4bit(weight, blocksize=64, quant_type="nf4", compress_statistics=False)
    theirs = functional.dequantize_4bit(packed, state)
    assert torch.equal(quantize_nf4(weight, 64).dequantize(), theirs)
    assert list(NF4) == functional.get_4bit_type("nf4", device="cpu").tolist()


def test_fp4_rounds_to_the_nearest_and_ties_to_even() -> None:
    """Every multiple of 1/64 up to beyond the end, by exact fractions."""
    values = [Fraction(n, 64) for n in range(-512, 513)]
    codes = fp4_codes(torch.tensor([float(value) for value in values]))
    table = [Fraction(value) for value in E2M1]
    for value, code in zip(values, codes.tolist(), strict=True):
        distance = min(abs(abs(value) - one) for one in table)
        nearest = [index for index, one in enumerate(table) if abs(abs(value) - one) == distance]
        expected = nearest[0] if len(nearest) == 1 else next(index for index in nearest if index % 2 == 0)
        assert code % 8 == expected and (value == 0 or (code >= 8) == (value < 0)), (value, code)


STEPS = {"nf4": (64, 0.16), "nvfp4a16": (16, 17 / 96), "mxfp4a16": (32, 1 / 5), "w4a16_asym": (128, 0.14)}
"""Scheme -> its groups, and the greatest error over the largest weight of a group: half the widest step of the element,
in nvfp4 under a scale that e4m3 rounds by up to 1/16, in mxfp4 at 5 of the 6 that e2m1 reaches, with zero points twice
half a step as these are rounded too."""


@pytest.mark.parametrize("scheme", STEPS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_error_is_within_half_a_step(scheme: str, dtype: torch.dtype) -> None:
    weight = matrix(64, 256, dtype)
    size, step = STEPS[scheme]
    error = (quantize(weight, parse_scheme(scheme)).dequantize() - weight.float()).abs().view(64, -1, size)
    top = weight.float().abs().view(64, -1, size).amax(dim=-1, keepdim=True)
    assert bool((error <= step * top + 1e-6).all()), float((error / top.clamp_min(1e-9)).max())
    assert float((error / top.clamp_min(1e-9)).max()) > step / 3


@pytest.mark.parametrize("scheme", ["fp8", "fp8_block", "w8a16_fp8"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fp8_errs_by_a_sixteenth_of_a_value(scheme: str, dtype: torch.dtype) -> None:
    weight = matrix(64, 256, dtype)
    error = (quantize(weight, parse_scheme(scheme)).dequantize() - weight.float()).abs()
    # e4m3 has three bits of mantissa; below its normal numbers the step no longer shrinks.
    assert bool((error <= weight.float().abs() / 16 * (1 + 1e-2) + 1.5 / 448 * 2**-10).all())


def test_sparsity_keeps_the_two_largest_of_four() -> None:
    weight = torch.tensor([[1.0, -3.0, 2.0, 0.5, 0.0, 0.0, -1.0, 4.0], [1.0, 1.0, 1.0, -1.0, 5.0, 4.0, 3.0, 2.0]])
    expected = [[0.0, -3.0, 2.0, 0.0, 0.0, 0.0, -1.0, 4.0], [1.0, 1.0, 0.0, 0.0, 5.0, 4.0, 0.0, 0.0]]
    assert sparsify24(weight).tolist() == expected
    assert torch.equal(quantize(weight, parse_scheme("sparse24+w8a8")).dequantize() == 0, sparsify24(weight) == 0)


@pytest.mark.parametrize(
    ("scheme", "width", "match"),
    [("sparse24+w8a8", 6, "divide into fours"), ("nvfp4a16", 24, "groups of 16"), ("mxfp4a16", 48, "groups of 32")],
)
def test_widths_that_do_not_fit_are_refused_by_name(scheme: str, width: int, match: str) -> None:
    from evalcard_engine.errors import EngineError

    with pytest.raises(EngineError, match=f"layers.3.mlp.*{match}"):
        quantize(torch.ones(2, width), parse_scheme(scheme), "layers.3.mlp")


@pytest.mark.parametrize(("scheme", "bits"), [("nvfp4a16", 4.5), ("mxfp4a16", 4.25), ("fp8_block", 8 + 32 / 128**2)])
def test_bits_are_those_of_the_stored_form(scheme: str, bits: float) -> None:
    found = quantize(matrix(128, 256), parse_scheme(scheme))
    assert 8 * found.stored_bytes / (128 * 256) == bits
