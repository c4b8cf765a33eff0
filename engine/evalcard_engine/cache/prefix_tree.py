"""The prefix tree: one node a page, children sorted by their tokens, found by bisection.

A node holds the tokens of one page, ``page_size`` of them or fewer; only a full node has children. Among
siblings no node's tokens are a prefix of another's (the longer one replaces the shorter), so whatever shares
most with some tokens stands directly beside their place in the sorted list: two comparisons find it, and no
token is looked at in Python.

Who holds a page of the tree also holds the pages of all its ancestors, because ``publish`` exchanges a
caller's duplicate for the tree's page. So every idle page can be evicted, leaves first.
"""

import heapq
import itertools
from bisect import bisect_left

from evalcard_engine.cache.pages import PageAllocator
from evalcard_engine.cache.prefix import Match


def common_prefix_len(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    """How many tokens two tuples share from their start, by bisection over slices."""
    high = min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    low = 0  # the first `low` tokens are equal, the first `high` are not
    while high - low > 1:
        middle = (low + high) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle
    return low


class _Node:
    """One page in the tree. ``keys`` are the tokens of the children, in the order of ``children``."""

    __slots__ = ("children", "is_retired", "keys", "last_used", "page", "parent", "queued", "tokens")

    def __init__(self, tokens: tuple[int, ...], page: int, parent: "_Node | None") -> None:
        self.tokens = tokens
        self.page = page
        self.parent = parent
        self.keys: list[tuple[int, ...]] = []
        self.children: list[_Node] = []
        self.last_used = 0
        self.queued = False
        self.is_retired = False

    def use(self, now: int) -> None:
        self.last_used = now
        self.is_retired = False


class PrefixTree:
    """A PrefixCache at token granularity; implements the contract of cache/prefix.py."""

    shares = True

    def __init__(self, allocator: PageAllocator, page_size: int) -> None:
        self._allocator = allocator
        self._page_size = page_size
        # Copying fewer tokens than this costs as much as computing them in a step that runs anyway. Of five-shot MMLU's
        # distinct tokens this many leave 1.4 % to be computed twice, and twice as many 2.5 %.
        self._min_partial_len = max(1, page_size // 32)
        self._clear_nodes()

    def _clear_nodes(self) -> None:
        self._roots = {is_long: _Node((), page=0, parent=None) for is_long in (False, True)}
        self._clock = itertools.count(1)
        self._tie = itertools.count()
        # Candidates for eviction by last use. An entry may be out of date: it is checked when it comes up.
        self._queue: list[tuple[int, int, _Node]] = []
        # Likewise, those that go before all others, the last one first.
        self._retired: list[_Node] = []

    def match(self, tokens: tuple[int, ...], limit: int, is_long: bool = False) -> Match:
        assert 0 <= limit <= len(tokens), (limit, len(tokens))
        node, now = self._roots[is_long], next(self._clock)
        pages: list[int] = []
        for start in range(0, limit, self._page_size):
            chunk = tokens[start : min(start + self._page_size, limit)]
            child, shared = self._nearest(node, chunk)
            if child is None or shared < self._min_partial_len:
                break
            child.use(now)
            if shared < self._page_size:
                return Match(tuple(pages), child.page, shared, start + shared)
            pages.append(child.page)
            node = child
        return Match(tuple(pages), length=len(pages) * self._page_size)

    @staticmethod
    def _nearest(node: _Node, chunk: tuple[int, ...]) -> tuple[_Node | None, int]:
        """The child that shares most tokens with ``chunk``, and how many; ties go to the smaller tokens."""
        index = bisect_left(node.keys, chunk)
        best, most = None, 0
        for neighbour in (index - 1, index):
            if 0 <= neighbour < len(node.keys):
                shared = common_prefix_len(node.keys[neighbour], chunk)
                if shared > most:
                    best, most = node.children[neighbour], shared
        return best, most

    def publish(self, tokens: tuple[int, ...], pages: list[int], is_long: bool = False) -> None:
        assert len(tokens) <= len(pages) * self._page_size, (len(tokens), len(pages), self._page_size)
        node, now = self._roots[is_long], next(self._clock)
        for index, start in enumerate(range(0, len(tokens), self._page_size)):
            chunk = tokens[start : start + self._page_size]
            child = self._place(node, chunk, pages[index])
            child.use(now)
            if len(chunk) < self._page_size:
                return
            if child.page != pages[index]:
                self._allocator.acquire(child.page)
                self._allocator.release(pages[index])
                pages[index] = child.page
            node = child

    def _place(self, parent: _Node, chunk: tuple[int, ...], page: int) -> _Node:
        """The child of ``parent`` that covers ``chunk``: one that is there, one extended, or a new one on ``page``."""
        index = bisect_left(parent.keys, chunk)
        if index < len(parent.keys) and parent.keys[index][: len(chunk)] == chunk:
            return parent.children[index]
        shorter = index - 1
        if shorter >= 0 and chunk[: len(parent.keys[shorter])] == parent.keys[shorter]:
            child = parent.children[shorter]
            child.tokens = parent.keys[shorter] = chunk
            if child.page != page:
                self._allocator.drop(child.page)
                self._allocator.keep(page)
                child.page = page
            return child
        child = _Node(chunk, page, parent)
        parent.keys.insert(index, chunk)
        parent.children.insert(index, child)
        self._allocator.keep(page)
        self._enqueue(child)
        return child

    def _enqueue(self, node: _Node) -> None:
        if not node.queued:
            node.queued = True
            heapq.heappush(self._queue, (node.last_used, next(self._tie), node))

    def retire(self, tokens: tuple[int, ...], wanted_len: int, is_long: bool = False) -> None:
        node = self._roots[is_long]
        for start in range(0, len(tokens), self._page_size):
            chunk = tokens[start : start + self._page_size]
            index = bisect_left(node.keys, chunk)
            if index == len(node.keys) or node.keys[index][: len(chunk)] != chunk:
                return
            parent, node = node, node.children[index]
            if not node.is_retired and self._is_unwanted(parent, index, wanted_len - start):
                node.is_retired = True
                self._retired.append(node)

    def _is_unwanted(self, parent: _Node, index: int, wanted_len: int) -> bool:
        """Whether nothing of a child's page is wanted, or only a head that a sibling offers too."""
        if wanted_len < self._min_partial_len:
            return True
        if wanted_len >= self._page_size:
            return False
        siblings = [place for place in (index - 1, index + 1) if 0 <= place < len(parent.keys)]
        return any(
            not parent.children[place].is_retired
            and common_prefix_len(parent.keys[place], parent.keys[index]) >= wanted_len
            for place in siblings
        )

    def reuse(self, count: int) -> int:
        freed = 0
        while freed < count and self._retired:
            node = self._retired.pop()
            is_idle = node.is_retired and not node.children and not self._allocator.holders(node.page)
            node.is_retired = False
            if is_idle:
                self._remove(node)
                freed += 1
        return freed

    def evict(self, count: int) -> int:
        evicted, held = self.reuse(count), []
        while evicted < count and self._queue:
            last_used, _, node = heapq.heappop(self._queue)
            node.queued = False
            if node.children or node.parent is None:
                continue  # comes back when its last child goes, or is gone itself
            if node.last_used != last_used:
                self._enqueue(node)
            elif self._allocator.holders(node.page):
                held.append(node)
            else:
                self._remove(node)
                evicted += 1
        for node in held:
            self._enqueue(node)
        return evicted

    def _remove(self, node: _Node) -> None:
        parent = node.parent
        assert parent is not None and not node.children, (node.page, len(node.children))
        index = bisect_left(parent.keys, node.tokens)
        assert parent.children[index] is node, f"page {node.page} is not where its tokens sort"
        del parent.keys[index], parent.children[index]
        node.parent, node.is_retired = None, False
        self._allocator.drop(node.page)
        if not parent.children and parent.parent is not None:
            self._enqueue(parent)

    def clear(self) -> None:
        stack = [child for root in self._roots.values() for child in root.children]
        while stack:
            node = stack.pop()
            stack.extend(node.children)
            self._allocator.drop(node.page)
        self._clear_nodes()
