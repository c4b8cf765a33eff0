"""The scheduler against a world that remembers which token was written to which slot."""

import random

import pytest

from evalcard_engine.cache.pages import PageAllocator
from evalcard_engine.cache.prefix import NoReuse
from evalcard_engine.cache.prefix_tree import PrefixTree
from evalcard_engine.scheduler import Scheduler
from evalcard_engine.sequence import Sequence
from evalcard_engine.step import Limits, Step


def next_token(history: tuple[int, ...]) -> int:
    """The world's language model: a pure function of every token before."""
    return hash(history) % 3


def answer(prompt: tuple[int, ...], count: int) -> list[int]:
    """What a sequence must generate, by definition."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(next_token(tuple(tokens)))
    return tokens[len(prompt) :]


class Drafting(Sequence):
    """Drafts what the world's model will say, but for a wrong token now and then."""

    def draft(self, most: int) -> tuple[int, ...]:
        known = list(self.tokens(0, self.num_tokens))
        for _ in range(min(most, 5)):
            known.append(next_token(tuple(known)) + (len(known) % 7 == 0))
        return tuple(known[self.num_tokens :])


class World:
    """Runs the scheduler's steps on a dictionary of slots and checks every read against the sequence's tokens."""

    def __init__(self, num_pages: int, *, page_size: int = 4, cache=PrefixTree, **limits: int) -> None:
        defaults = {"step_tokens": 16, "step_logits": 64, "max_sequences": 8, "hold_tokens": 1}
        self.limits = Limits(page_size=page_size, **{**defaults, **limits})
        self.allocator = PageAllocator(num_pages)
        self.cache = cache(self.allocator, page_size)
        self.scheduler = Scheduler(self.allocator, self.cache, self.limits)
        self.slots: dict[tuple[int, int], tuple[int, bool]] = {}
        self.goals: dict[Sequence, int] = {}
        self.live: list[Sequence] = []
        self.finished: list[Sequence] = []
        self.steps: list[Step] = []
        self.accepted = 0

    def generate(self, *prompts: tuple[int, ...], count: int = 1, kind: type[Sequence] = Sequence) -> list[Sequence]:
        return self._add([kind(prompt, len(prompt) - 1, len(prompt) + count - 1) for prompt in prompts], count)

    def score(self, prompt: tuple[int, ...], first: int) -> Sequence:
        return self._add([Sequence(prompt, first, len(prompt))], 0)[0]

    def _add(self, sequences: list[Sequence], count: int) -> list[Sequence]:
        self.goals.update(dict.fromkeys(sequences, count))
        self.live.extend(sequences)
        self.scheduler.add(sequences)
        return sequences

    def step(self) -> Step:
        step = self.scheduler.next_step()
        self._check(step)
        for copy in step.copies:
            for offset in range(copy.count):
                self.slots[copy.target, offset] = self.slots[copy.source, offset]
        for chunk in step.chunks:
            for position, token in enumerate(chunk.tokens, start=chunk.start):
                assert position < max(chunk.sequence.max_len, chunk.sequence.num_tokens)
                self.slots[self._slot(chunk.sequence, position)] = token, chunk.sequence.is_long
        histories = [self._read(chunk.sequence, chunk.stop) for chunk in step.chunks]
        self.scheduler.complete(step)
        for chunk, history in zip(step.chunks, histories, strict=True):
            self._advance(chunk, history)
        self.steps.append(step)
        return step

    def _slot(self, sequence: Sequence, position: int) -> tuple[int, int]:
        return sequence.pages[position // self.limits.page_size], position % self.limits.page_size

    def _read(self, sequence: Sequence, length: int) -> tuple[int, ...]:
        found = [self.slots[self._slot(sequence, position)] for position in range(length)]
        history = tuple(token for token, _ in found)
        assert history == sequence.tokens(0, length)
        assert all(is_long == sequence.is_long for _, is_long in found), "encoded for sequences of the other kind"
        return history

    def _advance(self, chunk, history: tuple[int, ...]) -> None:
        sequence = chunk.sequence
        if self.goals[sequence] and chunk.stop == sequence.num_tokens:
            sequence.generated.append(next_token(history))
            for token in chunk.draft:
                if token != sequence.generated[-1] or len(sequence.generated) >= self.goals[sequence]:
                    break
                sequence.computed_len += 1
                self.accepted += 1
                sequence.generated.append(next_token(self._read(sequence, sequence.computed_len)))
            sequence.next_logits = sequence.num_tokens - 1
        elif not self.goals[sequence]:
            assert chunk.logits_start == max(chunk.start, sequence.next_logits), (
                "a row of logits is skipped or repeated"
            )
            sequence.next_logits = max(sequence.next_logits, chunk.stop)
        done = len(sequence.generated) >= self.goals[sequence] if self.goals[sequence] else not sequence.remaining_len
        if done:
            self.scheduler.finish(sequence)
            self.live.remove(sequence)
            self.finished.append(sequence)

    def _check(self, step: Step) -> None:
        assert 1 <= step.num_tokens <= step.num_rows <= self.limits.step_tokens
        # With those of the answers that have none: drafts fill a step, they do not come on top of a full one.
        answers = [chunk for chunk in step.chunks if chunk.stop - chunk.start == 1 and chunk.sequence.generated]
        assert step.num_rows == step.num_tokens or sum(c.end - c.start for c in answers) <= self.limits.draft_rows
        rows = sum(max(0, chunk.end - chunk.logits_start) for chunk in step.chunks)
        assert rows <= self.limits.step_logits
        assert len({id(chunk.sequence) for chunk in step.chunks}) == len(step.chunks)
        assert sum(bool(sequence.pages) for sequence in self.live) <= self.limits.max_sequences
        holders = [0] * self.allocator.num_pages
        for sequence in self.live:
            assert len(set(sequence.pages)) == len(sequence.pages)
            for page in sequence.pages:
                holders[page] += 1
        assert holders == [self.allocator.holders(page) for page in range(self.allocator.num_pages)]

    def run(self) -> None:
        while self.scheduler.has_work:
            self.step()
        assert not self.live and self.allocator.num_used == 0
        assert self.allocator.num_available == self.allocator.num_pages

    @property
    def computed(self) -> int:
        return sum(step.num_tokens for step in self.steps)

    @property
    def preemptions(self) -> int:
        return sum(step.preemptions for step in self.steps)


def tokens(rng: random.Random, length: int) -> tuple[int, ...]:
    return tuple(rng.randrange(1000) for _ in range(length))


@pytest.mark.parametrize(("num_pages", "draft_rows"), [(60, 0), (60, 3), (60, 100), (13, 100), (13, 4)])
@pytest.mark.parametrize("step_tokens", [4, 7, 40])
def test_drafts_take_no_page_and_no_place_from_anybody(num_pages, draft_rows, step_tokens):
    """Many answers at a time, some with drafts, where pages are many and where they run out."""
    rng = random.Random(num_pages + draft_rows)
    world = World(num_pages, step_tokens=step_tokens, max_sequences=4, draft_rows=draft_rows)
    shared = tokens(rng, 9)
    prompts = [shared + tokens(rng, rng.randrange(1, 9)) for _ in range(12)]
    made = world.generate(*prompts[:8], count=20, kind=Drafting) + world.generate(*prompts[8:], count=20)
    world.run()
    for sequence in made:
        assert sequence.generated == answer(sequence.prompt, 20)
    assert (world.accepted > 0) == (draft_rows > 0)
    if num_pages == 13:
        assert world.preemptions > 0


@pytest.mark.parametrize("length", [1, 3, 4, 5, 7, 13, 16, 17, 31, 64])
@pytest.mark.parametrize("step_tokens", [1, 3, 4, 5, 16])
def test_prompts_of_every_length_are_computed_once_in_chunks(length, step_tokens):
    world = World(32, step_tokens=step_tokens, max_sequences=1)
    (sequence,) = world.generate(tokens(random.Random(length), length), count=6)
    world.run()
    assert sequence.generated == answer(sequence.prompt, 6)
    assert world.computed == length + 5
    prompt_chunks = [chunk for step in world.steps for chunk in step.chunks if chunk.start < length]
    assert len(prompt_chunks) == -(-length // step_tokens)


def test_decoding_sequences_get_their_token_before_any_prompt():
    world = World(64, step_tokens=8)
    (first,) = world.generate((1, 2, 3), count=9)
    world.step()
    world.generate(tuple(range(10, 40)), count=1)
    for _ in range(4):
        step = world.step()
        assert step.chunks[0].sequence is first and step.chunks[0].stop - step.chunks[0].start == 1
        assert step.num_tokens == 8, "what decoding leaves goes to the prompt"


def test_no_more_sequences_than_allowed_are_in_flight():
    world = World(64, max_sequences=2, step_tokens=64)
    world.generate(*[(i, i, i) for i in range(7)], count=3)
    world.run()
    assert max(len(step.chunks) for step in world.steps) == 2
    assert len(world.finished) == 7


def test_rows_of_logits_are_bounded_and_none_is_lost():
    world = World(64, step_tokens=64, step_logits=5, max_sequences=3)
    sequences = [world.score(tuple(range(base, base + 17)), first=2) for base in (0, 100, 200)]
    world.run()
    assert all(sequence.next_logits == 17 for sequence in sequences)
    rows = [sum(max(0, chunk.stop - chunk.logits_start) for chunk in step.chunks) for step in world.steps]
    assert sum(rows) == 3 * 15 and max(rows) == 5


def test_followers_wait_for_the_leader_and_compute_only_what_is_their_own():
    rng = random.Random(0)
    shots = tokens(rng, 50)
    world = World(200, step_tokens=40, max_sequences=40)
    world.generate(*[(*shots, 1000 + i, 1, 2) for i in range(40)])
    world.run()
    assert world.computed == 50 + 40 * 3


def test_a_follower_does_not_hold_up_those_behind_it():
    world = World(64, step_tokens=30)
    shared = tuple(range(20))
    world.generate((*shared, 50), (*shared, 60), (90, 91, 92))
    first = world.step()
    assert [chunk.sequence.prompt[0] for chunk in first.chunks] == [0, 90]
    second = world.step()
    assert [(chunk.start, chunk.stop) for chunk in second.chunks] == [(20, 21)]


def test_without_a_prefix_cache_nobody_waits():
    world = World(64, step_tokens=64, cache=NoReuse)
    shared = tuple(range(20))
    world.generate((*shared, 50), (*shared, 60))
    assert len(world.step().chunks) == 2
    world.run()
    assert world.computed == 42


def test_little_in_common_is_not_worth_waiting_for():
    world = World(64, step_tokens=64, hold_tokens=8)
    world.generate((*range(7), 50, 51), (*range(7), 60, 61), (*range(100, 108), 50), (*range(100, 108), 60))
    assert [chunk.sequence.prompt[0] for chunk in world.step().chunks] == [0, 0, 100]
    world.run()


def test_a_branch_inside_a_page_is_copied_and_both_sides_stay_right():
    world = World(64, step_tokens=64)
    left, right = world.generate((1, 2, 3, 4, 5, 6, 7), (1, 2, 3, 4, 5, 6, 8), count=5)
    world.run()
    copies = [copy for step in world.steps for copy in step.copies]
    assert [copy.count for copy in copies] == [2]
    assert left.generated == answer(left.prompt, 5) and right.generated == answer(right.prompt, 5)


def test_the_same_prompt_twice_computes_its_last_token_twice():
    world = World(64, step_tokens=64)
    first, second = world.generate((1, 2, 3, 4, 5, 6, 7, 8), (1, 2, 3, 4, 5, 6, 7, 8))
    world.run()
    assert (first.cached_len, second.cached_len) == (0, 7)
    assert world.computed == 9


def test_an_answer_can_be_the_prefix_of_a_later_prompt():
    world = World(64)
    (first,) = world.generate((1, 2, 3), count=8)
    world.run()
    (second,) = world.generate((*first.prompt, *first.generated, 4))
    world.run()
    assert second.cached_len == 10, "the last new token was never fed back, so it is not in the cache"


def test_scores_never_take_a_wanted_row_from_the_cache():
    world = World(64, step_tokens=64)
    prompt = tuple(range(12))
    world.score(prompt, first=11)
    world.run()
    again = world.score(prompt, first=6)
    world.run()
    assert again.cached_len == 6 and again.next_logits == 12


def test_when_pages_run_out_the_youngest_gives_way_and_loses_no_token():
    world = World(8, step_tokens=8, max_sequences=4)
    sequences = world.generate(*[(10 * i, 10 * i + 1, 10 * i + 2) for i in range(4)], count=20)
    world.run()
    assert world.preemptions > 0
    assert [sequence.generated for sequence in sequences] == [answer(sequence.prompt, 20) for sequence in sequences]
    assert world.finished[0] is sequences[0], "the oldest is never preempted"


def test_a_preempted_score_keeps_the_rows_it_has():
    world = World(8, step_tokens=4, max_sequences=3)
    world.generate((1, 2, 3), count=30)
    world.step()
    score = world.score(tuple(range(100, 124)), first=1)
    world.run()
    rows = [c.stop - c.logits_start for step in world.steps for c in step.chunks if c.sequence is score]
    assert world.preemptions == 1 and score.next_logits == 24
    assert sum(max(0, count) for count in rows) == 23


def test_idle_pages_are_evicted_before_anyone_is_preempted():
    world = World(6, step_tokens=64, max_sequences=1)
    for base in range(0, 1000, 100):
        world.generate(tuple(range(base, base + 20)), count=4)
        world.run()
    assert world.preemptions == 0 and len(world.finished) == 10


@pytest.mark.parametrize("stem_len", [8, 11])
def test_pages_nobody_waits_for_are_used_again_before_memory_that_was_never_touched(stem_len):
    """What a stem's followers share is kept as long as one of them waits, on a page's border or within it; the pages
    of their own they pass on to each other."""
    rng = random.Random(5)
    stem = tokens(rng, stem_len)
    followers = [stem + (token,) + tokens(rng, 4) for token in range(1, 40)]
    world = World(200, max_sequences=4)
    world.generate(*followers, tokens(rng, 30), count=3)
    world.run()
    distinct = stem_len + sum(len(follower) - stem_len for follower in followers) + 30
    assert world.computed <= distinct + 2 * 40 + 4
    assert 200 - world.allocator.num_warm - world.allocator.num_idle >= 170


def test_an_answer_that_a_waiting_prompt_goes_on_from_is_kept():
    world = World(40, max_sequences=1)
    rng = random.Random(6)
    prompt = tokens(rng, 9)
    first = prompt + tuple(answer(prompt, 7))
    world.generate(prompt, count=7)
    world.generate(first + (3,) * 4, *[(60 + n,) * 12 for n in range(4)], count=1)
    world.run()
    assert world.finished[-1].cached_len is not None
    assert max(sequence.cached_len or 0 for sequence in world.finished) >= len(first) - 2


def test_a_page_is_kept_back_for_each_sequence_that_may_grow():
    world = World(4, step_tokens=64, max_sequences=4)
    world.generate((1, 2, 3, 4), (5, 6, 7, 8), (9, 10, 11, 12), count=5)
    assert len(world.step().chunks) == 2, "two prompts and a page for each to grow fill the pool"
    world.run()
    assert world.preemptions == 0


def test_a_page_to_copy_from_may_be_the_one_that_is_missing():
    world = World(2, step_tokens=64)
    world.generate((1, 2, 3, 4, 5, 6, 7))
    world.run()
    (second,) = world.generate((1, 2, 3, 4, 5, 6, 8))
    world.run()
    assert second.cached_len == 4 and second.generated == answer(second.prompt, 1)


def test_abort_frees_every_page_and_keeps_what_was_published():
    world = World(32, step_tokens=8)
    world.generate(tuple(range(20)), tuple(range(50, 60)), count=4)
    world.step()
    world.scheduler.abort()
    assert world.allocator.num_used == 0 and not world.scheduler.has_work
    world.live.clear()
    (again,) = world.generate(tuple(range(20)), count=4)
    world.run()
    assert again.cached_len == 8 and again.generated == answer(again.prompt, 4)


def test_limits_that_could_starve_a_sequence_are_refused():
    with pytest.raises(AssertionError):
        Limits(page_size=4, step_tokens=3, step_logits=8, max_sequences=4)
    with pytest.raises(AssertionError):
        Limits(page_size=4, step_tokens=8, step_logits=3, max_sequences=4)


@pytest.mark.parametrize("seed", range(12))
def test_random_load_ends_with_the_right_answers_and_every_page_free(seed):
    """Waves of prompts out of few stems against a pool that holds only some of them: hundreds of steps a seed."""
    rng = random.Random(seed)
    page_size = rng.choice([1, 2, 4, 8])
    limits = {
        "max_sequences": rng.randrange(1, 9),
        "step_tokens": rng.randrange(9, 40),
        "hold_tokens": rng.choice([1, 6]),
    }
    cache = NoReuse if seed % 4 == 0 else PrefixTree
    world = World(-(-88 // page_size) + rng.choice([0, 0, 1, 5, 9]), page_size=page_size, cache=cache, **limits)
    stems = [tuple(rng.randrange(3) for _ in range(rng.randrange(1, 40))) for _ in range(5)]
    for _ in range(40):
        for _ in range(rng.randrange(9)):
            stem = rng.choice(stems)
            prompt = stem[: rng.randrange(1, len(stem) + 1)] + tuple(rng.randrange(3) for _ in range(rng.randrange(12)))
            if rng.random() < 0.3:
                world.score(prompt, first=rng.randrange(len(prompt)))
            else:
                world.generate(prompt, count=rng.randrange(1, 38))
        for _ in range(rng.randrange(60)):
            if world.scheduler.has_work:
                world.step()
    world.run()
    assert len(world.steps) > 400 and world.finished
    for sequence in world.finished:
        assert sequence.generated == answer(sequence.prompt, world.goals[sequence])
    world.cache.clear()
    assert world.allocator.num_free == world.allocator.num_pages


def test_sequences_encoded_for_another_length_share_nothing_and_do_not_wait_for_each_other():
    world = World(64, step_tokens=64)
    prompt = tuple(range(20))
    short, long, again = (Sequence(prompt, 19, 20, is_long=is_long) for is_long in (False, True, True))
    world._add([short, long, again], 1)
    first = world.step()
    assert {id(chunk.sequence) for chunk in first.chunks} == {id(short), id(long)}
    world.run()
    assert (short.cached_len, long.cached_len, again.cached_len) == (0, 0, 19)


@pytest.mark.parametrize("seed", range(8))
def test_long_and_short_sequences_in_any_order(seed: int):
    rng = random.Random(seed)
    world = World(24, page_size=4)
    for _ in range(12):
        length = rng.randrange(1, 24)
        prompt = tuple(rng.randrange(2) for _ in range(length))
        world._add([Sequence(prompt, length - 1, length + 4, is_long=rng.random() < 0.5)], rng.randrange(1, 6))
        if rng.random() < 0.5:
            world.step()
    world.run()
    for sequence in world.finished:
        assert sequence.generated == answer(sequence.prompt, world.goals[sequence])
