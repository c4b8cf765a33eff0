"""Every quantized linear through the one door, against the definition that the CPU's own linears follow."""

from collections.abc import Callable

import pytest
import torch

from evalcard_engine.kernels import dispatch, fp8, int8
from evalcard_engine.quant.activations import round_activations
from evalcard_engine.quant.weight import Activations, QuantizedWeight

INPUTS = {
    "plain": None,
    "int8 by token": Activations("int8", "token"),
    "int8 outliers": Activations("int8", "token", outliers=2.5),
    "int8 static": Activations("int8", "tensor", scale=torch.tensor(0.03)),
    "fp8 by token": Activations("fp8_e4m3", "token"),
    "fp8 by group": Activations("fp8_e4m3", "group", 128),
    "fp8 static": Activations("fp8_e4m3", "tensor", scale=torch.tensor(0.01)),
    "mxfp4": Activations("fp4_e2m1", "group", 32),
    "nvfp4": Activations("fp4_e2m1", "group", 16, scale=torch.tensor(200.0)),
}
WEIGHTS = {
    "int8 channel": {"element": "int8"},
    "int8 groups": {"element": "int8", "group": 32},
    "int4 groups": {"element": "int4", "group": 32, "zeros": True},
    "act-order": {"element": "int4", "group": 64, "zeros": True, "order": True},
    "fp8 channel": {"element": "fp8_e4m3"},
    "fp8 blocks": {"element": "fp8_e4m3", "group": 128, "row_block": 128},
    "fp4": {"element": "fp4_e2m1", "group": 16},
    "codebook": {"element": "codebook4", "group": 64, "flat": True},
}


def definition(x: torch.Tensor, weight: QuantizedWeight, bias: torch.Tensor) -> torch.Tensor:
    """float64: integer and fp8 products keep their operands as they are, others round both to x's dtype."""
    rows = x.float() if weight.activations is None else round_activations(x, weight.activations)
    matrix = weight.dequantize()
    if not (int8.serves(weight) or fp8.serves(weight)):
        rows, matrix = rows.to(x.dtype), matrix.to(x.dtype)
    return rows.double() @ matrix.double().t() + bias.double()


@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("kind", WEIGHTS)
def test_every_pair_of_weight_and_inputs(inputs: str, kind: str, make_weight: Callable, make_rows: Callable) -> None:
    how = dict(WEIGHTS[kind])
    weight = make_weight(how.pop("element"), 24, 320, how.pop("group", 0), activations=INPUTS[inputs], **how)
    x, bias = make_rows(6, 320, torch.bfloat16).view(2, 3, 320), torch.randn(24)
    found = dispatch.linear(x, dispatch.prepare(weight), bias)
    assert found is not None and found.shape == (2, 3, 24) and found.dtype == torch.bfloat16
    # One rounding of the result to bfloat16.
    expected = definition(x.view(6, 320), weight, bias).view(2, 3, 24)
    allowed = 2**-8 * float(expected.abs().max())
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=allowed)
    if weight.group_index is not None:
        torch.testing.assert_close(dispatch.linear(x, weight, bias), found, rtol=0, atol=allowed)


def test_in_float32_it_is_the_definition_to_float32(make_weight: Callable, make_rows: Callable) -> None:
    for inputs in INPUTS.values():
        for how in ({"order": True, "zeros": True}, {}):
            weight = make_weight("int4", 24, 96, 32, activations=inputs, **how)
            x, bias = make_rows(3, 96, torch.float32), torch.randn(24)
            expected = definition(x, weight, bias)
            for held in (weight, dispatch.prepare(weight)):
                found = dispatch.linear(x, held, bias)
                torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))


def test_act_order_is_prepared_by_sorting(make_weight: Callable) -> None:
    weight = make_weight("int4", 8, 96, 32, order=True)
    prepared = dispatch.prepare(weight)
    assert prepared.weight.group_index is None and prepared.column_order is not None
    assert torch.equal(prepared.weight.dequantize(), weight.dequantize()[:, prepared.column_order])


def test_none_where_no_kernel_serves(make_weight: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    weight = make_weight("int8", 4, 8)
    assert dispatch.linear(torch.zeros(1, 8, dtype=torch.float64), weight, None) is None
    monkeypatch.setattr(dispatch, "_has_triton", lambda: False)
    assert dispatch.linear(torch.zeros(1, 8), weight, None) is None
