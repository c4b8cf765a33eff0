"""The integer product: exact, also where torch's own is not."""

import pytest
import torch
import torch.nn.functional as F

from evalcard_engine.arithmetic import int8


@pytest.mark.parametrize(("rows", "width", "out"), [(1, 1, 1), (2, 33, 7), (17, 576, 192), (0, 8, 8), (3, 8192, 8)])
def test_int8_product_is_exact(rows: int, width: int, out: int) -> None:
    generator = torch.Generator().manual_seed(0)
    left = torch.randint(-128, 128, (rows, width), dtype=torch.int8, generator=generator)
    right = torch.randint(-128, 128, (width, out), dtype=torch.int8, generator=generator)
    for found in (int8.int8_product(left, right), int8.int8_product(left, right.t().contiguous().t())):
        assert found.dtype == torch.int32
        assert torch.equal(found.long(), left.long() @ right.long())


def test_int8_product_at_its_extremes() -> None:
    low = torch.full((4, 8192), -128, dtype=torch.int8)
    for right in (low.t().contiguous(), low.t()):
        assert int(int8.int8_product(low, right)[0, 0]) == 128 * 128 * 8192


@pytest.fixture
def saturating(monkeypatch: pytest.MonkeyPatch):
    """A machine whose integer product saturates the sum of two neighbouring products at 16 bits."""

    def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        left, right = (F.pad(part, pad).long() for part, pad in ((left, (0, 1)), (right, (0, 0, 0, 1))))
        even = left.shape[1] // 2 * 2
        pairs = left[:, :even, None] * right[None, :even]
        sums = pairs.view(left.shape[0], even // 2, 2, -1).sum(2).clamp(-(2**15), 2**15 - 1)
        return sums.sum(1).int()

    monkeypatch.setattr(torch, "_int_mm", product)
    int8.int8_serves.cache_clear()
    yield
    monkeypatch.undo()
    int8.int8_serves.cache_clear()


def test_an_integer_product_that_saturates_is_found_and_not_used(saturating) -> None:
    assert not int8.int8_serves()
    low = torch.full((4, 8192), -128, dtype=torch.int8)
    assert int(int8.int8_product(low, low.t().contiguous())[0, 0]) == 128 * 128 * 8192
    generator = torch.Generator().manual_seed(0)
    left = torch.randint(-128, 128, (17, 3001), dtype=torch.int8, generator=generator)
    right = torch.randint(-128, 128, (3001, 9), dtype=torch.int8, generator=generator)
    assert torch.equal(int8.int8_product(left, right).long(), left.long() @ right.long())


def test_this_machines_integer_product_serves() -> None:
    assert int8.int8_serves()
