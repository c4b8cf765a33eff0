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
    numbers = [span.pages for span in SPANS]
    others, chunks = split_off(segments, numbers, kv_heads=2)
    assert [[segment.span for segment in some] for some in chunks] == [[1, 0]]
    assert {segment.span for segment in others} == {2, 3, 4, 5}


def test_strips_are_pages_side_by_side() -> None:
    segments = segments_of(SPANS, 3, None, (BLOCK,))
    numbers = [span.pages for span in SPANS]
    _, (chunk,) = split_off(segments, numbers, kv_heads=2)
    plan = plan_strips(chunk, numbers, block_bytes=400 << 10)
    assert [(strip.tile, strip.first) for strip in plan.strips] == [(0, 20), (0, 21), (0, 22), (0, 7), (1, 4), (1, 5)]
    assert {strip.count for strip in plan.strips} == {1}
    plan = plan_strips(chunk, numbers, block_bytes=380 << 10)
    assert plan.strips == (Strip(0, 20, 2), Strip(0, 22, 1), Strip(0, 7, 1), Strip(1, 4, 2))
    assert [wave.tolist() for wave in plan.waves] == [[0, 4], [1, 5], [2], [3]]


def test_windows_and_codes_go_wave_by_wave() -> None:
    spans = SPANS[:1]
    table = block_table(spans, BLOCK, gather=False)
    assert geometry(spans, table, 6, 2, None, strip_bytes=1 << 16).chunks[0].strips is not None
    assert geometry(spans, table, 6, 2, None).chunks[0].strips is None
    assert geometry(spans, table, 6, 2, 300, strip_bytes=1 << 16).chunks[0].strips is None
