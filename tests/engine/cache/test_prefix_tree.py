"""What the prefix tree finds, shares, exchanges and gives up."""

import random
import time

import pytest

from evalcard_engine.cache.pages import PageAllocator
from evalcard_engine.cache.prefix_tree import PrefixTree, common_prefix_len


@pytest.fixture
def allocator() -> PageAllocator:
    return PageAllocator(32)


@pytest.fixture
def tree(allocator) -> PrefixTree:
    return PrefixTree(allocator, page_size=4)


def add(tree, allocator, tokens: tuple[int, ...], release: bool = True) -> list[int]:
    """Publish ``tokens`` on fresh pages."""
    pages = [allocator.allocate() for _ in range(-(-len(tokens) // 4))]
    tree.publish(tokens, pages)
    if release:
        for page in pages:
            allocator.release(page)
    return pages


def definition(left, right) -> int:
    shared = 0
    while shared < min(len(left), len(right)) and left[shared] == right[shared]:
        shared += 1
    return shared


def test_common_prefix_len_equals_its_definition():
    rng = random.Random(1)
    for _ in range(2000):
        left = tuple(rng.randrange(2) for _ in range(rng.randrange(12)))
        right = left[: rng.randrange(len(left) + 1)] + tuple(rng.randrange(2) for _ in range(rng.randrange(12)))
        assert common_prefix_len(left, right) == definition(left, right)


def test_match_equals_the_longest_common_prefix_with_anything_published(tree, allocator):
    rng = random.Random(2)
    published: list[tuple[int, ...]] = []
    for _ in range(9):
        stem = rng.choice(published)[: rng.randrange(12)] if published else ()
        tokens = stem + tuple(rng.randrange(3) for _ in range(rng.randrange(1, 9)))
        add(tree, allocator, tokens)
        published.append(tokens)
        for _ in range(50):
            tail = tuple(rng.randrange(3) for _ in range(rng.randrange(9)))
            asked = rng.choice(published)[: rng.randrange(14)] + tail
            limit = rng.randrange(len(asked) + 1)
            expected = max(definition(asked[:limit], known) for known in published)
            assert tree.match(asked, limit).length == expected


def test_whole_pages_are_shared_and_the_branching_page_is_offered_for_a_copy(tree, allocator):
    pages = add(tree, allocator, (1, 2, 3, 4, 5, 6, 7, 8))
    match = tree.match((1, 2, 3, 4, 5, 6, 99, 8), 8)
    assert match.pages == (pages[0],)
    assert (match.partial_page, match.partial_len, match.length) == (pages[1], 2, 6)


def test_a_limit_inside_a_known_page_turns_it_into_a_copy(tree, allocator):
    pages = add(tree, allocator, (1, 2, 3, 4, 5, 6, 7, 8))
    match = tree.match((1, 2, 3, 4, 5, 6, 7, 8), 7)
    assert (match.pages, match.partial_page, match.partial_len) == ((pages[0],), pages[1], 3)


def test_a_branch_too_short_to_be_worth_a_copy_is_not_offered():
    allocator = PageAllocator(4)
    tree = PrefixTree(allocator, page_size=256)
    page = allocator.allocate()
    tree.publish(tuple(range(100)), [page])
    assert tree.match((*range(7), 999), 8).length == 0
    assert tree.match((*range(8), 999), 9).length == 8


def test_publishing_what_is_known_exchanges_the_page_for_the_known_one(tree, allocator):
    first = add(tree, allocator, (1, 2, 3, 4), release=False)
    second = [allocator.allocate()]
    mine = second[0]
    tree.publish((1, 2, 3, 4), second)
    assert second == first and allocator.holders(first[0]) == 2
    assert allocator.holders(mine) == 0 and not allocator.is_cached(mine)


def test_a_longer_page_replaces_the_shorter_one_it_contains(tree, allocator):
    short = add(tree, allocator, (1, 2))
    long = add(tree, allocator, (1, 2, 3))
    assert not allocator.is_cached(short[0]) and allocator.is_cached(long[0])
    again = add(tree, allocator, (1, 2))
    assert not allocator.is_cached(again[0]), "the tree kept a page that says nothing new"
    assert allocator.num_idle == 1


def test_a_growing_sequence_extends_its_own_page_in_place(tree, allocator):
    pages = [allocator.allocate()]
    tree.publish((1,), pages)
    tree.publish((1, 2, 3), pages)
    tree.publish((1, 2, 3, 4), pages)
    assert tree.match((1, 2, 3, 4, 5), 5).pages == tuple(pages)
    allocator.release(pages[0])
    assert allocator.num_idle == 1 and tree.evict(5) == 1


def test_eviction_takes_the_least_recently_used_leaf_first(tree, allocator):
    old = add(tree, allocator, (1, 1, 1, 1))
    middle = add(tree, allocator, (2, 2, 2, 2))
    new = add(tree, allocator, (3, 3, 3, 3))
    tree.match((1, 1, 1, 1), 4)  # used again: now the youngest
    assert tree.evict(1) == 1 and not allocator.is_cached(middle[0])
    assert tree.evict(1) == 1 and not allocator.is_cached(new[0])
    assert allocator.is_cached(old[0])


def test_a_parent_outlives_its_children_and_then_goes_too(tree, allocator):
    pages = add(tree, allocator, (1, 2, 3, 4, 5, 6, 7, 8))
    sibling = add(tree, allocator, (1, 2, 3, 4, 9, 9, 9, 9))
    assert tree.evict(2) == 2
    assert allocator.is_cached(pages[0]) and not allocator.is_cached(pages[1]) and not allocator.is_cached(sibling[1])
    assert tree.evict(1) == 1 and allocator.num_free == allocator.num_pages


def test_a_page_held_by_a_sequence_protects_its_ancestors(tree, allocator):
    add(tree, allocator, (1, 2, 3, 4))
    mine = add(tree, allocator, (1, 2, 3, 4, 5, 6, 7, 8), release=False)
    assert tree.evict(10) == 0
    assert tree.match((1, 2, 3, 4, 5, 6, 7, 8), 8).pages == tuple(mine)


def test_retired_pages_are_freed_first_and_the_last_one_before_the_others(tree, allocator):
    old = add(tree, allocator, (1, 1, 1, 1))
    first = add(tree, allocator, (2, 2, 2, 2, 2, 2, 2, 2))
    last = add(tree, allocator, (3, 3, 3, 3))
    tree.retire((2, 2, 2, 2, 2, 2, 2, 2), wanted_len=4)
    tree.retire((3, 3, 3, 3), wanted_len=0)
    assert tree.reuse(1) == 1 and not allocator.is_cached(last[0])
    assert tree.evict(1) == 1 and not allocator.is_cached(first[1])
    assert tree.reuse(5) == 0 and allocator.is_cached(first[0]) and allocator.is_cached(old[0])
    assert tree.evict(5) == 2 and allocator.num_free == allocator.num_pages


def test_what_is_asked_for_again_is_retired_no_more(tree, allocator):
    pages = add(tree, allocator, (1, 1, 1, 1, 1, 1, 1, 1))
    tree.retire((1, 1, 1, 1, 1, 1, 1, 1), wanted_len=0)
    assert tree.match((1, 1, 1, 1, 9), 5).pages == (pages[0],)
    assert tree.reuse(5) == 1 and allocator.is_cached(pages[0])


def test_a_page_in_use_is_not_reused(tree, allocator):
    mine = add(tree, allocator, (1, 2, 3, 4, 5, 6, 7, 8), release=False)
    tree.retire((1, 2, 3, 4, 5, 6, 7, 8), wanted_len=0)
    assert tree.reuse(5) == 0 and tree.match((1, 2, 3, 4, 5, 6, 7, 8), 8).pages == tuple(mine)


def test_of_siblings_that_offer_the_same_head_one_is_kept(tree, allocator):
    """A branching page is copied by whoever follows: one of those that share its head is enough."""
    tails = [(1, 2, 3, tail) for tail in range(5)]
    for tail in tails:
        add(tree, allocator, tail)
    for tail in tails:
        tree.retire(tail, wanted_len=3)
    assert tree.reuse(9) == 4
    assert tree.match((1, 2, 3, 9), 4).length == 3


def test_a_prompt_costs_less_than_two_milliseconds_among_thousands():
    """1500 prompts of 1000 tokens that share 600; measured at 0.15 ms each."""
    rng = random.Random(3)
    allocator = PageAllocator(8000)
    tree = PrefixTree(allocator, page_size=256)
    shots = tuple(rng.randrange(50000) for _ in range(600))
    prompts = [shots + tuple(rng.randrange(50000) for _ in range(400)) for _ in range(1500)]
    start = time.process_time()
    for prompt in prompts:
        pages = [allocator.allocate() for _ in range(4)]
        tree.publish(prompt, pages)
        assert tree.match(prompt, len(prompt) - 1).length == len(prompt) - 1
    assert (time.process_time() - start) / len(prompts) < 0.002
