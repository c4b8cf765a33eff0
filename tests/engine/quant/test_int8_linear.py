"""The integer linear in blocks, against its slow definition bit by bit: alone, in company, and with shared codes."""

import pytest
import torch

from evalcard_engine.quant import int8_linear
from evalcard_engine.quant.int8_linear import BLOCK_ROWS, Int8Linear, TokenCodes, quantize_rows
from evalcard_engine.quant.quantize import quantize, quantize_tokens
from evalcard_engine.quant.scheme import SCHEMES
from evalcard_engine.quant.workspace import Workspace

ROWS = (0, 1, 2, 37, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, 2 * BLOCK_ROWS + 61)


def inputs(rows: int, width: int) -> torch.Tensor:
    """Rows of all magnitudes, among them zeros, rows of one sign, and ones whose scale float32 barely holds."""
    x = torch.randn(rows, width, generator=torch.Generator().manual_seed(rows + width))
    x *= torch.logspace(-6, 6, max(rows, 1))[:rows, None]
    for row, values in enumerate((x.new_zeros(width), -x.new_ones(width), x.new_full((width,), 3e-44))):
        if rows > 4:
            x[row + 1] = values
    return x


def make(width: int, out: int, has_bias: bool) -> tuple[Int8Linear, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """A linear, and its codes [out, in], scales [out] and bias."""
    generator = torch.Generator().manual_seed(out)
    weight = quantize(torch.randn(out, width, generator=generator), SCHEMES["w8a8"])
    bias = torch.randn(out, generator=generator) if has_bias else None
    return Int8Linear(weight, bias), weight.codes, weight.scales[:, 0].float(), bias


def definition(x: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    tokens, token_scales = quantize_tokens(x)
    out = (tokens.long() @ codes.long().t()).float() * token_scales * scales
    return out if bias is None else out + bias


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_are_quantized_as_the_definition_says(rows: int, dtype: torch.dtype) -> None:
    x = inputs(rows, 129).to(dtype)
    for found, expected in zip(quantize_rows(x, Workspace()), quantize_tokens(x), strict=True):
        assert found.dtype == expected.dtype and torch.equal(found, expected)


@pytest.mark.parametrize("odd", [None, 0.0, 1e-37, torch.nan])
def test_an_odd_row_changes_nothing_of_its_neighbours(odd: float | None) -> None:
    """Whether a row needs care is asked of a block: its other rows get the same codes either way."""
    x = torch.randn(41, 77, generator=torch.Generator().manual_seed(3))
    calm = quantize_rows(x, Workspace())
    if odd is not None:
        x[17] = odd
    codes, scales = quantize_rows(x, Workspace())
    others = torch.arange(41) != 17
    assert torch.equal(codes[others], calm[0][others]) and torch.equal(scales[others], calm[1][others])
    assert torch.equal(quantize_rows(x[17:18], Workspace())[0], codes[17:18])


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_row_that_is_not_finite_says_so(bad: float) -> None:
    x = inputs(9, 33)
    x[5, 7] = bad
    linear, *_ = make(33, 6, False)
    finite = torch.isfinite(linear(x)).all(dim=1)
    assert finite.tolist() == [row != 5 for row in range(9)]


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize(("width", "out"), [(576, 192), (33, 7), (1500, 129)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_every_bit_is_the_definitions(rows: int, width: int, out: int, has_bias: bool) -> None:
    linear, codes, scales, bias = make(width, out, has_bias)
    x = inputs(rows, width)
    assert torch.equal(linear(x), definition(x, codes, scales, bias))


def test_half_precision_is_rounded_once() -> None:
    linear, codes, scales, bias = make(96, 20, True)
    x = inputs(37, 96).bfloat16()
    assert torch.equal(linear(x), definition(x, codes, scales, bias).bfloat16())


def test_no_row_depends_on_company_blocks_or_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    linear, *_ = make(576, 192, True)
    x = inputs(300, 576)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        whole = linear(x[None])
        assert whole.shape == (1, 300, 192)
        torch.set_num_threads(1)
        for start, stop in ((0, 1), (3, 5), (250, 260), (1, 300)):
            assert torch.equal(linear(x[start:stop]), whole[0, start:stop])
        monkeypatch.setattr(int8_linear, "BLOCK_ROWS", 7)
        assert torch.equal(linear(x), whole[0])
    finally:
        torch.set_num_threads(before)


def test_codes_are_made_once_for_those_who_share_them(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(int8_linear, "quantize_rows", lambda x, at: made.append(x) or quantize_rows(x, at))
    linears = [make(40, out, False) for out in (8, 9, 10)]
    tokens, workspace = TokenCodes(3), Workspace()
    for linear, *_ in linears:
        linear.share(tokens, workspace)
    for x in (inputs(5, 40), inputs(6, 40), inputs(5, 40) + 1):
        for linear, codes, scales, bias in linears:
            assert torch.equal(linear(x), definition(x, codes, scales, bias))
    assert len(made) == 3 and tokens._x is None and tokens._made is None


def test_codes_of_another_input_are_never_taken() -> None:
    first, second = make(40, 8, False), make(40, 9, False)
    tokens, workspace = TokenCodes(2), Workspace()
    first[0].share(tokens, workspace)
    second[0].share(tokens, workspace)
    x, other = inputs(5, 40), inputs(5, 40) * 2
    first[0](x)
    assert torch.equal(second[0](other), definition(other, *second[1:]))
    assert torch.equal(first[0](x), definition(x, *first[1:]))
    # Changed in place once both were served: nothing of before is left.
    second[0](x)
    x += 1
    assert torch.equal(first[0](x), definition(x, *first[1:]))
