"""Scored answers: which of an item's choices is right, and which one a model picked."""

from collections.abc import Sequence

from evalcard.results.records import Sample, ScoredChoice, Verdict

_DECIMALS = 3
_BESIDE_UNCONDITIONAL = "acc_mutual_info"
"""A task with this metric asks for each choice's log-probability without the question as well, after the others."""


def alternatives(sample: Sample, verdict: Verdict) -> Sequence[ScoredChoice]:
    """The choices as they follow the question; empty for a generated answer."""
    choices = sample.choices or []
    is_twice = any(score.metric == _BESIDE_UNCONDITIONAL for score in verdict.scores)
    return choices[: len(choices) // 2] if is_twice else choices


def gold_of(choices: Sequence[ScoredChoice], verdict: Verdict) -> int | None:
    """The right one's number; None where the verdict names none of them, or several are worded alike."""
    return _named(choices, verdict.target)


def pick_of(choices: Sequence[ScoredChoice], verdict: Verdict) -> int | None:
    """By what was extracted, as a metric may weigh choices by their length; else the likeliest, the first of equals.

    None for a text that is scored as a whole.
    """
    if len(choices) < 2:
        return None
    named = _named(choices, verdict.extracted or "")
    if named is not None:
        return named
    scored = [(one.logprob, -number) for number, one in enumerate(choices) if one.logprob is not None]
    return -max(scored)[1] if scored else None


def rounded(choices: Sequence[ScoredChoice]) -> list[float | None]:
    """Log-probabilities as they are shown; None where the logits were not finite."""
    return [None if one.logprob is None else round(one.logprob, _DECIMALS) for one in choices]


def _named(choices: Sequence[ScoredChoice], text: str) -> int | None:
    wanted = text.strip()
    found = [number for number, one in enumerate(choices) if wanted and one.text.strip() == wanted]
    return found[0] if len(found) == 1 else None
