"""Compiled row functions against what torch makes of the same numbers: bit for bit wherever no exponential is taken."""

import pytest
import torch

from evalcard_engine.kernels.rms_norm import rms_norm_reference
from evalcard_engine.kernels.rotary_cache import rotary_cache_reference
from evalcard_engine.native import rowwise
from evalcard_engine.quant.quantize import quantize_tokens

pytestmark = pytest.mark.skipif(not rowwise.serves(torch.float32), reason=f"nothing compiled: {rowwise.words()}")

DTYPES = [torch.float32, torch.bfloat16]
WIDTHS = [1, 7, 16, 33, 576, 1536]


def normal(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("add_one", [False, True])
@pytest.mark.parametrize("has_residual", [False, True])
def test_norms(width: int, dtype: torch.dtype, add_one: bool, has_residual: bool) -> None:
    x, weight = normal(37, width + 5, dtype=dtype)[:, :width], normal(width, dtype=dtype, seed=1)
    residual = normal(37, width, dtype=dtype, seed=2) if has_residual else None
    out, total = rowwise.rms_norm(x, weight, 1e-5, residual, add_one=add_one)
    expected, expected_total = rms_norm_reference(x, weight, 1e-5, residual, add_one=add_one)
    assert torch.equal(total, expected_total)
    # The sum of squares goes in another order: one unit in the last place of bfloat16, twice rounded.
    bound = 1e-6 if dtype == torch.float32 else 2**-6
    torch.testing.assert_close(out, expected, rtol=bound, atol=bound * 1e-2)
    alone, _ = rowwise.rms_norm(x[3:4], weight, 1e-5, None if residual is None else residual[3:4], add_one=add_one)
    assert torch.equal(alone, out[3:4])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_gates(width: int, dtype: torch.dtype) -> None:
    both = normal(41, 2 * width, dtype=dtype) * 8
    gate, up = both[:, :width], both[:, width:]
    found = rowwise.silu_mul(gate, up)
    wide = gate.double()
    expected = (wide / (1 + torch.exp(-wide))).to(dtype).double() * up.double()
    bound = 1e-6 if dtype == torch.float32 else 2**-7
    torch.testing.assert_close(found.double(), expected, rtol=bound, atol=1e-30)
    assert torch.equal(rowwise.silu_mul(gate[2:3], up[2:3]), found[2:3])
    own = gate.contiguous()
    assert rowwise.silu_mul(own, up, out=own) is own and torch.equal(own, found)


def test_gates_of_great_numbers() -> None:
    gate = torch.tensor([[-1e30, -300.0, -88.0, -0.0, 0.0, 88.0, 300.0, 1e30, torch.nan, torch.inf]])
    found = rowwise.silu_mul(gate, torch.ones_like(gate))[0]
    assert found[:5].tolist() == pytest.approx([0, 0, -88 * 6.0546e-39, 0, 0], abs=1e-37)
    assert found[5:8].tolist() == gate[0, 5:8].tolist() and found[8].isnan() and found[9].isinf()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("sizes", "rotary"), [((64, 64), 64), ((80, 48), 20), ((128, 128), 64), ((6, 4), 2)])
@pytest.mark.parametrize("page_size", [256, 16])
def test_rotary_embedding_and_cache_writes(dtype, sizes: tuple[int, int], rotary: int, page_size: int) -> None:
    tokens, heads, kv_heads = 51, 6, 2
    query = normal(tokens, heads, sizes[0], dtype=dtype)
    key, value = (
        normal(tokens, kv_heads, sizes[0], dtype=dtype, seed=1),
        normal(tokens, kv_heads, sizes[1], dtype=dtype),
    )
    cos, sin = normal(tokens, rotary, dtype=dtype, seed=2), normal(tokens, rotary, dtype=dtype, seed=3)
    slots = torch.randperm(5 * page_size, generator=torch.Generator().manual_seed(4))[:tokens]
    assert len(slots) == tokens
    pages = [[torch.zeros(5, kv_heads, page_size, size, dtype=dtype) for size in sizes] for _ in range(2)]
    found = rowwise.rotary_cache(query, key, value, cos, sin, slots, *pages[0])
    expected = rotary_cache_reference(query, key, value, cos, sin, slots, *pages[1])
    assert torch.equal(found, expected)
    assert torch.equal(pages[0][0], pages[1][0]) and torch.equal(pages[0][1], pages[1][1])


def test_rotary_embedding_of_strided_heads() -> None:
    """Query, key and value as parts of one product's output."""
    packed = normal(9, 5, 32, dtype=torch.bfloat16)
    query, key, value = packed.split((3, 1, 1), dim=1)
    cos, sin = normal(9, 32, dtype=torch.bfloat16, seed=2), normal(9, 32, dtype=torch.bfloat16, seed=3)
    pages = [[torch.zeros(1, 1, 16, 32, dtype=torch.bfloat16) for _ in range(2)] for _ in range(2)]
    slots = torch.arange(9)
    found = rowwise.rotary_cache(query, key, value, cos, sin, slots, *pages[0])
    whole = [part.contiguous() for part in (query, key, value)]
    assert torch.equal(found, rowwise.rotary_cache(*whole, cos, sin, slots, *pages[1]))
    assert torch.equal(pages[0][0], pages[1][0]) and torch.equal(pages[0][1], pages[1][1])


ROWS = {
    "normal": normal(30, 100) * 3,
    "wide": normal(200, 1536),
    "zeros": torch.zeros(3, 20),
    "tiny": torch.full((2, 20), 1e-44) * torch.arange(20),
    "mixed": torch.cat((torch.zeros(1, 50), normal(1, 50) * 1e-40, normal(1, 50) * 1e37)),
    "halves": torch.arange(-127, 128).float().repeat(2, 1) / 2,
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_codes_of_rows(name: str, dtype: torch.dtype) -> None:
    x = ROWS[name].to(dtype)
    codes, scales = torch.empty(x.shape, dtype=torch.int8), torch.empty(len(x), 1)
    rowwise.quantize_rows(x, codes, scales)
    expected_codes, expected_scales = quantize_tokens(x)
    assert torch.equal(scales, expected_scales) and torch.equal(codes, expected_codes)


@pytest.mark.parametrize("fault", [torch.nan, torch.inf, -torch.inf])
def test_a_row_that_is_not_finite_shows_in_its_scale(fault: float) -> None:
    x = normal(3, 40)
    x[1, 7] = fault
    codes, scales = torch.empty(x.shape, dtype=torch.int8), torch.empty(3, 1)
    rowwise.quantize_rows(x, codes, scales)
    assert torch.isfinite(scales)[:, 0].tolist() == [True, False, True]
    expected, _ = quantize_tokens(x[[0, 2]])
    assert torch.equal(codes[[0, 2]], expected)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("has_bias", [False, True])
def test_integers_to_numbers(width: int, dtype: torch.dtype, has_bias: bool) -> None:
    integers = torch.randint(
        -(2**24), 2**24, (29, width), dtype=torch.int32, generator=torch.Generator().manual_seed(1)
    )
    rows, columns = normal(29, 1).abs() / 100, normal(1, width, seed=2).abs() / 100
    bias = normal(width, seed=3) if has_bias else None
    out = torch.empty(29, width, dtype=dtype)
    rowwise.scale_rows(integers, rows, columns, bias, out)
    expected = integers.float() * rows * columns
    assert torch.equal(out, (expected if bias is None else expected + bias).to(dtype))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_gates_to_codes_in_one_pass(width: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    gate, up = (torch.randint(-9000, 9000, (29, width), dtype=torch.int32, generator=generator) for _ in range(2))
    rows, gates, ups = normal(29, 1).abs() / 30, normal(1, width, seed=2).abs() / 30, normal(1, width, seed=3).abs()
    numbers = [torch.empty(29, width, dtype=dtype) for _ in range(2)]
    rowwise.scale_rows(gate, rows, gates, None, numbers[0])
    rowwise.scale_rows(up, rows, ups, None, numbers[1])
    expected = [torch.empty(29, width, dtype=torch.int8), torch.empty(29, 1)]
    rowwise.quantize_rows(rowwise.silu_mul(*numbers), *expected)
    found = [torch.empty(29, width, dtype=torch.int8), torch.empty(29, 1)]
    rowwise.silu_mul_codes(gate, up, rows, gates, ups, *found, dtype)
    assert torch.equal(found[1], expected[1]) and torch.equal(found[0], expected[0])


def test_nothing_is_asked_of_no_rows() -> None:
    assert rowwise.rms_norm(torch.empty(0, 8), torch.ones(8), 1e-5)[0].shape == (0, 8)
    assert rowwise.silu_mul(torch.empty(0, 8), torch.empty(0, 8)).shape == (0, 8)


def test_float16_is_not_served() -> None:
    assert not rowwise.serves(torch.float16)
