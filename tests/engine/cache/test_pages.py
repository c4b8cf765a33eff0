"""The page allocator: who holds what, and what could be had."""

import pytest

from evalcard_engine.cache.pages import PageAllocator


def test_pages_are_handed_out_once_and_come_back():
    pages = PageAllocator(3)
    taken = [pages.allocate() for _ in range(3)]
    assert sorted(taken) == [0, 1, 2]
    assert (pages.num_free, pages.num_used, pages.num_available) == (0, 3, 0)
    with pytest.raises(AssertionError, match="no free page among 3"):
        pages.allocate()
    pages.release(taken[1])
    assert pages.allocate() == taken[1]


def test_a_fresh_pool_starts_at_page_0_and_reuses_the_page_freed_last():
    pages = PageAllocator(100)
    assert [pages.allocate() for _ in range(3)] == [0, 1, 2]
    pages.release(0)
    pages.release(2)
    assert [pages.allocate(), pages.allocate(), pages.allocate()] == [2, 0, 3]


def test_a_shared_page_is_free_when_the_last_holder_goes():
    pages = PageAllocator(2)
    page = pages.allocate()
    pages.acquire(page)
    pages.release(page)
    assert pages.holders(page) == 1 and pages.num_free == 1
    pages.release(page)
    assert pages.holders(page) == 0 and pages.num_free == 2


def test_a_kept_page_goes_idle_and_can_be_taken_up_again_or_dropped():
    pages = PageAllocator(2)
    page = pages.allocate()
    pages.keep(page)
    pages.release(page)
    assert (pages.num_free, pages.num_idle, pages.num_used, pages.num_available) == (1, 1, 0, 2)
    pages.acquire(page)
    assert (pages.num_idle, pages.num_used) == (0, 1)
    pages.drop(page)
    assert (pages.num_free, pages.num_used) == (1, 1), "dropped by the tree, still held by a sequence"
    pages.release(page)
    assert pages.num_free == 2


def test_the_peak_counts_pages_held_by_sequences_only():
    pages = PageAllocator(4)
    first, second = pages.allocate(), pages.allocate()
    pages.keep(first)
    pages.release(first)
    pages.release(second)
    assert pages.peak_used == 2
    pages.acquire(first)
    assert pages.peak_used == 2


@pytest.mark.parametrize("misuse", ["acquire", "release", "keep", "drop"])
def test_misuse_of_a_free_page_is_refused(misuse):
    pages = PageAllocator(1)
    with pytest.raises(AssertionError, match="page 0"):
        getattr(pages, misuse)(0)


def test_keeping_twice_is_refused():
    pages = PageAllocator(1)
    pages.keep(pages.allocate())
    with pytest.raises(AssertionError, match="already in the tree"):
        pages.keep(0)


def test_warm_pages_are_free_ones_that_somebody_had():
    allocator = PageAllocator(4)
    assert allocator.num_warm == 0
    pages = [allocator.allocate() for _ in range(3)]
    assert allocator.num_warm == 0
    allocator.release(pages[0])
    allocator.release(pages[2])
    assert (allocator.num_warm, allocator.num_free) == (2, 3)
    assert allocator.allocate() == pages[2] and allocator.num_warm == 1
