"""SiLU times the other half, against torch."""

from collections.abc import Callable

import pytest
import torch

from evalcard_engine.kernels.silu_mul import silu_mul, silu_mul_reference


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("width", [1, 17, 127, 1536])
def test_halves_of_one_tensor(width: int, dtype: torch.dtype, make_rows: Callable) -> None:
    both = make_rows(7, 2 * width, dtype) * 4
    gate, up = both[:, :width], both[:, width:]
    eps = torch.finfo(dtype).eps
    found = silu_mul(gate, up)
    assert found.is_contiguous() and found.dtype == dtype
    torch.testing.assert_close(found, silu_mul_reference(gate, up), rtol=2 * eps, atol=eps)


def test_far_out_and_not_finite() -> None:
    gate = torch.tensor([[-1e4, -200.0, 0.0, 200.0, 1e4, torch.inf, torch.nan]])
    found = silu_mul(gate, torch.ones_like(gate))
    torch.testing.assert_close(found, silu_mul_reference(gate, torch.ones_like(gate)), equal_nan=True)
    assert silu_mul(gate[:0], gate[:0]).shape == (0, 7)


def test_a_bad_tensor_is_named() -> None:
    with pytest.raises(AssertionError, match=r"up \(2, 3\)"):
        silu_mul(torch.zeros(2, 4), torch.zeros(2, 3))
