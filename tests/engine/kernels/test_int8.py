"""The integer product equals its definition to the last bit, and the CPU's own w8a8 linear too."""

from collections.abc import Callable

import pytest
import torch

from evalcard_engine.kernels import int8, launch
from evalcard_engine.quant.linear import Int8Linear
from evalcard_engine.quant.quantize import quantize_tokens
from evalcard_engine.quant.weight import Activations

TOKEN = Activations("int8", "token")
SIZES = (1, 15, 16, 17, 127, 129)
DTYPES = [torch.float16, torch.bfloat16, torch.float32]


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("out", SIZES)
def test_every_bit_over_shapes(rows: int, out: int, make_weight: Callable, make_rows: Callable) -> None:
    turn = SIZES.index(rows) * len(SIZES) + SIZES.index(out)
    width, dtype = SIZES[(turn + turn // 6) % 6], DTYPES[turn % 3]
    weight = make_weight("int8", out, width, activations=TOKEN, scale_dtype=DTYPES[(turn // 3) % 3])
    codes, scales = quantize_tokens(make_rows(rows, width, dtype))
    bias = torch.randn(out) if turn % 2 else None
    found = int8.int8(codes, scales, weight, bias, dtype)
    assert torch.equal(found, int8.int8_reference(codes, scales, weight, bias).to(dtype))


def test_the_cpu_linear_is_the_same(make_weight: Callable, make_rows: Callable) -> None:
    weight, x, bias = (
        make_weight("int8", 48, 320, activations=TOKEN),
        make_rows(33, 320, torch.float32),
        torch.randn(48),
    )
    found = int8.int8(*quantize_tokens(x), weight, bias, torch.float32)
    assert torch.equal(found, Int8Linear(weight, bias)(x))


@pytest.mark.parametrize("row_block", [1, 4, 19])
def test_splits_change_no_bit(
    row_block: int, make_weight: Callable, make_rows: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    weight = make_weight("int8", 19, 700, activations=TOKEN, row_block=row_block)
    codes, scales = quantize_tokens(make_rows(5, 700, torch.float32))
    whole = int8.int8(codes, scales, weight, None, torch.float32)
    monkeypatch.setattr(launch, "LEAST_SPLIT_LEN", 128)
    assert launch.plan("int8", 5, 19, 700, exact=False).splits > 2
    assert torch.equal(int8.int8(codes, scales, weight, None, torch.float32), whole)
    assert torch.equal(whole, int8.int8_reference(codes, scales, weight, None))


def test_sums_at_their_greatest(make_weight: Callable) -> None:
    weight = make_weight("int8", 16, 4096, activations=TOKEN)
    weight.codes.fill_(-128)
    codes = torch.full((1, 4096), -128, dtype=torch.int8)
    found = int8.int8(codes, torch.ones(1, 1), weight, None, torch.float32)
    assert torch.equal(found, 4096.0 * 16384.0 * weight.scales.t())


@pytest.mark.parametrize(
    "how",
    [
        {"element": "int4"},
        {"group": 32},
        {"zeros": True},
        {"offsets": True},
        {"activations": None},
        {"activations": Activations("fp8_e4m3", "token")},
        {"activations": Activations("int8", "token", outliers=6.0)},
    ],
    ids=["int4", "groups", "zeros", "offsets", "plain inputs", "fp8 inputs", "outliers"],
)
def test_what_it_does_not_serve(how: dict, make_weight: Callable) -> None:
    how = {"activations": TOKEN, "group": 0} | how
    weight = make_weight(how.pop("element", "int8"), 8, 64, how.pop("group"), **how)
    assert not int8.serves(weight)
    with pytest.raises(AssertionError, match="int8"):
        int8.int8(torch.zeros(1, 64, dtype=torch.int8), torch.ones(1, 1), weight, None, torch.float32)
