"""Compiled attention against the dense float64 definition, and a row against itself in other company."""

import pytest
import torch

from evalcard_engine.attention import compiled, compiled_plan, torch_ref
from evalcard_engine.attention.reach import Chunked
from evalcard_engine.batch import Batch, Span
from evalcard_engine.cache.pool import KVPool, KVShape
from evalcard_engine.quant.workspace import Workspace

SHAPES = [
    (1, 1, 32, 32),
    (9, 3, 64, 64),
    (4, 2, 80, 48),
    (12, 1, 96, 96),
    (8, 8, 128, 128),
    (3, 3, 256, 256),
    (2, 1, 7, 9),
]
"""(heads, kv_heads, key_size, value_size)"""

DTYPES = [torch.float32, torch.bfloat16]
LENGTHS = [(0, 1), (255, 1), (256, 1), (250, 13), (0, 257), (511, 2), (100, 31), (0, 700)]


@pytest.fixture(autouse=True)
def _compiler(request) -> None:
    dtype = (
        request.node.callspec.params.get("dtype", torch.float32) if hasattr(request.node, "callspec") else torch.float32
    )
    if not compiled.serves(dtype):
        pytest.skip(f"no compiled attention of {dtype}: {compiled.words(dtype)}")


def make_pool(shape: tuple[int, int, int, int], num_pages: int, page_size: int, dtype: torch.dtype) -> KVPool:
    _, kv_heads, key_size, value_size = shape
    pool = KVPool([KVShape(kv_heads, key_size, value_size)], num_pages, page_size, dtype, "cpu")
    generator = torch.Generator().manual_seed(2)
    pool.keys[0].normal_(generator=generator)
    pool.values[0].normal_(generator=generator)
    return pool


def lay_out(lengths: list[tuple[int, int]], page_size: int, shared: int = 0) -> tuple[list[Span], int]:
    """Spans of (context_len, query_len) on pages in a scattered order, the first ``shared`` pages the same for all of
    them; also how many pages they need."""
    counts = [-(-(context + query) // page_size) for context, query in lengths]
    order = torch.randperm(sum(counts) + shared, generator=torch.Generator().manual_seed(3)).tolist()
    common = [order.pop() for _ in range(shared)]
    spans, start = [], 0
    for (context, query), count in zip(lengths, counts, strict=True):
        spans.append(Span(start, query, context, (*common[:count], *(order.pop() for _ in range(count - shared)))))
        start += query
    return spans, sum(counts) + shared


def queries(shape: tuple[int, int, int, int], spans: list[Span], dtype: torch.dtype) -> torch.Tensor:
    count = sum(span.query_len for span in spans)
    return (torch.randn(count, shape[0], shape[2], generator=torch.Generator().manual_seed(4)) * 2).to(dtype)


def run(pool: KVPool, spans: list[Span], query: torch.Tensor, reach=None, softcap=None, sinks=None) -> torch.Tensor:
    plan = compiled.plan_step(spans, pool, query.shape[1], pool.keys[0].shape[1], reach)
    return compiled.attend(
        query, pool.keys[0], pool.values[0], plan, Workspace(), scale=0.17, softcap=softcap, sinks=sinks
    )


def definition(pool: KVPool, spans: list[Span], query: torch.Tensor, reach, softcap, sinks) -> torch.Tensor:
    zeros = torch.zeros(len(query), dtype=torch.int64)
    batch = Batch(zeros, zeros, zeros, zeros[:0], tuple(spans), pool.page_size)
    return torch_ref.attend(
        query, pool, 0, batch, scale=0.17, window=reach, softcap=softcap, sinks=sinks, dtype=torch.float64
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("page_size", "reach", "softcap"),
    [(256, None, None), (256, 100, None), (16, None, 5.0), (4, 3, None), (256, 1, 2.0), (256, Chunked(96), None)],
)
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 3e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("has_sinks", [False, True])
def test_equals_the_definition(shape, page_size: int, reach, softcap, dtype, bound: float, has_sinks: bool) -> None:
    """bfloat16 rounds weights and averages to eight bits each. Scores up to 30, sums of 256 products, carry 1e-5 in
    float32, which their exponentials pass on."""
    spans, num_pages = lay_out(LENGTHS, page_size)
    pool = make_pool(shape, num_pages, page_size, dtype)
    query = queries(shape, spans, dtype)
    sinks = torch.randn(shape[0], generator=torch.Generator().manual_seed(5)) * 3 if has_sinks else None
    found = run(pool, spans, query, reach, softcap, sinks)
    assert found.dtype == dtype
    torch.testing.assert_close(
        found.double(), definition(pool, spans, query, reach, softcap, sinks), rtol=bound, atol=bound
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reach", [None, 70])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_is_the_same_in_any_company(shape, reach, dtype, monkeypatch) -> None:
    """All queries of a long sequence at once, against cuts at odd places among others, larger tiles and one thread."""
    (long, *others), num_pages = lay_out([(0, 600), (30, 1), (299, 1), (700, 5)], 256)
    pool = make_pool(shape, num_pages, 256, dtype)
    query = queries(shape, [long], dtype)
    whole = run(pool, [long], query, reach)
    for start, stop in ((0, 1), (1, 4), (4, 255), (255, 258), (258, 599), (599, 600)):
        here = Span(7, stop - start, start, long.pages)
        company = [Span(0, 1, 30, others[0].pages), Span(1, 1, 299, others[1].pages), Span(2, 5, 700, others[2].pages)]
        packed = torch.cat((query[:7], query[start:stop]))
        assert torch.equal(run(pool, [*company, here], packed, reach)[7:], whole[start:stop]), (start, stop)
    monkeypatch.setattr(compiled_plan, "TILE_ROWS", 1000)
    assert torch.equal(run(pool, [long], query, reach), whole)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert torch.equal(run(pool, [long], query, reach), whole)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("page_size", [256, 16])
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_short_spans_share_changes_no_bit(shape, page_size: int, dtype) -> None:
    """Answers behind a common prefix, in one tile, against each by itself."""
    shared = 512 // page_size
    spans, num_pages = lay_out([(520, 1), (700, 2), (530, 1), (900, 1), (513, 1), (600, 1)], page_size, shared)
    pool = make_pool(shape, num_pages, page_size, dtype)
    query = queries(shape, spans, dtype)
    plan = compiled.plan_step(spans, pool, shape[0], shape[1], None)
    assert len(plan.tiles.tiles) < len(spans)
    together = run(pool, spans, query)
    for span in spans:
        place = slice(span.query_start, span.query_start + span.query_len)
        assert torch.equal(
            run(pool, [Span(0, span.query_len, span.context_len, span.pages)], query[place]), together[place]
        )


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_lies_beyond_a_sequence_is_not_read(dtype) -> None:
    """NaN behind the last token, in pages of other sequences and below the window."""
    spans, num_pages = lay_out([(300, 4), (10, 1)], 256)
    shape = SHAPES[1]
    pool = make_pool(shape, num_pages + 1, 256, dtype)
    query = queries(shape, spans, dtype)
    before = run(pool, spans, query)
    for pages in (pool.keys[0], pool.values[0]):
        pages[num_pages] = torch.nan
        pages[spans[0].pages[1], :, 304 - 256 :] = torch.nan
        pages[spans[1].pages[0], :, 11:] = torch.inf
    assert torch.equal(run(pool, spans, query), before)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_that_are_not_finite_are_not_hidden(dtype) -> None:
    """A NaN among the keys or values that a row sees shows in its average, and in no other sequence's."""
    spans, num_pages = lay_out([(300, 2), (40, 1)], 256)
    shape = SHAPES[1]
    for number in (0, 1):
        pool = make_pool(shape, num_pages, 256, dtype)
        query = queries(shape, spans, dtype)
        before = run(pool, spans, query)
        (pool.keys[0], pool.values[0])[number][spans[0].pages[0], :, 17, 3] = torch.nan
        found = run(pool, spans, query)
        assert found[:2].isnan().any(dim=-1).all() and torch.equal(found[2], before[2])


@pytest.mark.parametrize("dtype", DTYPES)
def test_queries_may_lie_in_any_order(dtype) -> None:
    spans, num_pages = lay_out(LENGTHS, 256)
    shape = SHAPES[1]
    pool, query = make_pool(shape, num_pages, 256, dtype), queries(SHAPES[1], spans, dtype)
    turned = query.transpose(0, 1).contiguous().transpose(0, 1)
    scattered = query.transpose(1, 2).contiguous().transpose(1, 2)
    assert not turned.is_contiguous() and scattered.stride(-1) != 1
    assert torch.equal(run(pool, spans, turned), run(pool, spans, query))
    assert torch.equal(run(pool, spans, scattered), run(pool, spans, query))


@pytest.mark.parametrize("dtype", DTYPES)
def test_great_scores_leave_finite_averages(dtype) -> None:
    """Scores of thousands: one key takes all the weight."""
    spans, num_pages = lay_out([(0, 300)], 256)
    shape = SHAPES[1]
    pool = make_pool(shape, num_pages, 256, dtype)
    query = queries(shape, spans, dtype) * 1000
    found = run(pool, spans, query)
    assert found.isfinite().all()
    torch.testing.assert_close(found.double(), definition(pool, spans, query, None, None, None), rtol=2e-2, atol=2e-2)


def test_float16_is_not_served() -> None:
    assert not compiled.serves(torch.float16)
    assert "float16" in compiled.words(torch.float16)
