"""Parts of attention merged in their order, against one softmax over all of them."""

import pytest
import torch

from evalcard_engine.kernels.merge_parts import merge_parts, merge_parts_reference

ALLOWED = {torch.float32: 1e-6, torch.float16: 2**-11, torch.bfloat16: 2**-8}
"""Of values below one: half precision rounds the result."""


def index(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int32)


@pytest.mark.parametrize("dtype", ALLOWED)
@pytest.mark.parametrize("size", [1, 80, 128])
def test_tokens_with_parts_of_their_own(dtype: torch.dtype, size: int) -> None:
    generator = torch.Generator().manual_seed(size)
    parts = torch.rand(7, 3, size, generator=generator)
    tops = torch.randn(7, 3, generator=generator) * 4
    # A part whose keys a row does not see, the first one it meets and a later one.
    tops[4, 1], tops[2, 0], tops[6, 2] = -torch.inf, -torch.inf, 300.0
    tokens, starts, order = index(3, 0), index(0, 4, 7), index(4, 1, 2, 6, 0, 3, 5)
    out = torch.full((5, 3, size), 7.0, dtype=dtype)
    merge_parts(parts, tops, tokens, starts, order, out)
    expected = merge_parts_reference(parts, tops, tokens, starts, order)
    assert float((out[[3, 0]].double() - expected).abs().max()) <= ALLOWED[dtype]
    assert bool((out[[1, 2, 4]] == 7.0).all())


def test_what_nobody_sees_is_zero_and_a_fault_stays() -> None:
    parts, tops = torch.zeros(2, 2, 4), torch.full((2, 2), -torch.inf)
    parts[1, 1], tops[1, 1] = torch.nan, torch.nan
    out = torch.empty(1, 2, 4)
    merge_parts(parts, tops, index(0), index(0, 2), index(0, 1), out)
    assert not out[0, 0].any() and bool(out[0, 1].isnan().all())


def test_a_token_without_parts_keeps_its_row() -> None:
    """Padding of a captured step: it names a row that others fill."""
    parts, tops, out = torch.ones(1, 2, 4), torch.zeros(1, 2), torch.full((2, 2, 4), 7.0)
    merge_parts(parts, tops, index(1, 0, 0), index(0, 1, 1, 1), index(0), out)
    assert bool((out[0] == 7.0).all()) and bool((out[1] == 1.0).all())


def test_no_tokens_and_bad_tensors() -> None:
    parts, tops, out = torch.zeros(2, 2, 4), torch.zeros(2, 2), torch.ones(1, 2, 4)
    merge_parts(parts[:0], tops[:0], index(), index(0), index(), out)
    assert bool((out == 1).all())
    for wrong, said in (
        ((parts, tops[:1], index(0), index(0, 2), index(0, 1), out), "parts"),
        ((parts, tops, index(0), index(0), index(0, 1), out), "starts"),
        ((parts, tops, index(0), index(0, 2), index(0, 1).long(), out), "order is torch.int64"),
    ):
        with pytest.raises(AssertionError, match=said):
            merge_parts(*wrong)
