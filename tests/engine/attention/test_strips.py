"""Which blocks strips are made of: those of answers that nobody else meets, side by side as far as memory goes."""

from evalcard_engine.attention.plan import block_table, geometry
from evalcard_engine.attention.strips import Strip, plan_strips, split_off
from evalcard_engine.attention.tiles import BLOCK, segments_of
from evalcard_engine.batch import Span

SPANS = [
    Span(0, 1, 700, (4, 5, 9)),
    Span(1, 1, 1100, (20, 21, 22, 7, 8)),
    Span(2, 1, 100, (1,)),  # one block only
    Span(3, 1, 600, (30, 31, 32)),
    Span(4, 1, 600, (30, 33, 34)),  # shares its first page
    Span(5, 50, 300, (40, 41)),  # a prompt
]


def test_answers_on_pages_of_their_own_are_split_off() -> None:
    segments = segments_of(SPANS, 3, None, (BLOCK,))
    others, chunks = split_off(segments, SPANS, [span.pages for span in SPANS], kv_heads=2)
    assert [[segment.span for segment in some] for some in chunks] == [[1, 0, 2]]
    assert {segment.span for segment in others} == {3, 4, 5}


def test_strips_are_pages_side_by_side_whosever_they_are() -> None:
    spans = [Span(0, 1, 700, (4, 5, 9)), Span(1, 1, 1100, (20, 21, 22, 7, 8)), Span(2, 1, 100, (6,))]
    numbers = [span.pages for span in spans]
    _, (chunk,) = split_off(segments_of(spans, 3, None, (BLOCK,)), spans, numbers, kv_heads=2)
    plan = plan_strips(chunk, spans, numbers)
    assert plan.strips == (Strip(4, 6), Strip(20, 3))
    # Pages 4, 5, 6, 7, 8, 9 and 20, 21, 22: tile 0 has most blocks.
    assert plan.tiles.tolist() == [1, 1, 2, 0, 0, 1, 0, 0, 0]
    assert plan.ends.tolist() == [256, 256, 101, 256, 77, 189, 256, 256, 256]
    assert [wave.tolist() for wave in plan.waves] == [[6, 0, 2], [7, 1], [8, 5], [3], [4]]


def test_windows_and_codes_go_wave_by_wave() -> None:
    spans = SPANS[:1]
    table = block_table(spans, BLOCK, gather=False)
    assert geometry(spans, table, 6, 2, None, are_strips=True).chunks[0].strips is not None
    assert geometry(spans, table, 6, 2, None).chunks[0].strips is None
    assert geometry(spans, table, 6, 2, 300, are_strips=True).chunks[0].strips is None
