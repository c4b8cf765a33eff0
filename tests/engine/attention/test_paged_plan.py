"""The kernels' items: every token meets every key it may see exactly once, in order, on its own sequence's pages."""

from collections import defaultdict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("triton", reason="kernels need Triton, which has no build for this platform")

from evalcard_engine.attention.paged_plan import PagedPlan, paged_plan  # noqa: E402
from evalcard_engine.attention.readings import Reading, readings  # noqa: E402
from evalcard_engine.attention.tiles import BLOCK  # noqa: E402
from evalcard_engine.batch import Span  # noqa: E402
from evalcard_engine.kernels.launch import Tile  # noqa: E402

TILES = (Tile(16, 64, 0), Tile(64, 32, 0))
CPU = torch.device("cpu")


@st.composite
def steps(draw: st.DrawFn) -> tuple[list[Span], int]:
    """Spans whose first pages are, up to a whole block, those of another; and their page size."""
    page_size = draw(st.sampled_from([16, 128, 256]))
    made: list[Span] = []
    start, page = 0, 0
    for context, query in draw(st.lists(st.tuples(st.integers(0, 1100), st.integers(0, 90)), min_size=1, max_size=6)):
        count = -(-(context + query) // page_size)
        pages = list(range(page, page + count))
        if made and draw(st.booleans()):
            other = draw(st.sampled_from(made))
            shared = min(context, other.context_len) // BLOCK * BLOCK // page_size
            pages[:shared] = other.pages[:shared]
        made.append(Span(start, query, context, tuple(pages)))
        start, page = start + query, page + count
    return made, page_size


def met_keys(plan: PagedPlan, page_size: int) -> dict[int, list[tuple[int, int, int, int]]]:
    """By token, in the order in which its parts are merged: (key start, key stop, first page, sinks) of its items."""
    by_part: dict[int, tuple[int, tuple[int, int, int, int]]] = {}
    met: dict[int, list[tuple[int, int, int, int]]] = defaultdict(list)
    for items in plan.items:
        for place, count, page, start, full_stop, stop, part, is_part, has_sink in items.table.tolist():
            columns = items.tile.columns
            assert count > 0 and start % columns == 0 == (full_stop - start) % columns
            assert start <= full_stop <= stop and start < stop
            for member in range(count):
                token = int(plan.rows.tokens[place + member])
                low, high = int(plan.rows.firsts[place + member]), int(plan.rows.lasts[place + member])
                assert low <= start < full_stop <= high + 1 or full_stop == start
                seen = (max(low, start), min(high + 1, stop), page, has_sink)
                if is_part:
                    assert part + member not in by_part
                    by_part[part + member] = token, seen
                else:
                    met[token].append(seen)
    assert sorted(by_part) == list(range(plan.num_parts)) == sorted(plan.merge_order.tolist())
    starts = plan.merge_starts.tolist()
    for token, low, high in zip(plan.merged_tokens.tolist(), starts, starts[1:], strict=False):
        assert token not in met and high - low > 1
        for part in plan.merge_order.tolist()[low:high]:
            assert by_part[part][0] == token
            met[token].append(by_part[part][1])
    return met


@settings(max_examples=60, deadline=None)
@given(steps(), st.sampled_from([1, 3, 8, 16, 24]), st.sampled_from([None, 1, 200, 600]), st.sampled_from([1, 40, 512]))
def test_every_token_meets_its_keys_once_and_in_order(
    step: tuple[list[Span], int], group: int, window: int | None, programs: int
) -> None:
    spans, page_size = step
    plan = paged_plan(spans, page_size, 2 * group, 2, window, TILES, CPU, programs)
    met = met_keys(plan, page_size)
    assert sorted(met) == list(range(sum(span.query_len for span in spans)))
    pages = plan.rows.pages.tolist()
    for span in spans:
        for offset in {0, span.query_len // 2, span.query_len - 1} if span.query_len else ():
            at = span.context_len + offset
            here = met[span.query_start + offset]
            seen = [key for start, stop, _, _ in here for key in range(start, stop)]
            assert seen == list(range(0 if window is None else max(0, at - window + 1), at + 1))
            for start, stop, first_page, _ in here:
                for number in range(start // page_size, -(-stop // page_size)):
                    assert pages[first_page + number] == span.pages[number]
            assert sum(has_sink for *_, has_sink in here) == 1


def test_few_and_many_rows_have_tiles_of_their_own_and_fit() -> None:
    spans = [Span(0, 1, 40, (0,)), Span(1, 100, 0, (1,)), Span(101, 5, 0, (2,))]
    plan = paged_plan(spans, 256, 6, 2, None, TILES, CPU)
    assert [items.tile for items in plan.items] == list(TILES)
    few, many = (items.table[:, 1].tolist() for items in plan.items)
    # 16 rows hold five tokens of three heads each, 64 rows 21.
    assert sorted(few) == [1, 5] and sorted(many, reverse=True) == [21, 21, 21, 21, 16]


def test_a_long_context_is_cut_where_programs_are_few_and_whole_where_they_are_many() -> None:
    long = [Span(0, 1, 4095, tuple(range(16)))]
    cut = paged_plan(long, 256, 8, 2, None, TILES, CPU, programs=8)
    assert cut.num_parts == 4 and sorted(cut.items[0].table[:, 3].tolist()) == [0, 1024, 2048, 3072]
    whole = paged_plan(long, 256, 8, 2, None, TILES, CPU, programs=2)
    assert whole.num_parts == 0 and len(whole.merged_tokens) == 0
    windowed = paged_plan(long, 256, 8, 2, 100, TILES, CPU, programs=512)
    assert windowed.num_parts == 0 and windowed.items[0].table[0, 3] == 3968


def test_a_shared_prefix_is_read_once() -> None:
    """Forty answers over two common blocks: one tile of rows reads these, each reads its own tail."""
    spans = [Span(i, 1, 600, (0, 1, 2 + i)) for i in range(40)]
    plan = paged_plan(spans, 256, 2, 2, None, TILES, CPU, programs=1)
    assert [len(items.table) for items in plan.items] == [40, 1]
    assert plan.items[1].table[0, :6].tolist() == [0, 40, 0, 0, 512, 512]
    assert plan.num_parts == 80 and plan.merge_order[:2].tolist() == [0, 40]


def test_what_is_shared() -> None:
    spans = [
        Span(0, 1, 512, (0, 1, 2)),
        Span(1, 2, 511, (0, 1, 3)),
        Span(3, 1, 512, (0, 1, 4)),
        Span(4, 9, 512, (0, 1)),
    ]
    tails = [Reading((0,), 512, 513, True), Reading((1,), 256, 513, True), Reading((2,), 512, 513, True),
             Reading((3,), 0, 521, True)]  # fmt: skip
    # The second computes a token of the second block itself; the fourth has rows enough of its own.
    shared = [Reading((0, 1, 2), 0, 256, False), Reading((0, 2), 256, 512, False)]
    assert readings(spans, 256, None, 8) == [*shared, *tails]
    alone = [Reading((number,), 0, span.end_len, True) for number, span in enumerate(spans)]
    assert readings(spans, 256, 4096, 8) == alone


def test_nothing_to_do() -> None:
    plan = paged_plan([Span(0, 0, 0, ())], 256, 2, 2, None, TILES, CPU)
    assert plan.items == () and plan.num_parts == 0 and plan.merge_starts.tolist() == [0]
