"""W4A16, W8A16 and the rest: the weights bit for bit, the sums against float64, rows that do not see each other."""

import itertools
from collections.abc import Callable

import pytest
import torch

from evalcard_engine.kernels import launch, weight_only
from evalcard_engine.kernels.weight_only import weight_only_reference

SIZES = (1, 15, 16, 17, 127, 129)
ELEMENTS = ["int2", "int3", "int4", "int5", "int6", "int8", "fp8_e4m3", "fp8_e5m2", "fp4_e2m1", "codebook4"]
DTYPES = [torch.float16, torch.bfloat16, torch.float32]
LAYOUTS = {
    "channel": {},
    "groups of 16": {"group": 16},
    "groups of 32": {"group": 32, "zeros": True},
    "groups of 64": {"group": 64, "offsets": True, "scale_dtype": torch.bfloat16},
    "groups of 128": {"group": 128, "zeros": True, "offsets": True, "scale_dtype": torch.float16},
    "odd groups": {"group": 24, "zeros": True},
    "act-order": {"group": 32, "order": True, "zeros": True},
    "line": {"group": 64, "flat": True, "zeros": True},
    "line by rows": {"group": 53, "flat": True},
    "blocks": {"group": 64, "row_block": 8},
}


def assert_close(found: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype, width: int) -> None:
    """One rounding to dtype, and sums of ``width`` float32 terms, both against the greatest magnitude of a result."""
    allowed = torch.finfo(dtype).eps + width * 2.0**-24
    assert found.dtype == dtype and found.shape == expected.shape
    torch.testing.assert_close(found.double(), expected, rtol=allowed, atol=allowed * float(expected.abs().max()))


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_weights_in_the_product_are_the_dequantized_ones(element: str, layout: str, make_weight: Callable) -> None:
    """Rows of an identity pick single weights out: no bit may differ from the definition, rounded to each dtype."""
    dtype = DTYPES[ELEMENTS.index(element) % 2]
    weight = make_weight(element, 37, 106, **LAYOUTS[layout])
    picked = weight_only.weight_only(torch.eye(106, dtype=dtype), weight, None)
    assert torch.equal(picked.t(), weight.dequantize().to(dtype))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_in_float32_too(layout: str, make_weight: Callable) -> None:
    weight = make_weight("int4", 9, 53, **LAYOUTS[layout])
    picked = weight_only.weight_only(torch.eye(53), weight, None)
    assert torch.equal(picked.t(), weight.dequantize())


@pytest.mark.parametrize(("rows", "out"), list(itertools.product(SIZES, SIZES)))
def test_shapes_that_divide_nothing(rows: int, out: int, make_weight: Callable, make_rows: Callable) -> None:
    """Each number of rows meets each number of outputs; widths, dtypes, groups and modes take turns."""
    turn = SIZES.index(rows) * len(SIZES) + SIZES.index(out)
    for width in (SIZES[turn % 6], SIZES[(turn + 3) % 6]):
        group = (0, 32, 64, 128)[(turn + turn // 6) % 4]
        dtype = DTYPES[turn % 3 if rows * out < 1000 else turn % 2]
        weight = make_weight(ELEMENTS[turn % 10], out, width, group, seed=turn)
        x, bias = make_rows(rows, width, dtype), torch.randn(out)
        found = weight_only.weight_only(x, weight, bias if turn % 2 else None, exact=turn % 3 > 0)
        assert_close(found, weight_only_reference(x, weight, bias if turn % 2 else None), dtype, width)


@pytest.mark.parametrize("layout", ["groups of 32", "act-order"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_inner_dimension_is_cut(
    layout: str, dtype: torch.dtype, make_weight: Callable, make_rows: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three splits with a tail: as partial sums and folded into a program, both with the same bits."""
    monkeypatch.setattr(launch, "LEAST_SPLIT_LEN", 64)
    weight, x, bias = make_weight("int4", 19, 331, **LAYOUTS[layout]), make_rows(21, 331, dtype), torch.randn(19)
    chosen = launch.plan("half", 21, 19, 331, exact=True)
    assert chosen.splits > 2 and not chosen.is_folded and 331 % chosen.split_len
    parts = weight_only.weight_only(x, weight, bias)
    assert_close(parts, weight_only_reference(x, weight, bias), dtype, 331)
    real = weight_only.plan

    def folded(*shape, **how):
        made = real(*shape, **how)
        return launch.Plan(made.tile, made.splits, made.split_len, True)

    monkeypatch.setattr(weight_only, "plan", folded)
    assert torch.equal(weight_only.weight_only(x, weight, bias), parts)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_does_not_see_its_neighbours(dtype: torch.dtype, make_weight: Callable, make_rows: Callable) -> None:
    weight, x = make_weight("int4", 33, 300, 32, zeros=True), make_rows(67, 300, dtype)
    whole = weight_only.weight_only(x, weight, None)
    for start, stop in ((0, 1), (5, 22), (66, 67)):
        assert torch.equal(weight_only.weight_only(x[start:stop], weight, None), whole[start:stop])


def test_rows_with_gaps_and_no_rows(make_weight: Callable, make_rows: Callable) -> None:
    weight, x = make_weight("int8", 5, 40), make_rows(7, 90, torch.float16)
    part = x[1::2, 20:60]
    assert torch.equal(
        weight_only.weight_only(part, weight, None), weight_only.weight_only(part.contiguous(), weight, None)
    )
    assert weight_only.weight_only(part[:0], weight, None).shape == (0, 5)


def test_what_is_not_finite_shows(make_weight: Callable, make_rows: Callable) -> None:
    weight, x = make_weight("int4", 20, 70, 32), make_rows(3, 70, torch.float16)
    x[1, 69] = torch.nan
    found = weight_only.weight_only(x, weight, None)
    assert found[1].isnan().all() and torch.isfinite(found[[0, 2]]).all()
    weight.scales[4, 2] = torch.nan
    assert weight_only.weight_only(x[:1], weight, None).isnan().nonzero().tolist() == [[0, 4]]


def test_nan_and_infinity_of_small_floats_are_kept(make_weight: Callable) -> None:
    for element, code in (("fp8_e4m3", 0x7F), ("fp8_e4m3", 0xFF), ("fp8_e5m2", 0x7C), ("fp8_e5m2", 0xFE)):
        weight = make_weight(element, 3, 4)
        weight.codes.view(torch.uint8)[1, 2] = code
        picked = weight_only.weight_only(torch.eye(4)[2:3], weight, None)[0]
        torch.testing.assert_close(picked, weight.dequantize()[:, 2], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda x, bias: (x[:, :-1], bias), "x (2, 9), weight (3, 10)"),
        (lambda x, bias: (x.double(), bias), "x is torch.float64"),
        (lambda x, bias: (x.t().contiguous().t(), bias), "strides (1, 2)"),
        (lambda x, bias: (x, bias[:-1]), "bias (2,)"),
    ],
)
def test_a_bad_tensor_is_named(change: Callable, said: str, make_weight: Callable) -> None:
    x, bias = change(torch.zeros(2, 10), torch.zeros(3))
    with pytest.raises(AssertionError) as raised:
        weight_only.weight_only(x, make_weight("int8", 3, 10), bias)
    assert said in str(raised.value)
