"""From a step's logits to new tokens and log-probabilities, and from those to the answers that are now complete."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from evalcard_engine import device_numbers
from evalcard_engine import rows as row_math
from evalcard_engine.answers import GenerateSequence, ScoreSequence
from evalcard_engine.device_numbers import Asked, Numbers
from evalcard_engine.draws import Draw
from evalcard_engine.request import Answer
from evalcard_engine.runner import Row
from evalcard_engine.sampler import sample_rows
from evalcard_engine.sequence import Sequence


class Ended(NamedTuple):
    """A sequence that wants nothing more, and its answers."""

    sequence: Sequence
    answers: list[Answer]


class Readout:
    """A step's logits on their way to its sequences: a GPU works on while the host does something else."""

    def __init__(self, rows: list[Row], logits: torch.Tensor) -> None:
        """Begin to read ``logits``, float32 [len(rows), vocab]; no sequence is touched."""
        self._rows = rows
        self._asked = _asked(rows)
        self._collect = _begin(logits, self._asked) if rows else None
        self._numbers: Numbers | None = None

    def collect(self) -> None:
        """Wait for the device. After this `finish` asks for no more of its memory; no sequence is touched yet."""
        if self._collect is not None:
            self._numbers, self._collect = self._collect(), None

    def finish(self) -> Iterator[Ended]:
        """Feed each row to its sequence; yields sequences as they end. Waits for the device.

        Rows with a logit that is not finite end a generation with "error" and make a score an error.
        """
        self.collect()
        numbers = self._numbers
        if numbers is None:
            return
        logprobs = iter(numbers.logprobs)
        drawn = dict(zip(self._asked.draw_rows, numbers.drawn, strict=True))
        for index, row in enumerate(self._rows):
            sequence, is_finite = row.sequence, numbers.finite[index]
            if isinstance(sequence, ScoreSequence):
                found = [next(logprobs) for _ in sequence.targets(row.position)]
                sequence.record(row.position, found if is_finite else None, numbers.greedy[index])
                if sequence.next_logits == sequence.num_tokens:
                    yield Ended(sequence, list(sequence.scored()))
                continue
            assert isinstance(sequence, GenerateSequence), type(sequence)
            if not is_finite:
                yield Ended(sequence, [sequence.complete("error")])
                continue
            completion = sequence.accept(drawn.get(index, numbers.greedy[index]))
            if completion is not None:
                yield Ended(sequence, [completion])


def _asked(rows: list[Row]) -> Asked:
    """What sequences want of their rows; a draw's position is that of the token it may become."""
    score_rows, score_tokens, draw_rows, draws = [], [], [], []
    for index, row in enumerate(rows):
        sequence = row.sequence
        if isinstance(sequence, ScoreSequence):
            for _, token in sequence.targets(row.position):
                score_rows.append(index)
                score_tokens.append(token)
        elif isinstance(sequence, GenerateSequence) and sequence.request.sampling is not None:
            draw_rows.append(index)
            draws.append(Draw(sequence.request.sampling, len(sequence.generated)))
    return Asked(score_rows, score_tokens, draw_rows, draws)


def _begin(logits: torch.Tensor, asked: Asked) -> Callable[[], Numbers]:
    if logits.device.type == "cpu":
        return lambda: _numbers(logits, asked)
    return device_numbers.begin(logits, asked).collect


def _numbers(logits: torch.Tensor, asked: Asked) -> Numbers:
    """On the CPU, where asking costs nothing: what is not finite is left out, and a draw looks at few tokens."""
    finite = row_math.finite_rows(logits)
    scored = [place for place, row in enumerate(asked.score_rows) if finite[row]]
    found = row_math.log_probabilities(
        logits, [asked.score_rows[place] for place in scored], [asked.score_tokens[place] for place in scored]
    )
    logprobs = dict(zip(scored, found, strict=True))
    drawing = [place for place, row in enumerate(asked.draw_rows) if finite[row]]
    tokens = sample_rows(
        logits, [asked.draw_rows[place] for place in drawing], [asked.draws[place] for place in drawing]
    )
    drawn = dict(zip(drawing, tokens, strict=True))
    greedy = row_math.arg_max(logits)
    return Numbers(
        finite,
        greedy,
        [logprobs.get(place, float("nan")) for place in range(len(asked.score_rows))],
        [drawn.get(place, 0) for place in range(len(asked.draw_rows))],
    )
