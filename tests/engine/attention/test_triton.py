"""Attention by kernels in Triton's interpreter against the dense float64 definition, and all backends as one.

kernels/test_interpreter.py runs this file, in a process where Triton interprets.
"""

import os
from dataclasses import replace

import pytest
import torch

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("run by kernels/test_interpreter.py, in a process of its own", allow_module_level=True)

from evalcard_engine.attention import torch_ref, triton
from evalcard_engine.attention.hook import Step, attend, prepare_step
from evalcard_engine.attention.rules import LayerRule
from evalcard_engine.batch import Batch, Span
from evalcard_engine.cache.kv_codes import KVCodes
from evalcard_engine.cache.pool import KVPool, KVShape

LENGTHS = [(context - 1, 1) for context in (1, 15, 16, 17, 255, 256, 257, 513)]
MIXED = [(0, 1), (254, 1), (256, 1), (250, 13), (0, 67), (512, 1)]
"""(context, query) tokens: answers beside prompts and a chunk across a block's end, neither in any order."""
ALLOWED = {torch.float32: 3e-6, torch.float16: 2**-9, torch.bfloat16: 2**-6}
"""Greatest error (found: 1.8e-6, 1.4e-3, 1.4e-2). Half precision rounds weights and result once each, by half its eps
of values that reach 4: at most 4 eps, of which we allow half."""
DTYPES = list(ALLOWED)
CODES = [KVCodes("fp8_e4m3", 0.125, 0.25), KVCodes("int8"), KVCodes("int8", 0.03, 0.04)]
SHAPES = [(2, 2, 64, 64), (3, 1, 80, 80), (8, 1, 128, 128), (3, 1, 192, 128), (6, 2, 112, 96), (1, 1, 256, 256),
          (24, 1, 16, 8)]  # fmt: skip
"""(heads, kv_heads, key_size, value_size); the last one has more heads to a key head than a small tile has rows."""
SCALE = 0.17


def lay_out(lengths: list[tuple[int, int]], page_size: int) -> tuple[list[Span], int]:
    """Spans on pages in a scattered order; also how many pages they need."""
    counts = [-(-(context + query) // page_size) for context, query in lengths]
    order = torch.randperm(sum(counts), generator=torch.Generator().manual_seed(3)).tolist()
    spans, start = [], 0
    for (context, query), count in zip(lengths, counts, strict=True):
        spans.append(Span(start, query, context, tuple(order.pop() for _ in range(count))))
        start += query
    return spans, sum(counts)


def make_pool(shape, num_pages: int, page_size: int, dtype: torch.dtype, codes: KVCodes | None = None) -> KVPool:
    """Every slot filled with random numbers, beyond the ends too."""
    _, kv_heads, *sizes = shape
    pool = KVPool([KVShape(kv_heads, *sizes)], num_pages, page_size, dtype, "cpu", None if codes is None else [codes])
    count = num_pages * page_size
    generator = torch.Generator().manual_seed(2)
    numbers = [torch.randn(count, kv_heads, size, generator=generator).to(dtype) for size in sizes]
    pool.write(0, pool.slot_rows(torch.arange(count)), *numbers)
    return pool


def make_batch(spans: list[Span], page_size: int) -> Batch:
    """Attention reads the spans alone, so ids and slots may be anything."""
    zeros = torch.zeros(sum(span.query_len for span in spans), dtype=torch.int64)
    return Batch(zeros, zeros, zeros, zeros[:0], tuple(spans), page_size)


def queries(spans: list[Span], shape, dtype: torch.dtype) -> torch.Tensor:
    """Scores with a spread of about two at any head size; heads lie outside tokens, as transformers leaves them."""
    count = sum(span.query_len for span in spans)
    made = torch.randn(shape[0], count, shape[2], generator=torch.Generator().manual_seed(4))
    return (made * (12 / shape[2] ** 0.5)).to(dtype).transpose(0, 1)


def run(pool: KVPool, spans: list[Span], query: torch.Tensor, window=None, **how) -> torch.Tensor:
    plan = triton.plan_step(spans, pool, query.shape[1], pool.keys[0].shape[1], window)
    return triton.attend(query, pool, 0, plan, scale=SCALE, **how)


def assert_right(pool: KVPool, spans: list[Span], query: torch.Tensor, window=None, **how) -> torch.Tensor:
    found = run(pool, spans, query, window, **how)
    batch = make_batch(spans, pool.page_size)
    expected = torch_ref.attend(query, pool, 0, batch, scale=SCALE, window=window, dtype=torch.float64, **how)
    error = float((found.double() - expected).abs().max())
    print(f"{query.dtype} {pool.keys[0].dtype}: {error:.1e}")
    assert found.dtype == query.dtype and error <= ALLOWED[query.dtype], error
    return found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_head_sizes_and_groups(shape, dtype: torch.dtype) -> None:
    spans, num_pages = lay_out([(0, 1), (15, 1), (250, 13), (0, 35)], 16)
    assert_right(make_pool(shape, num_pages, 16, dtype), spans, queries(spans, shape, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("page_size", [4, 16, 256])
def test_lengths_on_both_sides_of_pages_and_blocks(page_size: int, dtype: torch.dtype) -> None:
    spans, num_pages = lay_out(LENGTHS, page_size)
    pool = make_pool((2, 1, 64, 64), num_pages, page_size, dtype)
    assert_right(pool, spans, queries(spans, (2, 1, 64, 64), dtype))


@pytest.mark.parametrize(
    ("window", "dtype"),
    [*((window, torch.float32) for window in (None, 1, 3, 100, 256, 4096)), (None, torch.float16), (3, torch.bfloat16),
     (100, torch.bfloat16), (None, torch.bfloat16)],
)  # fmt: skip
def test_windows_caps_and_sinks(window: int | None, dtype: torch.dtype) -> None:
    shape = (4, 1, 16, 24)
    spans, num_pages = lay_out(MIXED, 16)
    pool, query = make_pool(shape, num_pages, 16, dtype), queries(spans, shape, dtype)
    sinks = torch.tensor([-1.0, 0.5, 2.0, 9.0]).to(dtype)
    plain = run(pool, spans, query, window)
    assert not torch.equal(assert_right(pool, spans, query, window, sinks=sinks), plain)
    capped = assert_right(pool, spans, query, window, softcap=2.0)
    assert torch.equal(capped, plain) == (window == 1)
    assert_right(pool, spans, query, window, softcap=30.0, sinks=sinks)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("codes", CODES, ids=str)
@pytest.mark.parametrize(("page_size", "window", "softcap"), [(256, None, None), (16, 100, None), (4, None, 3.0)])
def test_codes(codes: KVCodes, page_size: int, window: int | None, softcap, dtype: torch.dtype) -> None:
    shape = (3, 1, 24, 32)
    spans, num_pages = lay_out(MIXED, page_size)
    pool = make_pool(shape, num_pages, page_size, dtype, codes)
    assert_right(pool, spans, queries(spans, shape, dtype), window, softcap=softcap)


SHARED = [(512, 1, 2), (300, 1, 1), (600, 3, 2), (530, 1, 2), (700, 1, 0), (0, 19, 0)]
"""(context, query, blocks that are those of the first)."""


def share(page_size: int) -> tuple[list[Span], int]:
    spans, num_pages = lay_out([(context, query) for context, query, _ in SHARED], page_size)
    first = spans[0].pages
    counts = [blocks * 256 // page_size for *_, blocks in SHARED]
    return [replace(span, pages=first[:n] + span.pages[n:]) for span, n in zip(spans, counts, strict=True)], num_pages


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("codes", [None, CODES[1]], ids=str)
@pytest.mark.parametrize("page_size", [16, 256])
def test_shared_prefixes(page_size: int, codes: KVCodes | None, dtype: torch.dtype) -> None:
    shape = (4, 2, 32, 32)
    spans, num_pages = share(page_size)
    pool, query = make_pool(shape, num_pages, page_size, dtype, codes), queries(spans, shape, dtype)
    plan = triton.plan_step(spans, pool, 4, 2, None)
    # The first block is read by six tokens of four sequences, the second by five of three.
    readers = {(row[3], row[1]) for items in plan.items for row in items.table.tolist()}
    assert {(0, 6), (256, 5)} <= readers
    assert_right(pool, spans, query, sinks=torch.tensor([0.0, 1.0, -3.0, 4.0]))
    assert_right(pool, spans, query, softcap=3.0)


def plain_step(step: Step) -> Step:
    return replace(step, table=None, geometries=None, paged_plans=None)


@pytest.mark.parametrize("window", [None, 40])
@pytest.mark.parametrize(("softcap", "has_sinks"), [(None, False), (4.0, True)])
def test_all_backends_under_one_signature(window: int | None, softcap: float | None, has_sinks: bool) -> None:
    shape = (6, 2, 48, 32)
    spans, num_pages = lay_out(MIXED, 16)
    pool, query = make_pool(shape, num_pages, 16, torch.float32), queries(spans, shape, torch.float32)
    batch = make_batch(spans, 16)
    steps = [prepare_step(batch, pool, 6, 2, (LayerRule(window),), kernels=kernels) for kernels in (False, True)]
    steps.append(plain_step(steps[0]))
    sinks = torch.linspace(-3.0, 5.0, 6) if has_sinks else None
    found = [attend(query, step, 0, SCALE, softcap, sinks) for step in steps]
    for one in found[:2]:
        torch.testing.assert_close(one, found[2], rtol=1e-5, atol=2e-6)
    assert not torch.equal(found[0], found[1])


def test_a_row_is_the_same_in_any_company() -> None:
    """In float32, whose tiles are all alike, as long as its keys are not cut."""
    shape = (4, 2, 64, 64)
    (long, other), num_pages = lay_out([(0, 240), (29, 1)], 16)
    pool, query = make_pool(shape, num_pages, 16, torch.float32), queries([long], shape, torch.float32)
    whole = run(pool, [long], query)
    for start, stop in ((0, 1), (1, 4), (4, 239), (239, 240)):
        here = Span(1, stop - start, start, long.pages)
        found = run(pool, [Span(0, 1, 29, other.pages), here], torch.cat((query[:1], query[start:stop])))
        assert torch.equal(found[1:], whole[start:stop]), (start, stop)


@pytest.mark.parametrize("codes", [None, *CODES], ids=str)
def test_what_lies_beyond_the_end_is_not_read_and_faults_stay_where_they_are(codes: KVCodes | None) -> None:
    shape = (4, 2, 64, 64)
    spans, num_pages = lay_out([(299, 1), (0, 5), (40, 1)], 256)
    pool, query = make_pool(shape, num_pages, 256, torch.float32, codes), queries(spans, shape, torch.float32)
    clean = run(pool, spans, query)
    ends = torch.tensor([spans[0].pages[1] * 256 + 44, spans[1].pages[0] * 256 + 5])
    bad = torch.full((2, 2, 64), torch.nan)
    pool.write(0, pool.slot_rows(ends), bad, bad)
    assert torch.equal(run(pool, spans, query), clean)
    pool.write(0, pool.slot_rows(torch.tensor([spans[2].pages[0] * 256 + 7])), bad[:1], bad[:1])
    found = run(pool, spans, query)
    assert torch.equal(found[:6], clean[:6]) and bool(found[6].isnan().all())


def test_large_scores_and_far_sinks_do_not_overflow() -> None:
    shape = (2, 1, 64, 64)
    spans, num_pages = lay_out([(0, 30), (256, 1)], 16)
    pool, query = make_pool(shape, num_pages, 16, torch.float32), queries(spans, shape, torch.float32)
    found = run(pool, spans, query * 1e4)
    expected = torch_ref.attend(query * 1e4, pool, 0, make_batch(spans, 16), scale=SCALE, dtype=torch.float64)
    torch.testing.assert_close(found.double(), expected, rtol=1e-2, atol=1e-2)
    sunk = run(pool, spans, query, sinks=torch.tensor([1e4, -1e4]))
    assert not sunk[:, 0].any() and torch.equal(sunk[:, 1], run(pool, spans, query)[:, 1])
    capped = run(pool, spans, query * 1e4, softcap=3.0)
    torch.testing.assert_close(
        capped.double(),
        torch_ref.attend(query * 1e4, pool, 0, make_batch(spans, 16), scale=SCALE, softcap=3.0, dtype=torch.float64),
        rtol=1e-5, atol=2e-6,
    )  # fmt: skip


def test_a_step_without_tokens_and_a_span_without() -> None:
    shape = (2, 1, 64, 64)
    pool = make_pool(shape, 2, 16, torch.float32)
    assert run(pool, [], torch.empty(0, 2, 64)).shape == (0, 2, 64)
    query = torch.randn(1, 2, 64)
    one, none = Span(0, 1, 4, (0,)), Span(0, 0, 3, (1,))
    assert torch.equal(run(pool, [none, one], query), run(pool, [one], query))
