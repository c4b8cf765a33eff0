"""What the scheduler asks of a prefix cache, and the twin that never reuses anything.

Both run under one contract test. Token ranges are half-open; a cache never changes what an answer is, only
how much of it is computed again.
"""

from dataclasses import dataclass
from typing import Protocol

from evalcard_engine.cache.pages import PageAllocator


@dataclass(frozen=True, slots=True)
class Match:
    """The longest known beginning of some tokens: whole pages to share, then the head of one page to copy."""

    pages: tuple[int, ...] = ()
    """Full pages of tokens [0, len(pages) * page_size). Not yet acquired for the caller."""
    partial_page: int | None = None
    """A page whose first ``partial_len`` slots continue the match; it must be copied, never written to."""
    partial_len: int = 0
    length: int = 0
    """Tokens matched in all."""


class PrefixCache(Protocol):
    """Remembers which pages hold the keys and values of which token prefixes.

    Tokens whose positions are encoded for long sequences (``is_long``) have other keys than the same tokens encoded for
    short ones, so the two never share anything.
    """

    shares: bool
    """Whether waiting for another sequence to compute a common prefix can ever pay."""

    def match(self, tokens: tuple[int, ...], limit: int, is_long: bool = False) -> Match:
        """The longest known prefix of ``tokens[:limit]``. Acquires nothing; the next evict may take its pages."""

    def publish(self, tokens: tuple[int, ...], pages: list[int], is_long: bool = False) -> None:
        """The caller holds ``pages`` with the keys and values of exactly ``tokens`` and lets others read them.

        Where the cache already has a full page with the same tokens, the caller's page is exchanged for it in
        the list (one acquired, the other released). The caller may go on writing behind ``tokens``.
        """

    def retire(self, tokens: tuple[int, ...], wanted_len: int, is_long: bool = False) -> None:
        """Nobody who waits shares more than ``tokens[:wanted_len]``: what lies behind is the first to be let go."""

    def reuse(self, count: int) -> int:
        """Free up to ``count`` idle pages of retired tokens, the last retired first; returns how many."""

    def evict(self, count: int) -> int:
        """Free up to ``count`` idle pages, retired ones, then those least recently used; returns how many."""

    def clear(self) -> None:
        """Forget everything; pages in use stay with their holders."""


class NoReuse:
    """Knows nothing, shares nothing: the plain definition the prefix tree is tested against."""

    shares = False

    def __init__(self, allocator: PageAllocator, page_size: int) -> None:
        self._page_size = page_size

    def match(self, tokens: tuple[int, ...], limit: int, is_long: bool = False) -> Match:
        return Match()

    def publish(self, tokens: tuple[int, ...], pages: list[int], is_long: bool = False) -> None:
        assert len(tokens) <= len(pages) * self._page_size, (len(tokens), len(pages), self._page_size)

    def retire(self, tokens: tuple[int, ...], wanted_len: int, is_long: bool = False) -> None:
        """Everything is let go in any case."""

    def reuse(self, count: int) -> int:
        return 0

    def evict(self, count: int) -> int:
        return 0

    def clear(self) -> None:
        """Nothing is kept."""
