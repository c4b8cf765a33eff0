"""What a list of requests will cost, from their tokens alone. No torch."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from evalcard_engine.cache.prefix_tree import common_prefix_len
from evalcard_engine.request import Generate, Request
from evalcard_engine.sequence import Sequence
from evalcard_engine.step import Limits


@dataclass(frozen=True, slots=True)
class Plan:
    """A forecast from tokens alone."""

    requests: int
    computations: int
    """Distinct inputs: Score requests with equal input tokens are one."""
    prompt_tokens: int
    """Input tokens of all requests, each counted in full."""
    tokens_to_compute: int
    """Input tokens when a shared prefix counts once: a lower bound, as prefixes too short to be worth sharing and
    those lost to eviction are computed again."""
    max_new_tokens: int
    """The most tokens the Generate requests may add."""
    pages: int
    """Pages of the KV cache the engine would make for these requests."""
    kv_bytes: int
    """Their memory."""


def input_len(request: Request) -> int:
    """Tokens a request feeds to the model before its first new one."""
    if isinstance(request, Generate):
        return len(request.prompt)
    return len(request.context) + len(request.continuation) - 1


def tokens_to_compute(sequences: Iterable[Sequence], shares: bool) -> int:
    """Input tokens of all sequences, a prefix shared with an earlier one in sorted order not counted again."""
    total = 0
    previous: Sequence | None = None
    for sequence in sorted(sequences, key=lambda sequence: (sequence.is_long, sequence.prompt)):
        # Beside it in sorted order stands the sequence that shares most.
        is_alike = shares and previous is not None and previous.is_long == sequence.is_long
        shared = common_prefix_len(previous.prompt, sequence.prompt) if previous is not None and is_alike else 0
        total += len(sequence.prompt) - min(shared, sequence.next_logits)
        previous = sequence
    return total


def working_pages(sequences: Iterable[Sequence], limits: Limits) -> int:
    """Pages with which the sequences run without waiting for memory: the largest that can be in flight together."""
    needs = (limits.pages_for(sequence.max_len) for sequence in sequences)
    return sum(heapq.nlargest(limits.max_sequences, needs))
