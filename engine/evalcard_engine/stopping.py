"""Stop strings: found in a short tail while an answer grows, decided on the whole text.

Detokenizing is a function of all tokens (a character may be spread over several, a space may depend on what
came before), so a hit in the tail is only a suspicion; the text of an answer is always that of all its tokens.
"""

from collections.abc import Callable, Sequence

Detokenize = Callable[[Sequence[int]], str]

_MARGIN = 16
"""Characters at the start of a tail that are not relied on: cut characters, dropped spaces."""


def cut_at_stop(text: str, stop_strings: tuple[str, ...]) -> str | None:
    """``text`` up to where the first stop string begins; None where there is none."""
    starts = [start for start in map(text.find, stop_strings) if start >= 0]
    return text[: min(starts)] if starts else None


class StopWatch:
    """Watches one answer for stop strings; each token costs a detokenization of the tail only."""

    def __init__(self, stop_strings: tuple[str, ...], detokenize: Detokenize) -> None:
        assert stop_strings and all(stop_strings), stop_strings
        self._stop_strings = stop_strings
        self._detokenize = detokenize
        self._needed = max(map(len, stop_strings)) + _MARGIN
        self._tail_start = 0

    def is_hit(self, token_ids: Sequence[int]) -> bool:
        """Whether the answer so far, one token longer than at the last call, contains a stop string."""
        tail = self._detokenize(token_ids[self._tail_start :])
        if cut_at_stop(tail, self._stop_strings) is not None:
            return cut_at_stop(self._detokenize(token_ids), self._stop_strings) is not None
        if len(tail) > 4 * self._needed:
            self._shorten(token_ids)
        return False

    def _shorten(self, token_ids: Sequence[int]) -> None:
        """Drop the older half of the tail if the newer half is long enough to hold any stop string."""
        middle = (self._tail_start + len(token_ids)) // 2
        if len(self._detokenize(token_ids[middle:])) >= self._needed:
            self._tail_start = middle
