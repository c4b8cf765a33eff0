"""Which sequences get how many tokens this step: continuous batching over pages. No torch.

A step first gives every decoding sequence its one token, then spends what is left of the token budget on
prompts, in chunks. Sequences wait in the order of their tokens, so that a shared prefix is computed once,
used by all its followers, and let go. Nothing is ever dropped: when pages run out, idle pages of the prefix
tree go first, then the youngest running sequence goes back to the queue with its tokens kept.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from evalcard_engine.cache.pages import PageAllocator
from evalcard_engine.cache.prefix import Match, PrefixCache
from evalcard_engine.cache.prefix_tree import common_prefix_len
from evalcard_engine.sequence import Sequence
from evalcard_engine.step import Chunk, Copy, Limits, Step


class Scheduler:
    """Owns the queue, the running sequences and, through them, every page in use."""

    def __init__(self, allocator: PageAllocator, cache: PrefixCache, limits: Limits) -> None:
        self._allocator = allocator
        self._cache = cache
        self._limits = limits
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []  # oldest first

    @property
    def has_work(self) -> bool:
        return bool(self._running or self._waiting)

    def add(self, sequences: Iterable[Sequence]) -> None:
        """Queue new sequences, depth first along their common prefixes; each must fit the pool alone."""
        ordered = sorted(sequences, key=lambda sequence: (sequence.is_long, sequence.prompt))
        for sequence in ordered:
            needed = self._limits.pages_for(sequence.max_len)
            assert needed <= self._allocator.num_pages, (needed, self._allocator.num_pages)
            assert 0 <= sequence.next_logits < sequence.num_tokens, (sequence.next_logits, sequence.num_tokens)
        self._waiting.extend(ordered)

    def next_step(self) -> Step:
        """The work of one step. Call ``complete`` with it once its tokens are computed."""
        assert self.has_work, "no sequence is waiting or running"
        step = Step(self._limits.step_tokens, self._limits.step_logits)
        self._give_decodes(step)
        for sequence in self._running:
            if sequence.is_prefilling:
                self._give_chunk(step, sequence)
        if not step.preemptions:
            self._admit(step)
        assert step.chunks, (len(self._running), len(self._waiting), self._allocator.num_available)
        return step

    def complete(self, step: Step) -> None:
        """The tokens of ``step`` are computed: prompts become readable for others. Then append new tokens."""
        for chunk in step.chunks:
            sequence = chunk.sequence
            was_prefilling = sequence.is_prefilling
            sequence.computed_len = chunk.stop
            if was_prefilling:
                self._cache.publish(sequence.tokens(0, chunk.stop), sequence.pages, sequence.is_long)

    def finish(self, sequence: Sequence) -> None:
        """Nothing more is wanted of a running sequence: its pages go to the prefix cache, which may use those again
        that nobody who waits will share."""
        self._running.remove(sequence)
        self._vacate(sequence)
        tokens = sequence.tokens(0, sequence.computed_len)
        self._cache.retire(tokens, self._wanted_len(tokens, sequence.is_long), sequence.is_long)

    def _wanted_len(self, tokens: tuple[int, ...], is_long: bool) -> int:
        """How many of the tokens a waiting sequence has in common with them. As those wait in the order of their
        tokens, none behind the first greater one has more."""
        longest = 0
        for other in self._waiting:
            known = other.tokens(0, other.num_tokens)
            if other.is_long == is_long:
                longest = max(longest, common_prefix_len(tokens, known))
            if (other.is_long, known) > (is_long, tokens):
                break
        return longest

    def abort(self) -> None:
        """Forget all sequences, running or waiting. What they published stays; the rest of their pages is free."""
        for sequence in self._running:
            self._release(sequence)
        self._running.clear()
        self._waiting.clear()

    def _give_decodes(self, step: Step) -> None:
        # Oldest first, and the victim of a preemption is always the youngest, so that a sequence that has
        # been given its token in this step is never taken out of it.
        for sequence in list(self._running):
            if sequence.pages and not sequence.is_prefilling and self._grow(step, sequence):
                self._give_chunk(step, sequence)
        self._give_drafts(step)

    def _give_drafts(self, step: Step) -> None:
        """What decoding sequences may say next is checked in the same step, as far as their pages and the step go."""
        room = min(self._limits.draft_rows - step.num_rows, step.tokens_left, step.logits_left)
        for place, chunk in enumerate(step.chunks):
            sequence = chunk.sequence
            end = min(sequence.max_len, len(sequence.pages) * self._limits.page_size)
            draft = sequence.draft(min(room, end - chunk.stop))
            if draft:
                step.chunks[place] = replace(chunk, draft=draft)
                room -= len(draft)
                step.tokens_left -= len(draft)
                step.logits_left -= len(draft)

    def _grow(self, step: Step, sequence: Sequence) -> bool:
        """Make room for the sequence's next token; False where the sequence itself had to give way."""
        if self._limits.pages_for(sequence.num_tokens) <= len(sequence.pages):
            return True
        while (pages := self._obtain(1)) is None:
            victim = self._running[-1]
            self._preempt(victim)
            step.preemptions += 1
            if victim is sequence:
                return False
        sequence.pages.extend(pages)
        return True

    def _preempt(self, victim: Sequence) -> None:
        assert len(self._running) > 1, "a sequence that is alone always fits"
        self._running.remove(victim)
        self._vacate(victim)
        victim.computed_len = 0
        self._waiting.appendleft(victim)

    def _give_chunk(self, step: Step, sequence: Sequence) -> None:
        """As many of the sequence's tokens as the step still has room for, perhaps none."""
        start = sequence.computed_len
        stop = min(sequence.num_tokens, start + step.tokens_left, sequence.next_logits + step.logits_left)
        if stop <= start:
            return
        logits_start = max(start, sequence.next_logits)
        step.chunks.append(Chunk(sequence, start, stop, logits_start))
        step.tokens_left -= stop - start
        step.logits_left -= max(0, stop - logits_start)

    def _admit(self, step: Step) -> None:
        """Start waiting sequences while there is room, passing over those that had better wait for another."""
        held: list[Sequence] = []
        growth = sum(self._may_grow(sequence) for sequence in self._running)
        while self._waiting and step.tokens_left > 0 and step.logits_left > 0:
            if len(self._running) >= self._limits.max_sequences or len(held) >= self._limits.max_sequences:
                break
            sequence = self._waiting.popleft()
            tokens = sequence.tokens(0, sequence.num_tokens)
            match = self._cache.match(tokens, sequence.next_logits, sequence.is_long)
            if self._should_hold(sequence, match):
                held.append(sequence)
            elif self._start(step, sequence, match, reserve=growth if self._running else 0):
                growth += self._may_grow(sequence)
            else:
                self._waiting.appendleft(sequence)
                break
        self._waiting.extendleft(reversed(held))

    def _may_grow(self, sequence: Sequence) -> bool:
        """Whether the sequence may need pages beyond those it has: one is kept back for it, against thrashing."""
        return self._limits.pages_for(sequence.max_len) > len(sequence.pages)

    def _should_hold(self, sequence: Sequence, match: Match) -> bool:
        """Whether a running prompt is about to compute enough of this one's tokens to be worth waiting for.

        The other one either gets on with its prompt or loses its place, so the wait ends.
        """
        if not self._cache.shares:
            return False
        target = match.length + self._limits.hold_tokens
        for leader in self._running:
            if not leader.is_prefilling or leader.is_long != sequence.is_long:
                continue
            # What the leader has computed is in the tree already; only what lies behind it is worth a wait.
            shared = max(target, leader.computed_len + 1)
            if shared > min(sequence.next_logits, leader.num_tokens):
                continue
            # The last token first: it tells most of those apart that share nothing.
            last = (shared - 1, shared)
            if leader.tokens(*last) == sequence.tokens(*last) and leader.tokens(0, shared) == sequence.tokens(
                0, shared
            ):
                return True
        return False

    def _start(self, step: Step, sequence: Sequence, match: Match, reserve: int) -> bool:
        """Place a waiting sequence with pages for all its known tokens; False where they cannot be had."""
        pages = self._place(step, sequence, match, reserve)
        if pages is None and match.partial_page is not None:
            # The page to copy from may be the very one that is missing: do without the copy.
            match = Match(match.pages, length=len(match.pages) * self._limits.page_size)
            pages = self._place(step, sequence, match, reserve)
        if pages is None:
            return False
        sequence.pages = pages
        sequence.computed_len = match.length
        if sequence.cached_len is None:
            sequence.cached_len = match.length
            step.cached_tokens += match.length
        self._running.append(sequence)
        self._give_chunk(step, sequence)
        return True

    def _place(self, step: Step, sequence: Sequence, match: Match, reserve: int) -> list[int] | None:
        """Shared and fresh pages for all tokens of ``sequence``, held for it; None, and nothing held, if too few."""
        shared = list(match.pages)
        borrowed = shared if match.partial_page is None else [*shared, match.partial_page]
        for page in borrowed:  # so that eviction cannot take them
            self._allocator.acquire(page)
        fresh = self._obtain(self._limits.pages_for(sequence.num_tokens) - len(shared), reserve)
        if fresh is None:
            for page in borrowed:
                self._allocator.release(page)
            return None
        if match.partial_page is not None:
            # Copies run in order and before anything is written, so the source may be given away at once.
            step.copies.append(Copy(match.partial_page, fresh[0], match.partial_len))
            self._allocator.release(match.partial_page)
        return shared + fresh

    def _obtain(self, count: int, reserve: int = 0) -> list[int] | None:
        """``count`` fresh pages, by eviction if need be, such that ``reserve`` more could be had; else None."""
        if self._allocator.num_available < count + reserve:
            return None
        missing = count - self._allocator.num_free
        if missing > 0:
            evicted = self._cache.evict(missing)
            assert evicted == missing, f"{missing} idle pages asked for, {evicted} evicted"
        else:
            # The first touch of a page costs more than all that is done with it later.
            self._cache.reuse(count - self._allocator.num_warm)
        return [self._allocator.allocate() for _ in range(count)]

    def _vacate(self, sequence: Sequence) -> None:
        self._cache.publish(sequence.tokens(0, sequence.computed_len), sequence.pages, sequence.is_long)
        self._release(sequence)

    def _release(self, sequence: Sequence) -> None:
        # Last page first: of two pages freed the earlier one is then taken first, which keeps runs contiguous.
        for page in reversed(sequence.pages):
            self._allocator.release(page)
        sequence.pages = []
