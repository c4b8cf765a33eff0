"""The CPU's attention against the dense float64 definition, and a row against itself in other company."""

import pytest
import torch

from evalcard_engine.arithmetic.products import exact_widths
from evalcard_engine.attention import cpu, strips, torch_ref
from evalcard_engine.attention.blocks import read_blocks
from evalcard_engine.attention.plan import block_table, geometry
from evalcard_engine.batch import Batch, Span
from evalcard_engine.cache.kv_codes import KVCodes
from evalcard_engine.cache.pool import KVPool, KVShape

SHAPES = [(1, 1, 32, 32), (9, 3, 64, 64), (4, 2, 80, 48), (12, 1, 96, 96), (8, 8, 128, 128), (3, 3, 256, 256)]
"""(heads, kv_heads, key_size, value_size)"""


DTYPES = [torch.float32, torch.bfloat16]


def make_pool(shape: tuple[int, int, int, int], num_pages: int, page_size: int, dtype=torch.float32) -> KVPool:
    _, kv_heads, key_size, value_size = shape
    pool = KVPool([KVShape(kv_heads, key_size, value_size)], num_pages, page_size, dtype, "cpu")
    generator = torch.Generator().manual_seed(2)
    pool.keys[0].normal_(generator=generator)
    pool.values[0].normal_(generator=generator)
    return pool


CODED = [KVCodes("fp8_e4m3", 0.125, 0.25), KVCodes("int8")]


def coded_pool(shape: tuple[int, int, int, int], num_pages: int, page_size: int, codes: KVCodes) -> KVPool:
    """The numbers of `make_pool`, slot by slot as codes."""
    plain = make_pool(shape, num_pages, page_size)
    pool = KVPool([KVShape(*shape[1:])], num_pages, page_size, torch.float32, "cpu", [codes])
    numbers = [pages.transpose(1, 2).flatten(0, 1) for pages in (plain.keys[0], plain.values[0])]
    pool.write(0, pool.slot_rows(torch.arange(num_pages * page_size)), *numbers)
    return pool


def make_batch(spans: list[Span], page_size: int) -> Batch:
    """Attention reads the spans alone, so ids and slots may be anything."""
    zeros = torch.zeros(sum(span.query_len for span in spans), dtype=torch.int64)
    return Batch(zeros, zeros, zeros, zeros[:0], tuple(spans), page_size)


def run(
    pool: KVPool,
    spans: list[Span],
    query: torch.Tensor,
    window=None,
    softcap=None,
    gather=False,
    widths=None,
    strips=True,
) -> torch.Tensor:
    kv_heads = pool.keys[0].shape[1]
    table = block_table(spans, pool.page_size, gather)
    if widths is None:
        dtype = torch.float32 if pool.is_coded else pool.dtype
        widths = exact_widths(dtype, kv_heads, (pool.keys[0].shape[-1], pool.values[0].shape[-1]))
    plan = geometry(spans, table, query.shape[1], kv_heads, window, widths, strips and not pool.is_coded)
    return cpu.attend(query, read_blocks(pool, 0, table), plan, 0.17, softcap)


def lay_out(lengths: list[tuple[int, int]], page_size: int) -> tuple[list[Span], int]:
    """Spans of (context_len, query_len) on pages in a scattered order; also how many pages they need."""
    counts = [-(-(context + query) // page_size) for context, query in lengths]
    order = torch.randperm(sum(counts), generator=torch.Generator().manual_seed(3)).tolist()
    spans, start = [], 0
    for (context, query), count in zip(lengths, counts, strict=True):
        spans.append(Span(start, query, context, tuple(order.pop() for _ in range(count))))
        start += query
    return spans, sum(counts)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("page_size", "window", "softcap"),
    [(256, None, None), (256, 100, None), (16, None, 5.0), (4, 3, None), (256, 1, 2.0)],
)
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.bfloat16, 3e-2)])
def test_equals_the_definition(shape, page_size: int, window: int | None, softcap, dtype, bound: float) -> None:
    """bfloat16 rounds a block's weights and its average to eight bits each."""
    spans, num_pages = lay_out([(0, 1), (255, 1), (256, 1), (250, 13), (0, 257), (511, 2), (100, 31)], page_size)
    pool = make_pool(shape, num_pages, page_size, dtype)
    query = (torch.randn(306, shape[0], shape[2], generator=torch.Generator().manual_seed(4)) * 2).to(dtype)
    found = run(pool, spans, query, window, softcap)
    expected = torch_ref.attend(
        query,
        pool,
        0,
        make_batch(spans, page_size),
        scale=0.17,
        window=window,
        softcap=softcap,
        dtype=torch.float64,
    )
    torch.testing.assert_close(found.double(), expected, rtol=bound, atol=bound)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("window", [None, 70])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_is_the_same_in_any_company(shape, window: int | None, dtype) -> None:
    """All queries of a long sequence at once, against cuts at odd places and single tokens among other sequences."""
    (long, *others), num_pages = lay_out([(0, 600), (30, 1), (299, 1), (700, 5)], 256)
    pool = make_pool(shape, num_pages, 256, dtype)
    query = (torch.randn(600, shape[0], shape[2], generator=torch.Generator().manual_seed(4)) * 2).to(dtype)
    whole = run(pool, [long], query, window)
    for start, stop in ((0, 1), (1, 4), (4, 255), (255, 258), (258, 599), (599, 600)):
        here = Span(7, stop - start, start, long.pages)
        company = [Span(0, 1, 30, others[0].pages), Span(1, 1, 299, others[1].pages), Span(2, 5, 700, others[2].pages)]
        packed = torch.cat((query[:7], query[start:stop]))
        assert torch.equal(run(pool, [*company, here], packed, window)[7:], whole[start:stop]), (start, stop)
        assert torch.equal(run(pool, [*company, here], packed, window, gather=True)[7:], whole[start:stop])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("window", "softcap"), [(None, None), (300, None), (70, 5.0), (1, None)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_keys_that_no_row_may_see_change_no_bit_where_they_are_left_out(shape, window, softcap, dtype) -> None:
    spans, num_pages = lay_out([(0, 600), (256, 1), (319, 80), (383, 2), (600, 130)], 256)
    pool = make_pool(shape, num_pages, 256, dtype)
    query = (torch.randn(813, shape[0], shape[2], generator=torch.Generator().manual_seed(4)) * 2).to(dtype)
    widths = exact_widths(dtype, shape[1], shape[2:])
    assert torch.equal(*(run(pool, spans, query, window, softcap, widths=some) for some in (widths, (256,))))


@pytest.mark.parametrize("shape", [(1, 1, 32, 32), (9, 3, 64, 64), (4, 2, 80, 48), (8, 8, 128, 128), (8, 1, 64, 96)])
@pytest.mark.parametrize("softcap", [None, 5.0])
@pytest.mark.parametrize("most_entries", [6, 1000])
@pytest.mark.parametrize("dtype", DTYPES)
def test_strips_give_what_waves_give(shape, softcap, most_entries: int, dtype, monkeypatch) -> None:
    """Answers on pages of their own, side by side and scattered, beside prompts and answers that share a page."""
    monkeypatch.setattr(strips, "ENTRY_BYTES", most_entries * shape[1] * 8 * 256 * 4)
    lengths = [(700, 1), (1030, 1), (256, 1), (255, 1), (511, 1), (1500, 1), (0, 40), (300, 30), (831, 1)]
    spans, num_pages = lay_out(lengths, 256)
    count = sum(span.query_len for span in spans)
    beside = Span(count, 1, 1100, tuple(range(num_pages, num_pages + 5)))
    shared = [Span(count + 1 + n, 1, 600 + n, (beside.pages[0], num_pages + 5 + n, n)) for n in range(2)]
    other = Span(count + 3, 1, 1000, tuple(range(num_pages + 7, num_pages + 11)))
    spans = [*spans, beside, *shared, other]
    pool = make_pool(shape, num_pages + 11, 256, dtype)
    query = (torch.randn(count + 4, shape[0], shape[2], generator=torch.Generator().manual_seed(4)) * 2).to(dtype)
    found, waves = (run(pool, spans, query, softcap=softcap, strips=are) for are in (True, False))
    assert torch.equal(found, waves)


def test_decoding_on_own_pages_and_on_one_shared_page() -> None:
    """Rows that meet the same page are multiplied in one call; alone they must be equal."""
    shape = (6, 3, 64, 64)
    pool = make_pool(shape, 41, 256)
    query = torch.randn(20, 6, 64, generator=torch.Generator().manual_seed(4))
    own = [Span(i, 1, 300 + i, (2 * i, 2 * i + 1)) for i in range(20)]
    shared = [Span(i, 1, 300 + i, (40, 2 * i)) for i in range(20)]
    for spans in (own, shared):
        together = run(pool, spans, query)
        for i, span in enumerate(spans):
            alone = Span(0, 1, span.context_len, span.pages)
            assert torch.equal(run(pool, [alone], query[i : i + 1])[0], together[i]), i


def test_what_lies_beyond_the_end_is_not_read_when_blocks_are_cleaned() -> None:
    spans, num_pages = lay_out([(299, 1), (0, 5)], 256)
    pool = make_pool((4, 2, 64, 64), num_pages, 256)
    query = torch.randn(6, 4, 64, generator=torch.Generator().manual_seed(4))
    clean = run(pool, spans, query)
    pool.keys[0][spans[0].pages[1], :, 44:] = torch.nan
    pool.values[0][spans[1].pages[0], :, 5:] = torch.inf
    assert torch.equal(run(pool, spans, query, gather=True), clean)


def test_large_scores_do_not_overflow() -> None:
    spans, num_pages = lay_out([(0, 300)], 256)
    pool = make_pool((2, 1, 64, 64), num_pages, 256)
    query = torch.randn(300, 2, 64, generator=torch.Generator().manual_seed(4)) * 1e4
    found = run(pool, spans, query)
    expected = torch_ref.attend(query, pool, 0, make_batch(spans, 256), scale=0.17, dtype=torch.float64)
    assert bool(torch.isfinite(found).all())
    torch.testing.assert_close(found.double(), expected, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("codes", CODED, ids=str)
@pytest.mark.parametrize(("page_size", "window"), [(256, None), (256, 100), (16, None), (4, 3)])
def test_codes_are_attended_to_as_the_numbers_they_stand_for(codes: KVCodes, page_size: int, window) -> None:
    spans, num_pages = lay_out([(0, 1), (256, 1), (250, 13), (0, 257), (100, 31)], page_size)
    pool = coded_pool((4, 2, 80, 48), num_pages, page_size, codes)
    numbers = KVPool([KVShape(2, 80, 48)], num_pages, page_size, torch.float32, "cpu")
    numbers.keys[0].copy_(pool.read_keys(0, torch.arange(num_pages)))
    numbers.values[0].copy_(pool.read_values(0, torch.arange(num_pages)))
    query = torch.randn(303, 4, 80, generator=torch.Generator().manual_seed(4)) * 2
    found = run(pool, spans, query, window)
    assert torch.equal(found, run(numbers, spans, query, window))
    batch = make_batch(spans, page_size)
    expected = torch_ref.attend(query, pool, 0, batch, scale=0.17, window=window, dtype=torch.float64)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("codes", CODED, ids=str)
def test_a_row_over_codes_is_the_same_in_any_company(codes: KVCodes) -> None:
    (long, other), num_pages = lay_out([(0, 600), (299, 1)], 256)
    pool = coded_pool((9, 3, 64, 64), num_pages, 256, codes)
    query = torch.randn(600, 9, 64, generator=torch.Generator().manual_seed(4)) * 2
    whole = run(pool, [long], query)
    for start, stop in ((0, 1), (4, 255), (255, 258), (599, 600)):
        here = Span(1, stop - start, start, long.pages)
        packed = torch.cat((query[:1], query[start:stop]))
        for gather in (False, True):
            found = run(pool, [Span(0, 1, 299, other.pages), here], packed, gather=gather)
            assert torch.equal(found[1:], whole[start:stop]), (start, stop, gather)


@pytest.mark.parametrize("codes", CODED, ids=str)
def test_codes_beyond_the_end_are_not_read_when_blocks_are_cleaned(codes: KVCodes) -> None:
    spans, num_pages = lay_out([(299, 1), (0, 5)], 256)
    pool = coded_pool((4, 2, 64, 64), num_pages, 256, codes)
    query = torch.randn(6, 4, 64, generator=torch.Generator().manual_seed(4))
    clean = run(pool, spans, query)
    slots = torch.tensor([spans[0].pages[1] * 256 + 44, spans[1].pages[0] * 256 + 5])
    bad = torch.full((2, 2, 64), torch.nan)
    pool.write(0, pool.slot_rows(slots), bad, bad)
    assert bool(run(pool, spans, query).isnan().any())
    assert torch.equal(run(pool, spans, query, gather=True), clean)
