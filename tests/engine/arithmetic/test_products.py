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
    assert products.exact_widths(torch.float32, 2, (64, 64))[-1] == 256

    def halves(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        middle = left.shape[2] // 2
        return torch.bmm(left[..., :middle], right[:, :middle]) + torch.bmm(left[..., middle:], right[:, middle:])

    products.exact_widths.cache_clear()
    monkeypatch.setattr(products, "batched_product", halves)
    assert products.exact_widths(torch.float32, 2, (64, 64)) == (256,)
    products.exact_widths.cache_clear()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("kv_heads", "size"), [(1, 32), (2, 80), (3, 64), (8, 128)])
def test_fused_attention_is_right_and_keeps_rows_apart(dtype, kv_heads: int, size: int, restore_threads) -> None:
    if not products.fused_serves(dtype, kv_heads, (size, size)):
        pytest.skip("no exact fused attention on this machine")
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(1, kv_heads, 800, size, generator=generator).to(dtype)
    keys, values = (torch.randn(1, kv_heads, 200, size, generator=generator).to(dtype) for _ in range(2))
    mask = torch.zeros(800, 200).masked_fill_(torch.rand(800, 200, generator=generator) < 0.3, -1e30)
    torch.set_num_threads(2)
    out, log_sum = products.fused_block(rows, keys, values, 0.1, mask)
    scores = rows.double() @ keys.double().transpose(2, 3) * 0.1 + mask
    bound = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(out.double(), torch.softmax(scores, -1) @ values.double(), rtol=bound, atol=bound)
    torch.testing.assert_close(log_sum[..., 0].double(), torch.logsumexp(scores, -1), rtol=1e-5, atol=1e-5)
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for start, stop in ((0, 8), (3, 43), (8, 208), (0, 792)):
            part = products.fused_block(rows[:, :, start:stop], keys, values, 0.1, mask[start:stop])
            assert torch.equal(part[0], out[:, :, start:stop]) and torch.equal(part[1], log_sum[:, :, start:stop])


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (lambda rows, mask: 1e-3 * rows.shape[2], "row count"),
        (lambda rows, mask: 1e-3 * (mask is not None), "row count"),
        (lambda rows, mask: 1e-3 * torch.get_num_threads(), "thread count"),
        (lambda rows, mask: 1e-3 * rows.shape[1], "batch"),
    ],
)
def test_self_test_finds_fused_attention_that_mixes_rows(fault, words: str, monkeypatch, restore_threads) -> None:
    torch.set_num_threads(2)
    honest = products.fused_block

    def crooked(rows, keys, values, scale, mask):
        out, log_sum = honest(rows, keys, values, scale, mask)
        return out + fault(rows, mask), log_sum

    assert products._fused_faults(torch.float32, 2, 64) == []
    monkeypatch.setattr(products, "fused_block", crooked)
    assert words in products._fused_faults(torch.float32, 2, 64)[0]


def test_heads_that_fused_attention_does_not_take_are_left_to_products() -> None:
    assert not products.fused_serves(torch.float32, 2, (80, 48))
    assert not products.fused_serves(torch.float16, 2, (64, 64))
