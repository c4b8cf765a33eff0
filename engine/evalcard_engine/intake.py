"""Requests become sequences: checked whole before anything runs, and merged where they ask for one computation."""

import math
from collections.abc import Sequence as Several

from evalcard_engine.answers import GenerateSequence, ScoreSequence
from evalcard_engine.errors import EngineError
from evalcard_engine.request import Generate, Request, Sampling, Score
from evalcard_engine.stopping import Detokenize

_MIN_TEMPERATURE = 1e-3


def check_requests(requests: Several[Request], *, vocab_size: int, max_positions: int, has_detokenizer: bool) -> None:
    """Raise EngineError for the first request that cannot be answered as asked."""
    seen: set[str] = set()
    # The choices of an item share their context, the very tuple: looking through it once is enough.
    sound: set[int] = set()
    for request in requests:
        if request.id in seen:
            raise EngineError(f"request id {request.id!r} is given twice; ids name the answers and must be unique.")
        seen.add(request.id)
        if isinstance(request, Generate):
            _check_generate(request, has_detokenizer)
            fields, longest = {"prompt": request.prompt}, len(request.prompt) + request.max_tokens
        else:
            fields = {"context": request.context, "continuation": request.continuation}
            longest = len(request.context) + len(request.continuation)
        for name, tokens in fields.items():
            if id(tokens) not in sound:
                _check_tokens(request.id, name, tokens, vocab_size)
                sound.add(id(tokens))
        if longest > max_positions + 1:  # the last token is only predicted, it takes no position
            raise EngineError(
                f"request {request.id!r} needs {longest - 1} positions, the model has {max_positions}; "
                f"shorten the prompt or ask for fewer new tokens."
            )


def _check_tokens(request_id: str, name: str, tokens: tuple[int, ...], vocab_size: int) -> None:
    if not tokens:
        raise EngineError(f"request {request_id!r} has an empty {name}; at least one token is needed.")
    low, high = min(tokens), max(tokens)
    if low < 0 or high >= vocab_size:
        raise EngineError(
            f"request {request_id!r} has token {low if low < 0 else high} in its {name}; the model knows 0 to "
            f"{vocab_size - 1}. Is this another model's tokenizer?"
        )


def _check_generate(request: Generate, has_detokenizer: bool) -> None:
    if request.max_tokens < 1:
        raise EngineError(f"request {request.id!r} has max_tokens {request.max_tokens}; it must be at least 1.")
    if "" in request.stop_strings:
        raise EngineError(f"request {request.id!r} has an empty stop string, which would end every answer at once.")
    if request.stop_strings and not has_detokenizer:
        raise EngineError(f"request {request.id!r} has stop strings; give run() a detokenize function to find them.")
    if request.sampling is not None:
        _check_sampling(request.id, request.sampling)


def _check_sampling(request_id: str, sampling: Sampling) -> None:
    allowed = {
        "temperature": (sampling.temperature >= _MIN_TEMPERATURE and math.isfinite(sampling.temperature)),
        "top_p": 0 < sampling.top_p <= 1,
        "top_k": sampling.top_k >= 0,
        "min_p": 0 <= sampling.min_p <= 1,
        "repeat": 0 <= sampling.repeat < 1 << 32,
    }
    for name, fits in allowed.items():
        if not fits:
            raise EngineError(
                f"request {request_id!r} has {name} {getattr(sampling, name)}; allowed: temperature from "
                f"{_MIN_TEMPERATURE} (greedy is sampling=None), 0 < top_p <= 1, top_k >= 0, 0 <= min_p <= 1, "
                f"0 <= repeat < 2^32."
            )


def sequences_of(
    requests: Several[Request], detokenize: Detokenize | None = None, short_positions: int | None = None
) -> list[GenerateSequence | ScoreSequence]:
    """One sequence for each Generate, and one for all Score requests with the same input tokens.

    short_positions: tokens up to which a sequence's positions are encoded for short ones; None where there is no such
    choice. It is made here once, by the most tokens that a sequence can come to.
    """
    sequences: list[GenerateSequence | ScoreSequence] = []
    scores: dict[tuple[int, ...], list[Score]] = {}
    groups: dict[tuple[int, tuple[int, ...]], list[Score]] = {}
    for request in requests:
        if isinstance(request, Generate):
            sequences.append(GenerateSequence.of(request, detokenize))
        else:
            # Hashing a prompt looks through all of it: choices that share the very tuple need that once.
            place = id(request.context), request.continuation[:-1]
            if place not in groups:
                groups[place] = scores.setdefault(request.context + request.continuation[:-1], [])
            groups[place].append(request)
    sequences.extend(ScoreSequence.of(tuple(group)) for group in scores.values())
    for sequence in sequences:
        sequence.is_long = short_positions is not None and sequence.max_len > short_positions
    return sequences
