"""Compiled linears against float64, and rows against themselves in other company."""

import pytest
import torch

from evalcard_engine.arithmetic import exact_linear
from evalcard_engine.native import linear as native

pytestmark = pytest.mark.skipif(
    not native.is_there(torch.bfloat16), reason=f"no compiled linear of bfloat16: {native.words()}"
)

SHAPES = [(1, 2), (7, 6), (31, 34), (32, 576), (33, 576), (192, 1536), (1000, 64)]
"""(out, in)"""


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


@pytest.mark.parametrize(("out", "width"), SHAPES)
def test_what_is_packed_comes_back(out: int, width: int) -> None:
    weight = normal(out, width)
    packed = native.pack(weight)
    assert packed.shape == (-(-out // 32), width // 2, 32, 2)
    assert torch.equal(native.unpack(packed, out), weight)
    assert not packed.transpose(1, 2).reshape(-1, width)[out:].any()
    assert torch.equal(native.pack(weight.t().contiguous().t()), packed)


@pytest.mark.parametrize(("out", "width"), SHAPES)
@pytest.mark.parametrize("rows", [0, 1, 5, 12, 13, 67, 500])
@pytest.mark.parametrize("has_bias", [False, True])
def test_equals_the_definition(out: int, width: int, rows: int, has_bias: bool) -> None:
    weight, x, bias = normal(out, width), normal(rows, width, seed=1), normal(out, seed=2) if has_bias else None
    expected = x.double() @ weight.double().T + (0 if bias is None else bias.double())
    wide = native.linear(x, native.pack(weight), out, bias, torch.float32)
    torch.testing.assert_close(wide.double(), expected, rtol=1e-6, atol=1e-6 * width)
    assert torch.equal(native.linear(x, native.pack(weight), out, bias, torch.bfloat16), wide.bfloat16())


@pytest.mark.parametrize(("out", "width"), SHAPES)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_row_is_the_same_in_any_company(out: int, width: int, threads: int) -> None:
    x, packed = normal(700, width, seed=1), native.pack(normal(out, width))
    whole = native.linear(x, packed, out, None, torch.float32)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        for start, stop in ((0, 1), (1, 3), (5, 18), (40, 107), (200, 600), (0, 700)):
            assert torch.equal(native.linear(x[start:stop], packed, out, None, torch.float32), whole[start:stop])
    finally:
        torch.set_num_threads(before)


def test_outputs_are_the_same_of_any_part_of_the_weight() -> None:
    weight, x = normal(200, 96), normal(9, 96, seed=1)
    whole = native.linear(x, native.pack(weight), 200, None, torch.float32)
    for start, stop in ((0, 1), (3, 70), (64, 200)):
        part = native.linear(x, native.pack(weight[start:stop]), stop - start, None, torch.float32)
        assert torch.equal(part, whole[:, start:stop])


def test_rows_may_be_strided() -> None:
    both, packed = normal(20, 2 * 64, seed=1), native.pack(normal(40, 64))
    for rows in (both[:, 64:], both.t()[:64].t(), both[::3, :64]):
        assert torch.equal(
            native.linear(rows, packed, 40, None, torch.bfloat16),
            native.linear(rows.contiguous(), packed, 40, None, torch.bfloat16),
        )


def test_exact_linears_of_bfloat16_are_these() -> None:
    weight = normal(40, 96)
    packed = exact_linear.pack_linear(weight)
    assert packed.compiled is not None and torch.equal(packed.weight, weight)
    assert exact_linear.linear_words(torch.bfloat16) == native.words()
    x = normal(2, 3, 96, seed=1)
    assert exact_linear.linear(x, packed, None).shape == (2, 3, 40)
    assert exact_linear.linear(x, packed, None, torch.float32).dtype == torch.float32


def test_odd_widths_and_other_dtypes_are_not() -> None:
    assert exact_linear.pack_linear(normal(8, 33)).compiled is None
    assert exact_linear.pack_linear(torch.ones(8, 32)).compiled is None
