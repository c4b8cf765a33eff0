"""A step's attention as readings: tokens that meet one stretch of keys together. No torch yet, only numbers.

Tokens whose sequences begin with the same whole blocks of pages read those blocks together; what is left of each
sequence, its tail, it reads alone. Layers with a window share nothing: what they read is short.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from evalcard_engine.attention.shared import shared_stretches
from evalcard_engine.attention.tiles import BLOCK
from evalcard_engine.batch import Span


@dataclass(frozen=True, slots=True)
class Reading:
    """The tokens of ``spans``, by number, over the keys at positions [key_start, key_stop) of the first one's pages."""

    spans: tuple[int, ...]
    key_start: int
    key_stop: int
    is_tail: bool
    """Whether it ends with the tokens themselves; else every token sees all of it."""


def readings(spans: Sequence[Span], page_size: int, window: int | None, most_tokens: int) -> list[Reading]:
    """Shared stretches first, in the order of their keys, then the tail of every span that has tokens.

    Spans of more than ``most_tokens`` share nothing: they fill tiles of rows by themselves.
    """
    assert BLOCK % page_size == 0, (BLOCK, page_size)
    per_block = BLOCK // page_size
    chains: list[list[tuple[int, ...]]] = []
    for span in spans:
        # Only blocks before the step's own tokens: these are seen whole by each of them.
        blocks = span.context_len // BLOCK if window is None and 0 < span.query_len <= most_tokens else 0
        chains.append([span.pages[per_block * block : per_block * (block + 1)] for block in range(blocks)])
    tail_starts = [0] * len(spans)
    found = []
    for members, start, stop in shared_stretches(chains):
        found.append(Reading(members, start * BLOCK, stop * BLOCK, False))
        for member in members:
            tail_starts[member] = max(tail_starts[member], stop * BLOCK)
    for number, span in enumerate(spans):
        if span.query_len:
            found.append(Reading((number,), tail_starts[number], span.end_len, True))
    return found
