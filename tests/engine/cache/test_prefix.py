"""One contract for every prefix cache: the tree and the twin that reuses nothing."""

import random

import pytest

from evalcard_engine.cache.pages import PageAllocator
from evalcard_engine.cache.prefix import NoReuse
from evalcard_engine.cache.prefix_tree import PrefixTree

KINDS = [NoReuse, PrefixTree]


class Writer:
    """Plays sequences against a cache and knows, by slot, which token was written there."""

    def __init__(self, kind, num_pages: int = 64, page_size: int = 4) -> None:
        self.page_size = page_size
        self.allocator = PageAllocator(num_pages)
        self.cache = kind(self.allocator, page_size)
        self.slots: dict[tuple[int, int], int] = {}

    def compute(self, tokens: tuple[int, ...], limit: int | None = None) -> tuple[list[int], int]:
        """Place ``tokens`` as a sequence would: the pages it then holds, and how many tokens it was spared."""
        match = self.cache.match(tokens, len(tokens) if limit is None else limit)
        pages = list(match.pages)
        for page in pages:
            self.allocator.acquire(page)
        pages += [self.allocator.allocate() for _ in range(-(-len(tokens) // self.page_size) - len(pages))]
        for offset in range(match.partial_len):
            self.slots[pages[len(match.pages)], offset] = self.slots[match.partial_page, offset]
        for position in range(match.length, len(tokens)):
            self.slots[pages[position // self.page_size], position % self.page_size] = tokens[position]
        assert self.read(pages, len(tokens)) == tokens
        return pages, match.length

    def read(self, pages: list[int], length: int) -> tuple[int, ...]:
        return tuple(self.slots[pages[p // self.page_size], p % self.page_size] for p in range(length))

    def release(self, pages: list[int]) -> None:
        for page in pages:
            self.allocator.release(page)


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def writer(request) -> Writer:
    return Writer(request.param)


def test_an_empty_cache_matches_nothing(writer):
    match = writer.cache.match((1, 2, 3), 3)
    assert match.pages == () and match.partial_page is None and match.length == 0
    assert writer.cache.evict(5) == 0


def test_a_match_never_exceeds_its_limit_and_adds_up(writer):
    tokens = tuple(range(11))
    pages, _ = writer.compute(tokens)
    writer.cache.publish(tokens, pages)
    for limit in range(len(tokens) + 1):
        match = writer.cache.match(tokens, limit)
        assert match.length <= limit
        assert match.length == len(match.pages) * writer.page_size + match.partial_len
        assert (match.partial_page is None) == (match.partial_len == 0)


def test_publishing_keeps_the_pages_readable_and_releasing_leaks_none(writer):
    tokens = tuple(range(10))
    pages, _ = writer.compute(tokens)
    writer.cache.publish(tokens, pages)
    assert writer.read(pages, len(tokens)) == tokens
    writer.release(pages)
    assert writer.allocator.num_used == 0
    assert writer.allocator.num_available == writer.allocator.num_pages


def test_clear_frees_what_nobody_holds(writer):
    held, gone = (1, 2, 3, 4, 5), (6, 7, 8, 9)
    held_pages, _ = writer.compute(held)
    gone_pages, _ = writer.compute(gone)
    writer.cache.publish(held, held_pages)
    writer.cache.publish(gone, gone_pages)
    writer.release(gone_pages)
    writer.cache.clear()
    assert writer.allocator.num_free == writer.allocator.num_pages - len(held_pages)
    writer.release(held_pages)
    assert writer.allocator.num_free == writer.allocator.num_pages


def test_eviction_frees_idle_pages_but_never_a_held_one(writer):
    held = tuple(range(8))
    pages, _ = writer.compute(held)
    writer.cache.publish(held, pages)
    other = (50, 51, 52, 53)
    other_pages, _ = writer.compute(other)
    writer.cache.publish(other, other_pages)
    writer.release(other_pages)
    idle = writer.allocator.num_idle
    assert idle == (1 if writer.cache.shares else 0)
    assert writer.cache.evict(10) == idle
    assert writer.read(pages, len(held)) == held
    assert all(writer.allocator.holders(page) == 1 for page in pages)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("page_size", [1, 4, 16])
def test_random_use_reads_back_every_token_and_ends_with_every_page_free(kind, page_size):
    rng = random.Random(7)
    writer = Writer(kind, num_pages=160, page_size=page_size)
    stems = [tuple(rng.randrange(3) for _ in range(rng.randrange(1, 40))) for _ in range(8)]
    running: list[tuple[tuple[int, ...], list[int]]] = []
    for _ in range(1500):
        stem = rng.choice(stems)
        tokens = stem[: rng.randrange(1, len(stem) + 1)] + tuple(rng.randrange(3) for _ in range(rng.randrange(1, 9)))
        needed = -(-len(tokens) // page_size)
        while len(running) > 6 or writer.allocator.num_available < needed + 40 // page_size:
            ended, pages = running.pop(rng.randrange(len(running)))
            assert writer.read(pages, len(ended)) == ended
            writer.cache.publish(ended, pages)
            assert writer.read(pages, len(ended)) == ended, "the exchanged pages hold other tokens"
            writer.release(pages)
        writer.cache.evict(max(0, needed - writer.allocator.num_free))
        pages, _ = writer.compute(tokens, limit=len(tokens) - 1)
        writer.cache.publish(tokens[: rng.randrange(len(tokens) + 1)], pages)
        running.append((tokens, pages))
    for ended, pages in running:
        assert writer.read(pages, len(ended)) == ended
        writer.release(pages)
    idle = writer.allocator.num_idle
    assert (idle > 0) == (kind is PrefixTree)
    assert writer.cache.evict(1000) == idle
    assert writer.allocator.num_free == writer.allocator.num_pages


def test_what_is_encoded_for_long_sequences_is_never_found_by_short_ones(writer):
    tokens = tuple(range(10))
    pages, _ = writer.compute(tokens)
    writer.cache.publish(tokens, pages, True)
    assert writer.cache.match(tokens, 10).length == 0
    assert writer.cache.match(tokens, 10, True).length == (10 if writer.cache.shares else 0)
    others, _ = writer.compute(tokens)
    writer.cache.publish(tokens, others)
    assert not set(pages) & set(others)
    writer.release(pages)
    writer.release(others)
    assert writer.cache.evict(writer.allocator.num_pages) == (6 if writer.cache.shares else 0)
    writer.cache.clear()
    assert writer.allocator.num_free == writer.allocator.num_pages
