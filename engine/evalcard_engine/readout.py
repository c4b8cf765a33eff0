"""From a step's logits to new tokens and log-probabilities, and from those to the answers that are now complete."""

from collections.abc import Iterator
from typing import NamedTuple

import torch

from evalcard_engine import rows as row_math
from evalcard_engine.answers import GenerateSequence, ScoreSequence
from evalcard_engine.request import Answer
from evalcard_engine.runner import Row
from evalcard_engine.sampler import sample
from evalcard_engine.sequence import Sequence


class Ended(NamedTuple):
    """A sequence that wants nothing more, and its answers."""

    sequence: Sequence
    answers: list[Answer]


def read_out(rows: list[Row], logits: torch.Tensor) -> Iterator[Ended]:
    """Feed each row of ``logits`` (float32 [len(rows), vocab]) to its sequence; yields sequences as they end.

    Rows with a logit that is not finite end a generation with "error" and make a score an error.
    """
    if not rows:
        return
    finite = row_math.finite_rows(logits)
    greedy = row_math.arg_max(logits)
    scores = _score(rows, logits, finite)
    for index, row in enumerate(rows):
        sequence = row.sequence
        if isinstance(sequence, ScoreSequence):
            sequence.record(row.position, scores.get(index), greedy[index])
            if sequence.next_logits == sequence.num_tokens:
                yield Ended(sequence, list(sequence.scored()))
            continue
        assert isinstance(sequence, GenerateSequence), type(sequence)
        if not finite[index]:
            yield Ended(sequence, [sequence.complete("error")])
            continue
        sampling, position = sequence.request.sampling, len(sequence.generated)
        token = greedy[index] if sampling is None else sample(logits[index], sampling, position)
        completion = sequence.accept(token)
        if completion is not None:
            yield Ended(sequence, [completion])


def _score(rows: list[Row], logits: torch.Tensor, finite: list[bool]) -> dict[int, list[float]]:
    """By row of a ScoreSequence with finite logits, the log-probabilities of its targets."""
    targets = {
        index: [token for _, token in row.sequence.targets(row.position)]
        for index, row in enumerate(rows)
        if isinstance(row.sequence, ScoreSequence) and finite[index]
    }
    flat_rows = [index for index, tokens in targets.items() for _ in tokens]
    flat_tokens = [token for tokens in targets.values() for token in tokens]
    values = iter(row_math.log_probabilities(logits, flat_rows, flat_tokens))
    return {index: [next(values) for _ in tokens] for index, tokens in targets.items()}
