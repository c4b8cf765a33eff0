"""What one step may hold and what the scheduler put into it. No torch."""

from dataclasses import dataclass, field

from evalcard_engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Limits:
    """What one step may hold."""

    page_size: int
    step_tokens: int
    """Query tokens of a step."""
    step_logits: int
    """Rows of logits of a step; bounds the largest tensor of scoring."""
    max_sequences: int
    draft_rows: int = 0
    """A step of decoding sequences is filled with drafts of what they say next up to so many rows."""
    hold_tokens: int = 32
    """A sequence is held back while another one computes at least this many tokens it could then share."""

    def __post_init__(self) -> None:
        # Every decoding sequence must get its token and its row, else a step could make no progress.
        assert 1 <= self.max_sequences <= min(self.step_tokens, self.step_logits), self
        assert self.page_size >= 1 and self.hold_tokens >= 1, self

    def pages_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.page_size)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens [start, stop) of a sequence are computed this step, and a draft of those that may follow; logits are
    wanted from ``logits_start`` on."""

    sequence: Sequence
    start: int
    stop: int
    logits_start: int
    draft: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """Of all positions that are computed."""
        return self.stop + len(self.draft)

    @property
    def tokens(self) -> tuple[int, ...]:
        """Those at the positions [start, end)."""
        return self.sequence.tokens(self.start, self.stop) + self.draft


@dataclass(frozen=True, slots=True)
class Copy:
    """The first ``count`` slots of ``source`` are copied to ``target`` before the step runs, in list order."""

    source: int
    target: int
    count: int


@dataclass(slots=True)
class Step:
    """One step's work, and what is left of its budget while it is put together."""

    tokens_left: int
    logits_left: int
    chunks: list[Chunk] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    cached_tokens: int = 0
    """Tokens that sequences placed for the first time found in the prefix cache."""
    preemptions: int = 0

    @property
    def num_tokens(self) -> int:
        """Without drafts."""
        return sum(chunk.stop - chunk.start for chunk in self.chunks)

    @property
    def num_rows(self) -> int:
        """All that go through the model."""
        return sum(chunk.end - chunk.start for chunk in self.chunks)
