"""The one mutable thing inside the engine: a sequence on its way through the scheduler. No torch."""

from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class Sequence:
    """Tokens, how many of them are computed, and the pages that hold their keys and values.

    Position p lives in slot p % page_size of pages[p // page_size]. A prompt never changes; tokens are only
    appended, to ``generated``.
    """

    prompt: tuple[int, ...]
    next_logits: int
    """The first position whose logits are still wanted. Nothing from here on may come from the prefix tree."""
    max_len: int
    """The most tokens whose keys and values it can ever need."""
    generated: list[int] = field(default_factory=list)
    computed_len: int = 0
    """Keys and values of tokens [0, computed_len) are in ``pages``."""
    pages: list[int] = field(default_factory=list)
    cached_len: int | None = None
    """Prompt tokens taken from the prefix tree when it was first placed; None before that."""
    is_long: bool = False
    """Whether its positions are encoded for long sequences, from its first token on (longrope)."""

    @property
    def num_tokens(self) -> int:
        return len(self.prompt) + len(self.generated)

    @property
    def newest(self) -> int:
        """The last token."""
        return self.generated[-1] if self.generated else self.prompt[-1]

    @property
    def remaining_len(self) -> int:
        """Tokens that are known and not computed."""
        return self.num_tokens - self.computed_len

    @property
    def is_prefilling(self) -> bool:
        """Whether tokens of the prompt, or of what a preemption took away, are still to be computed.

        A sequence that decodes has exactly one token left, its newest.
        """
        return self.remaining_len > 1 or self.computed_len < len(self.prompt)

    def draft(self, most: int) -> tuple[int, ...]:
        """At most ``most`` tokens that may come next; none where nobody could tell."""
        return ()

    def tokens(self, start: int, stop: int) -> tuple[int, ...]:
        """Tokens [start, stop) of prompt and generated part together."""
        assert 0 <= start <= stop <= self.num_tokens, (start, stop, self.num_tokens)
        border = len(self.prompt)
        if stop <= border:
            return self.prompt[start:stop]
        return self.prompt[start:border] + tuple(self.generated[max(0, start - border) : stop - border])
