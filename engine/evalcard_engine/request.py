"""What goes into the engine and what comes out of it: tokens, never text files, tasks or scores.

A request is frozen and named by its ``id``; answers carry the same id and arrive in any order.
"""

from dataclasses import dataclass
from typing import Literal

Finish = Literal["stop", "stop_string", "length", "error"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a sampled answer is drawn. The noise is addressed by (seed, item_key, repeat, position, token)."""

    temperature: float
    seed: int
    item_key: int
    """64-bit hash of the item, so that two models draw the same noise for the same item."""
    repeat: int = 0
    top_p: float = 1.0
    top_k: int = 0
    """0 keeps every token."""
    min_p: float = 0.0


@dataclass(frozen=True, slots=True)
class Generate:
    """Continue ``prompt`` until a stop id, a stop string or ``max_tokens`` new tokens."""

    id: str
    prompt: tuple[int, ...]
    max_tokens: int
    stop_ids: frozenset[int] = frozenset()
    """Ends the answer; the id itself is not part of the text."""
    stop_strings: tuple[str, ...] = ()
    """The text is cut before the first one that appears."""
    sampling: Sampling | None = None
    """None is greedy."""


@dataclass(frozen=True, slots=True)
class Score:
    """Log-probability of each token of ``continuation`` after ``context`` (at least one token each)."""

    id: str
    context: tuple[int, ...]
    continuation: tuple[int, ...]


Request = Generate | Score


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer to a Generate."""

    id: str
    token_ids: tuple[int, ...]
    """New tokens as generated, without the stop id; with a stop string, up to the token that completed it."""
    text: str
    """Detokenized and cut at the stop string; empty where the engine was given no detokenizer."""
    finish: Finish
    prompt_tokens: int
    cached_tokens: int
    """Prompt tokens whose keys and values came from the prefix tree."""
    fault: str | None = None
    """Where the logits stopped being finite, told for the first answer of a run that failed."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The answer to a Score."""

    id: str
    logprobs: tuple[float, ...]
    """Natural logarithm, one for each token of the continuation."""
    is_greedy: bool
    """Whether every token of the continuation was the arg max."""
    prompt_tokens: int
    cached_tokens: int
    finish: Finish = "stop"
    """``error`` where the logits were not finite."""
    fault: str | None = None
    """As of a Completion."""


Answer = Completion | Scored
