"""Batched products whose rows keep to themselves, and the tests that say so."""

import pytest
import torch

from evalcard_engine.arithmetic import products


@pytest.fixture
def restore_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("kv_heads", "size"), [(1, 32), (1, 64), (2, 80), (3, 64), (8, 96), (5, 128), (1, 256)])
def test_batched_product_keeps_rows_apart(kv_heads: int, size: int, restore_threads) -> None:
    """Row counts, starts, batches, threads and odd addresses, for both products of attention."""
    generator = torch.Generator().manual_seed(0)
    for inner, outer in ((size, 256), (256, size)):
        left = torch.randn(kv_heads, 392, inner, generator=generator)
        odd = torch.randn(kv_heads * outer * inner + 3, generator=generator)[3:].view(kv_heads, outer, inner)
        torch.set_num_threads(2)
        whole = products.batched_product(left, odd.transpose(1, 2))
        right = odd.clone().transpose(1, 2)
        for threads in (1, 2):
            torch.set_num_threads(threads)
            for rows in (8, 16, 24, 40, 64, 104, 200, 392):
                start = (392 - rows) // 16 * 8
                part = products.batched_product(left[:, start : start + rows], right)
                assert torch.equal(part, whole[:, start : start + rows]), (threads, rows)
            alone = products.batched_product(left[:1, :8], right[:1])
            assert torch.equal(alone, whole[:1, :8]), threads


def test_batched_product_refuses_part_of_a_tile() -> None:
    with pytest.raises(AssertionError):
        products.batched_product(torch.zeros(1, 7, 4), torch.zeros(1, 4, 4))


def test_self_test_finds_a_product_that_mixes_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = products.batched_product
    monkeypatch.setattr(products, "batched_product", lambda a, b: honest(a, b) * (1 + 1e-5 * a.shape[1]))
    assert "row count" in products.product_faults(2, (64, 64))[0]


def test_self_test_finds_a_product_that_rounds_rows_by_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = products.batched_product

    def crooked(a, b):
        return honest(a, b) * (1 + 1e-5 * (torch.arange(a.shape[1]) % 8)[:, None])

    monkeypatch.setattr(products, "batched_product", crooked)
    assert "place in a tile" in products.product_faults(2, (64, 64))[0]


def test_self_test_finds_a_thread_that_rounds_differently(monkeypatch: pytest.MonkeyPatch, restore_threads) -> None:
    torch.set_num_threads(2)
    honest = products.batched_product
    monkeypatch.setattr(products, "batched_product", lambda a, b: honest(a, b) + 1e-4 * torch.get_num_threads())
    assert "thread count" in products.product_faults(2, (64, 64))[0]
    assert torch.get_num_threads() == 2


def test_widths_at_which_a_product_rounds_differently_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product that adds its terms in two halves is right only where the halves are the same."""
    products.exact_widths.cache_clear()
    assert products.exact_widths(2, (64, 64))[-1] == 256

    def halves(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        middle = left.shape[2] // 2
        return torch.bmm(left[..., :middle], right[:, :middle]) + torch.bmm(left[..., middle:], right[:, middle:])

    products.exact_widths.cache_clear()
    monkeypatch.setattr(products, "batched_product", halves)
    assert products.exact_widths(2, (64, 64)) == (256,)
    products.exact_widths.cache_clear()
