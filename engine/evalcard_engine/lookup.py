"""Drafts of what a greedy answer says next: what followed the last time that its newest tokens stood in its text.

Answers quote their prompt and repeat themselves. A step checks a draft behind a sequence's known token at little more
than the cost of that token, and each draft token that is the model's own choice saves a step (prompt lookup, a form of
speculative decoding: Leviathan et al., arXiv 2211.17192; Saxena, 2023). Where rows do not know their company, as on
the CPU, no answer depends on it.
"""

from collections.abc import Sequence

MATCH = 4
"""Newest tokens that must have stood before."""

FIRST_DRAFT = 4
MOST_DRAFT = 16
"""Tokens of a draft: as many as were right the last time, and twice as many after one that was right as a whole."""

FIRST_PAUSE = 2
MOST_PAUSE = 64
"""Tokens without a draft after one that was wrong from its first token on; twice as many after the next such."""


class Lookup:
    """Where the runs of MATCH tokens of one sequence end, the latest of each, and how well drafts have done."""

    def __init__(self) -> None:
        self._ends: dict[tuple[int, ...], int] = {}
        self._known_len = 0
        self._draft_len = FIRST_DRAFT
        self._pause = FIRST_PAUSE
        self._next_len = 0

    def draft(self, tokens: Sequence[int], most: int) -> tuple[int, ...]:
        """At most ``most`` tokens that may follow ``tokens``, which only ever grow from call to call."""
        self._learn(tokens)
        if most < 1 or len(tokens) < max(MATCH + 1, self._next_len):
            return ()
        end = self._ends.get(tuple(tokens[-MATCH:]))
        if end is None:
            return ()
        length = min(most, self._draft_len)
        followed = list(tokens[end : end + length])
        while len(followed) < length:  # a text that goes in circles goes on with its own draft
            followed.append(followed[len(followed) - (len(tokens) - end)])
        return tuple(followed)

    def checked(self, drafted: int, accepted: int) -> None:
        """So many of the last draft's tokens were right."""
        if accepted:
            self._pause = FIRST_PAUSE
            self._draft_len = min(MOST_DRAFT, 2 * self._draft_len) if accepted == drafted else accepted
        else:
            self._draft_len = 1
            self._next_len = self._known_len + self._pause
            self._pause = min(MOST_PAUSE, 2 * self._pause)

    def _learn(self, tokens: Sequence[int]) -> None:
        """All runs but the newest, which is what is looked for."""
        for end in range(max(MATCH, self._known_len), len(tokens)):
            self._ends[tuple(tokens[end - MATCH : end])] = end
        self._known_len = len(tokens)
