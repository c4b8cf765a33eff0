"""The plan of a step: every row meets every block it may see, once and in order, and reads back to its place."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcard_engine.attention.plan import MASKED, Geometry, block_table, geometry
from evalcard_engine.attention.tiles import BLOCK, CHUNK_ROWS
from evalcard_engine.batch import Span


@st.composite
def spans(draw: st.DrawFn) -> list[Span]:
    lengths = draw(st.lists(st.tuples(st.integers(0, 900), st.integers(1, 400)), min_size=1, max_size=5))
    made, start, page = [], 0, 0
    for context, query in lengths:
        count = -(-(context + query) // BLOCK)
        made.append(Span(start, query, context, tuple(range(page, page + count))))
        start, page = start + query, page + count
    return made


def seen_by_row(plan: Geometry) -> tuple[list[list[int]], torch.Tensor]:
    """For each padded row the blocks it meets, in order, and which of their keys: bool [num_rows, blocks, BLOCK]."""
    met: list[list[int]] = [[] for _ in range(plan.num_rows)]
    visible: list[list[torch.Tensor]] = [[] for _ in range(plan.num_rows)]
    for chunk in plan.chunks:
        assert chunk.stop - chunk.start <= CHUNK_ROWS
        for wave in chunk.waves:
            covered = []
            for part in wave.parts:
                mask = torch.full((part.stop - part.start, BLOCK), MASKED)
                mask[:, : part.width] = 0.0
                for product in part.products:
                    if product.mask is not None:
                        mask[product.start : product.stop, : part.width] = product.mask
                    covered += range(part.start + product.start, part.start + product.stop)
                    for row in range(product.start, product.stop):
                        met[chunk.start + part.start + row].append(product.block)
                        visible[chunk.start + part.start + row].append(mask[row] > MASKED)
            assert covered == list(range(wave.num_rows))
    return met, visible


@settings(max_examples=30, deadline=None)
@given(
    spans(),
    st.sampled_from([1, 2, 3, 7, 12]),
    st.sampled_from([None, 1, 5, 255, 256, 257, 700]),
    st.sampled_from([(BLOCK,), (64, 128, BLOCK), (8, BLOCK)]),
)
def test_every_row_sees_exactly_its_keys(
    spans: list[Span], group: int, window: int | None, widths: tuple[int, ...]
) -> None:
    kv_heads = 2
    heads = group * kv_heads
    plan = geometry(spans, block_table(spans, BLOCK, gather=False), heads, kv_heads, window, widths)
    met, visible = seen_by_row(plan)
    outputs = plan.output_rows.view(-1, heads)
    assert torch.equal(plan.query_rows[plan.output_rows], torch.arange(len(plan.output_rows)))
    for span in spans:
        for offset in {0, span.query_len // 2, span.query_len - 1}:
            for head in (0, heads - 1):
                place = int(outputs[span.query_start + offset, head])
                assert place // plan.num_rows == head // group
                row = place % plan.num_rows
                numbers = [span.pages.index(page) for page in met[row]]
                assert numbers == list(range(numbers[0], numbers[-1] + 1))
                keys = torch.cat(
                    [torch.arange(BLOCK)[keep] + BLOCK * n for n, keep in zip(numbers, visible[row], strict=True)]
                )
                at = span.context_len + offset
                first = 0 if window is None else max(0, at - window + 1)
                assert keys.tolist() == list(range(first, at + 1))


def test_sequences_that_share_a_page_share_a_product() -> None:
    spans = [Span(i, 1, 300, (9, i)) for i in range(8)]
    plan = geometry(spans, block_table(spans, BLOCK, gather=False), 3, 1, None)
    first, second = plan.chunks[0].waves
    assert [(p.start, p.stop, p.block) for p in first.parts[0].products] == [(0, 64, 9)]
    assert [(p.start, p.stop, p.block) for p in second.parts[0].products] == [(8 * i, 8 * i + 8, i) for i in range(8)]


def test_rows_early_in_their_last_block_meet_the_beginning_of_it() -> None:
    spans = [Span(0, 300, 0, (0, 1)), Span(300, 1, 600, (2, 3, 4))]
    plan = geometry(spans, block_table(spans, BLOCK, gather=False), 3, 1, None, (64, 128, BLOCK))
    assert [[[(p.start, p.stop, p.width) for p in wave.parts] for wave in chunk.waves] for chunk in plan.chunks] == [
        # The token at 600 comes first, as it has most blocks; its last one is met to the 128th key.
        [[(0, 528, 256), (528, 720, 128), (720, 912, 64)], [(0, 8, 256), (8, 144, 64)], [(0, 8, 128)]],
    ]


def test_a_few_rows_join_those_that_meet_more() -> None:
    spans = [Span(0, 100, 150, (0,)), Span(100, 1, 3, (1,))]
    plan = geometry(spans, block_table(spans, BLOCK, gather=False), 3, 1, None, (64, BLOCK))
    ((wave,),) = [chunk.waves for chunk in plan.chunks]
    assert [(p.start, p.stop, p.width) for p in wave.parts] == [(0, 312, 256)]


def test_small_pages_are_gathered_into_blocks() -> None:
    table = block_table([Span(0, 3, 8, (5, 2, 7)), Span(3, 1, 256, tuple(range(10, 75)))], 4, gather=False)
    assert table.numbers == ((0,), (1, 2))
    assert table.pages is not None and table.lengths is not None
    assert table.pages[:4].tolist() == [5, 2, 7, 5]
    assert table.pages[64:].tolist() == [*range(10, 75), *[10] * 63]
    assert table.lengths.tolist() == [11, 256, 1]
