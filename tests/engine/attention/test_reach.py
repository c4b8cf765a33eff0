"""Chunks, sinks and temperatures: the fast way against the dense definition, and rows against themselves elsewhere."""

import math

import numpy as np
import pytest
import torch

from evalcard_engine.attention import cpu, torch_ref
from evalcard_engine.attention.blocks import read_blocks
from evalcard_engine.attention.plan import block_table, geometry
from evalcard_engine.attention.reach import Chunked, first_seen
from evalcard_engine.attention.temperature import Temperature
from evalcard_engine.batch import Batch, Span
from evalcard_engine.cache.pool import KVPool, KVShape

LENGTHS = [(0, 1), (255, 1), (256, 1), (250, 13), (0, 257), (511, 2), (700, 31), (0, 600)]
"""(context, query) tokens of sequences, on both sides of every chunk and block below."""


def make_pool(num_pages: int, page_size: int) -> KVPool:
    pool = KVPool([KVShape(2, 48, 32)], num_pages, page_size, torch.float32, "cpu")
    for pages in (pool.keys[0], pool.values[0]):
        pages.normal_(generator=torch.Generator().manual_seed(2))
    return pool


def lay_out(page_size: int) -> tuple[list[Span], int]:
    counts = [-(-(context + query) // page_size) for context, query in LENGTHS]
    order = torch.randperm(sum(counts), generator=torch.Generator().manual_seed(3)).tolist()
    spans, start = [], 0
    for (context, query), count in zip(LENGTHS, counts, strict=True):
        spans.append(Span(start, query, context, tuple(order.pop() for _ in range(count))))
        start += query
    return spans, sum(counts)


def run(pool: KVPool, spans: list[Span], query: torch.Tensor, reach=None, sinks=None) -> torch.Tensor:
    table = block_table(spans, pool.page_size, gather=False)
    plan = geometry(spans, table, query.shape[1], 2, reach)
    return cpu.attend(query, read_blocks(pool, 0, table), plan, 0.17, None, sinks)


def define(pool: KVPool, spans: list[Span], query: torch.Tensor, reach=None, sinks=None) -> torch.Tensor:
    zeros = torch.zeros(len(query), dtype=torch.int64)
    batch = Batch(zeros, zeros, zeros, zeros[:0], tuple(spans), pool.page_size)
    return torch_ref.attend(query, pool, 0, batch, scale=0.17, window=reach, sinks=sinks, dtype=torch.float64)


def queries(heads: int) -> torch.Tensor:
    count = sum(query for _, query in LENGTHS)
    return torch.randn(count, heads, 48, generator=torch.Generator().manual_seed(4)) * 2


@pytest.mark.parametrize("heads", [2, 6])
@pytest.mark.parametrize("page_size", [16, 256])
@pytest.mark.parametrize(
    "reach", [None, 128, Chunked(1), Chunked(100), Chunked(256), Chunked(300), Chunked(4096)], ids=str
)
@pytest.mark.parametrize("has_sinks", [False, True])
def test_equals_the_definition(heads: int, page_size: int, reach, has_sinks: bool) -> None:
    spans, num_pages = lay_out(page_size)
    pool, query = make_pool(num_pages, page_size), queries(heads)
    sinks = torch.linspace(-3.0, 9.0, heads) if has_sinks else None
    found = run(pool, spans, query, reach, sinks)
    torch.testing.assert_close(found.double(), define(pool, spans, query, reach, sinks), rtol=1e-5, atol=1e-5)
    assert has_sinks != torch.equal(found, run(pool, spans, query, reach))


@pytest.mark.parametrize("reach", [70, Chunked(100), Chunked(300)], ids=str)
def test_a_row_is_the_same_in_any_company(reach) -> None:
    spans, num_pages = lay_out(256)
    pool, sinks = make_pool(num_pages, 256), torch.tensor([-1.0, 0.0, 1.0, 2.0, 3.0, 30.0])
    *others, long = spans
    query = torch.randn(600, 6, 48, generator=torch.Generator().manual_seed(5))
    whole = run(pool, [Span(0, 600, 0, long.pages)], query, reach, sinks)
    for start, stop in ((0, 1), (1, 4), (4, 255), (95, 105), (255, 258), (299, 302), (599, 600)):
        company = [Span(0, 1, 255, others[1].pages), Span(1, 31, 700, others[6].pages)]
        packed = torch.cat((query[:32], query[start:stop]))
        found = run(pool, [*company, Span(32, stop - start, start, long.pages)], packed, reach, sinks)
        assert torch.equal(found[32:], whole[start:stop]), (start, stop)


def test_a_sink_takes_its_share_and_nothing_else() -> None:
    """One key alone: its weight is e^s / (e^s + e^t)."""
    pool = make_pool(1, 256)
    query = torch.randn(1, 2, 48, generator=torch.Generator().manual_seed(6))
    sinks = torch.tensor([0.5, -2.0])
    found = run(pool, [Span(0, 1, 0, (0,))], query, sinks=sinks)[0]
    for head in range(2):
        score = 0.17 * float(query[0, head] @ pool.keys[0][0, head, 0])
        share = 1 / (1 + math.exp(float(sinks[head]) - score))
        torch.testing.assert_close(found[head], share * pool.values[0][0, head, 0])


def test_a_sink_far_above_or_below_every_score_stays_finite() -> None:
    spans, num_pages = lay_out(256)
    pool, query = make_pool(num_pages, 256), queries(2)
    found = run(pool, spans, query, sinks=torch.tensor([1e4, -1e4]))
    assert not found[:, 0].any()
    assert torch.equal(found[:, 1], run(pool, spans, query)[:, 1])


def test_first_seen_by_hand() -> None:
    positions = np.array([0, 4, 5, 9, 10])
    assert first_seen(positions, Chunked(5)).tolist() == [0, 0, 5, 5, 10]
    assert first_seen(torch.from_numpy(positions), 3).tolist() == [-2, 2, 3, 7, 8]


def test_temperature_goes_by_position_alone() -> None:
    """The formula as Llama 4's own code has it, for positions in any order."""
    positions = torch.tensor([8190, 8191, 0, 16383, 131071, 8191])
    wanted = torch.log1p(torch.floor((positions.float() + 1) / 8192)) * 0.1 + 1
    found = Temperature(0.1, 8192).factors(positions)
    torch.testing.assert_close(found, wanted, rtol=1e-7, atol=0)
    assert found[0] == 1 and found[1] == found[5] > 1
    assert torch.equal(Temperature(0.1, 8192).factors(positions[3:4]), found[3:4])
