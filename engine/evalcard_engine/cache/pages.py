"""Who holds which page of the KV cache. No tensors, no torch: a page is a number in [0, num_pages).

A page is *free*, *used* (held by one or more sequences), or *idle* (held by no sequence, kept by the prefix
tree in case its tokens come again). Sequences hold pages by count, the tree by a mark of its own, so that
"how many pages could a new sequence get" is always known without a walk: free plus idle.
"""


class PageAllocator:
    """Reference counts over ``num_pages`` pages; every method is O(1)."""

    def __init__(self, num_pages: int) -> None:
        assert num_pages > 0, num_pages
        self.num_pages = num_pages
        self.peak_used = 0
        """The most pages that sequences held at one time."""
        # The last page freed is the first one taken again: its memory is warm, and memory that was never
        # touched stays untouched for as long as possible. The reversed range starts a pool at page 0.
        self._free = list(range(num_pages - 1, -1, -1))
        self._holders = [0] * num_pages
        self._cached = [False] * num_pages
        self._num_idle = 0
        # Pages that nobody ever had lie at the far end of the free ones, below all that came back.
        self._num_untouched = num_pages

    @property
    def num_warm(self) -> int:
        """Free pages that somebody had before: their memory is there already."""
        return len(self._free) - self._num_untouched

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def num_idle(self) -> int:
        """Pages that only the prefix tree keeps: it can give every one of them back."""
        return self._num_idle

    @property
    def num_used(self) -> int:
        return self.num_pages - len(self._free) - self._num_idle

    @property
    def num_available(self) -> int:
        """Pages a new sequence could get, some of them by eviction."""
        return len(self._free) + self._num_idle

    def holders(self, page: int) -> int:
        """Sequences that hold ``page``."""
        return self._holders[page]

    def is_cached(self, page: int) -> bool:
        """Whether the prefix tree keeps ``page``."""
        return self._cached[page]

    def allocate(self) -> int:
        """A free page, held once by the caller."""
        assert self._free, f"no free page among {self.num_pages}; {self._num_idle} idle ones could be evicted"
        self._num_untouched = min(self._num_untouched, len(self._free) - 1)
        page = self._free.pop()
        assert self._holders[page] == 0 and not self._cached[page], (page, self._holders[page], self._cached[page])
        self._holders[page] = 1
        self.peak_used = max(self.peak_used, self.num_used)
        return page

    def acquire(self, page: int) -> None:
        """One more holder of a page that is used or idle."""
        assert self._holders[page] > 0 or self._cached[page], f"page {page} is free and cannot be shared"
        if self._holders[page] == 0:
            self._num_idle -= 1
        self._holders[page] += 1
        self.peak_used = max(self.peak_used, self.num_used)

    def release(self, page: int) -> None:
        """One holder fewer; the last one leaves the page idle if the tree keeps it, else free."""
        assert self._holders[page] > 0, f"page {page} is released more often than it was held"
        self._holders[page] -= 1
        if self._holders[page] > 0:
            return
        if self._cached[page]:
            self._num_idle += 1
        else:
            self._free.append(page)

    def keep(self, page: int) -> None:
        """The tree keeps a page that some sequence holds."""
        assert self._holders[page] > 0, f"page {page} is held by nobody, its content is not known"
        assert not self._cached[page], f"page {page} is already in the tree"
        self._cached[page] = True

    def drop(self, page: int) -> None:
        """The tree lets go of ``page``; without holders it is free at once."""
        assert self._cached[page], f"page {page} is not in the tree"
        self._cached[page] = False
        if self._holders[page] == 0:
            self._num_idle -= 1
            self._free.append(page)
