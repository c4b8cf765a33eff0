"""Packed linears in Triton's interpreter: against their definition, beside the CPU's own, and row by row.

kernels/test_interpreter.py runs this file, in a process where Triton interprets.
"""

import os
from dataclasses import replace

import pytest
import torch

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("run by kernels/test_interpreter.py, in a process of its own", allow_module_level=True)

from evalcard_engine.kernels import fp8, int8
from evalcard_engine.quant.activations import round_activations
from evalcard_engine.quant.kernel_linear import KernelLinear
from evalcard_engine.quant.linear import Int8Linear, quantized_linear
from evalcard_engine.quant.quantize import quantize
from evalcard_engine.quant.scheme import parse_scheme
from evalcard_engine.quant.weight import Activations, QuantizedWeight

OUT, WIDTH = 72, 160
SCHEMES = [
    "w4a16-g32", "w4a16_asym-g32", "w8a16", "w8a8", "fp8", "fp8_block", "w8a16_fp8", "nf4", "nvfp4a16", "mxfp4a16",
    "sparse24+fp8",
]  # fmt: skip
INPUTS = {
    "nvfp4": ("nvfp4a16", Activations("fp4_e2m1", "group", 16, scale=torch.tensor(300.0))),
    "mxfp4": ("mxfp4a16", Activations("fp4_e2m1", "group", 32, power_of_two=True)),
    "int8 outliers": ("w8a16", Activations("int8", "token", outliers=2.0)),
    "fp8 static": ("w8a16_fp8", Activations("fp8_e4m3", "tensor", scale=torch.tensor(0.01))),
}


def weight_of(scheme: str, out: int = OUT, width: int = WIDTH) -> QuantizedWeight:
    matrix = torch.randn(out, width, generator=torch.Generator().manual_seed(out + width)) / width**0.5
    return quantize(matrix, parse_scheme(scheme))


def act_order(weight: QuantizedWeight) -> QuantizedWeight:
    columns = torch.arange(weight.in_features) // weight.group_size
    order = torch.randperm(weight.in_features, generator=torch.Generator().manual_seed(3))
    return replace(weight, group_index=columns[order])


def rows(count: int, width: int = WIDTH, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(1, count, width, generator=torch.Generator().manual_seed(count)).to(dtype)


def definition(x: torch.Tensor, weight: QuantizedWeight, bias: torch.Tensor) -> torch.Tensor:
    """float64; operands of an integer or fp8 product as they are, of any other rounded to x's dtype."""
    inputs = x[0].float() if weight.activations is None else round_activations(x[0], weight.activations)
    matrix = weight.dequantize()
    if not (int8.serves(weight) or fp8.serves(weight)):
        inputs, matrix = inputs.to(x.dtype), matrix.to(x.dtype)
    return inputs.double() @ matrix.double().t() + bias.double()


def assert_is_definition(weight: QuantizedWeight, dtype: torch.dtype) -> None:
    """float32 sums of WIDTH terms, and one rounding to the dtype."""
    x, bias = rows(7, dtype=dtype), torch.linspace(-1, 1, OUT).to(dtype)
    found = KernelLinear(weight, bias)(x)
    expected = definition(x, weight, bias)
    allowed = (torch.finfo(dtype).eps + 2**-20) * float(expected.abs().max())
    assert found.dtype == dtype and found.shape == (1, 7, OUT)
    torch.testing.assert_close(found[0].double(), expected, rtol=0, atol=allowed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_is_its_definition(scheme: str, dtype: torch.dtype) -> None:
    assert_is_definition(weight_of(scheme), dtype)


@pytest.mark.parametrize("scheme", ["w4a16-g32", "w4a16_asym-g32"])
def test_act_order_is_its_definition(scheme: str) -> None:
    assert_is_definition(act_order(weight_of(scheme)), torch.float32)


@pytest.mark.parametrize("name", INPUTS)
def test_rounded_inputs_are_their_definition(name: str) -> None:
    scheme, inputs = INPUTS[name]
    assert_is_definition(replace(weight_of(scheme), activations=inputs), torch.float32)


def test_integer_products_are_those_of_the_cpu_bit_for_bit() -> None:
    weight, bias, x = weight_of("w8a8"), torch.linspace(-1, 1, OUT), rows(9)
    expected = quantized_linear(weight, bias, torch.float32)
    assert isinstance(expected, Int8Linear)
    assert torch.equal(KernelLinear(weight, bias)(x), expected(x))


# Wide enough once that the inner dimension is cut, and rows enough for several tiles of them.
@pytest.mark.parametrize(("scheme", "width"), [("w4a16-g32", 1100), ("w8a8", 1100), ("fp8", 300), ("fp8_block", 300)])
def test_a_row_does_not_see_its_neighbours(scheme: str, width: int) -> None:
    linear, x = KernelLinear(weight_of(scheme, 24, width), None), rows(70, width)
    whole = linear(x)
    for start, stop in ((0, 1), (3, 22), (60, 70)):
        assert torch.equal(linear(x[:, start:stop]), whole[:, start:stop])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_is_held_is_packed(scheme: str) -> None:
    weight = weight_of(scheme)
    linear = quantized_linear(weight, None, torch.float32, kernels=True)
    assert isinstance(linear, KernelLinear) and linear.num_bytes == weight.num_bytes
    assert linear.weight.codes.data_ptr() == weight.codes.data_ptr()
    # No buffer, parameter or attribute holds the weight once more.
    assert not list(linear.parameters()) and not list(linear.buffers()) and set(vars(linear)) >= {"_held", "bias"}


def test_act_order_holds_the_order_of_its_columns_besides() -> None:
    weight, bias = act_order(weight_of("w4a16-g32")), torch.zeros(OUT)
    assert weight.group_index is not None
    assert KernelLinear(weight, bias).num_bytes == weight.num_bytes + bias.nbytes


def test_the_cpu_keeps_its_own_linears_unless_told() -> None:
    assert not isinstance(quantized_linear(weight_of("w4a16-g32"), None, torch.float32), KernelLinear)


def test_inputs_no_kernel_serves_are_named() -> None:
    with pytest.raises(AssertionError, match="float64 on cpu"):
        KernelLinear(weight_of("w8a16"), None)(rows(2).double())
