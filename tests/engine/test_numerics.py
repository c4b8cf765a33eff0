"""Products whose rows keep to themselves, the self-test that says so, and the string that names it."""

import pytest
import torch
import torch.nn.functional as F

from evalcard_engine import numerics


@pytest.fixture
def restore_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("pack", [numerics._pack, numerics._keep], ids=["onednn", "tiles"])
@pytest.mark.parametrize(("width", "out"), [(576, 192), (33, 7), (1000, 1001), (64, 1)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_linear_is_right_and_keeps_rows_apart(pack, width: int, out: int, has_bias: bool, restore_threads) -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(out, width, generator=generator)
    bias = torch.randn(out, generator=generator) if has_bias else None
    x = torch.randn(260, width, generator=generator)
    packed = pack(weight)
    torch.set_num_threads(2)
    whole = numerics.linear(x, packed, bias)
    exact = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    torch.testing.assert_close(whole.double(), exact, rtol=1e-5, atol=1e-5 * width**0.5)
    torch.set_num_threads(1)
    for rows in (0, 1, 2, 3, 5, 8, 31, 33, 64, 129):
        for start in (0, 1, 100):
            part = numerics.linear(x[start : start + rows], packed, bias)
            assert torch.equal(part, whole[start : start + rows]), (rows, start)


def test_linear_keeps_leading_dimensions() -> None:
    packed = numerics.pack_linear(torch.eye(3))
    x = torch.arange(12.0).view(1, 4, 3)
    assert torch.equal(numerics.linear(x, packed, None), x)


@pytest.mark.parametrize(("kv_heads", "size"), [(1, 32), (1, 64), (2, 80), (3, 64), (8, 96), (5, 128), (1, 256)])
def test_batched_product_keeps_rows_apart(kv_heads: int, size: int, restore_threads) -> None:
    """Row counts, starts, batches, threads and odd addresses, for both products of attention."""
    generator = torch.Generator().manual_seed(0)
    for inner, outer in ((size, 256), (256, size)):
        left = torch.randn(kv_heads, 392, inner, generator=generator)
        odd = torch.randn(kv_heads * outer * inner + 3, generator=generator)[3:].view(kv_heads, outer, inner)
        torch.set_num_threads(2)
        whole = numerics.batched_product(left, odd.transpose(1, 2))
        right = odd.clone().transpose(1, 2)
        for threads in (1, 2):
            torch.set_num_threads(threads)
            for rows in (8, 16, 24, 40, 64, 104, 200, 392):
                start = (392 - rows) // 16 * 8
                part = numerics.batched_product(left[:, start : start + rows], right)
                assert torch.equal(part, whole[:, start : start + rows]), (threads, rows)
            alone = numerics.batched_product(left[:1, :8], right[:1])
            assert torch.equal(alone, whole[:1, :8]), threads


def test_batched_product_refuses_part_of_a_tile() -> None:
    with pytest.raises(AssertionError):
        numerics.batched_product(torch.zeros(1, 7, 4), torch.zeros(1, 4, 4))


@pytest.mark.parametrize(("rows", "width", "out"), [(1, 1, 1), (2, 33, 7), (17, 576, 192), (0, 8, 8), (3, 8192, 8)])
def test_int8_product_is_exact(rows: int, width: int, out: int) -> None:
    generator = torch.Generator().manual_seed(0)
    left = torch.randint(-128, 128, (rows, width), dtype=torch.int8, generator=generator)
    right = torch.randint(-128, 128, (width, out), dtype=torch.int8, generator=generator)
    for found in (numerics.int8_product(left, right), numerics.int8_product(left, right.t().contiguous().t())):
        assert found.dtype == torch.int32
        assert torch.equal(found.long(), left.long() @ right.long())


def test_int8_product_at_its_extremes() -> None:
    low = torch.full((4, 8192), -128, dtype=torch.int8)
    for right in (low.t().contiguous(), low.t()):
        assert int(numerics.int8_product(low, right)[0, 0]) == 128 * 128 * 8192


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
    numerics.int8_serves.cache_clear()
    yield
    monkeypatch.undo()
    numerics.int8_serves.cache_clear()


def test_an_integer_product_that_saturates_is_found_and_not_used(saturating) -> None:
    assert not numerics.int8_serves()
    low = torch.full((4, 8192), -128, dtype=torch.int8)
    assert int(numerics.int8_product(low, low.t().contiguous())[0, 0]) == 128 * 128 * 8192
    generator = torch.Generator().manual_seed(0)
    left = torch.randint(-128, 128, (17, 3001), dtype=torch.int8, generator=generator)
    right = torch.randint(-128, 128, (3001, 9), dtype=torch.int8, generator=generator)
    assert torch.equal(numerics.int8_product(left, right).long(), left.long() @ right.long())


def test_this_machines_integer_product_serves() -> None:
    assert numerics.int8_serves()


def test_self_test_finds_a_linear_that_mixes_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check must be able to fail: a linear that adds the number of rows is caught, and the string says so."""
    honest = numerics.linear
    monkeypatch.setattr(numerics, "linear", lambda x, weight, bias: honest(x, weight, bias) + 1e-3 * x.shape[0])
    faults = numerics._linear_faults(torch.float32, numerics._keep)
    assert faults and "row count" in faults[0]
    assert "rows inexact" in numerics.describe("cpu", torch.float32, tuple(faults))


def test_self_test_finds_a_product_that_mixes_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = numerics.batched_product
    monkeypatch.setattr(numerics, "batched_product", lambda a, b: honest(a, b) * (1 + 1e-5 * a.shape[1]))
    assert "row count" in numerics._product_faults(2, (64, 64))[0]


def test_self_test_finds_a_product_that_rounds_rows_by_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = numerics.batched_product

    def crooked(a, b):
        return honest(a, b) * (1 + 1e-5 * (torch.arange(a.shape[1]) % 8)[:, None])

    monkeypatch.setattr(numerics, "batched_product", crooked)
    assert "place in a tile" in numerics._product_faults(2, (64, 64))[0]


def test_self_test_finds_routing_that_mixes_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert numerics.routing_faults(60, 4) == ()
    honest = torch.softmax
    monkeypatch.setattr(torch, "softmax", lambda x, dim: honest(x, dim) + 1e-4 * x.shape[0])
    assert "60 experts" in numerics.routing_faults(60, 4)[0]


def test_self_test_finds_a_thread_that_rounds_differently(monkeypatch: pytest.MonkeyPatch, restore_threads) -> None:
    torch.set_num_threads(2)
    honest = numerics.batched_product
    monkeypatch.setattr(numerics, "batched_product", lambda a, b: honest(a, b) + 1e-4 * torch.get_num_threads())
    assert "thread count" in numerics._product_faults(2, (64, 64))[0]
    assert torch.get_num_threads() == 2


def test_this_machine_is_in_the_table_and_its_name_is_stable() -> None:
    assert numerics.cpu_plan() is numerics.CPU_PLANS[numerics.cpu_features()]
    first = numerics.describe("cpu", torch.float32, numerics.self_test(torch.float32, 3, (64, 64)))
    numerics.self_test.cache_clear()
    numerics.onednn_serves.cache_clear()
    again = numerics.describe("cpu", torch.float32, numerics.self_test(torch.float32, 3, (64, 64)))
    assert first == again
    assert f"torch {torch.__version__}" in first and numerics.cpu_features() in first


@pytest.mark.parametrize(
    ("capability", "probes", "name"),
    [
        ("AVX2", {}, "avx2"),
        ("DEFAULT", {}, "base"),
        ("AVX512", {}, "avx512"),
        ("AVX512", {"_is_vnni_supported": True}, "avx512+vnni"),
        ("AVX512", {"_is_vnni_supported": True, "_is_avx512_bf16_supported": True}, "avx512_bf16+vnni"),
        ("AVX512", {"_is_amx_tile_supported": True, "_is_avx512_bf16_supported": True}, "amx"),
    ],
)
def test_features_by_instruction_set(monkeypatch: pytest.MonkeyPatch, capability: str, probes, name: str) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(numerics, "_has", lambda *names: any(probes.get(probe) for probe in names))
    numerics.cpu_features.cache_clear()
    try:
        assert numerics.cpu_features() == name and name in numerics.CPU_PLANS
    finally:
        numerics.cpu_features.cache_clear()


def test_widths_at_which_a_product_rounds_differently_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product that adds its terms in two halves is right only where the halves are the same."""
    numerics.exact_widths.cache_clear()
    assert numerics.exact_widths(2, (64, 64))[-1] == 256

    def halves(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        middle = left.shape[2] // 2
        return torch.bmm(left[..., :middle], right[:, :middle]) + torch.bmm(left[..., middle:], right[:, middle:])

    numerics.exact_widths.cache_clear()
    monkeypatch.setattr(numerics, "batched_product", halves)
    assert numerics.exact_widths(2, (64, 64)) == (256,)
    numerics.exact_widths.cache_clear()
