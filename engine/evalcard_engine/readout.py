"""From a step's logits to new tokens and log-probabilities, and from those to the answers that are now complete."""

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import NamedTuple

import torch

from evalcard_engine import device_numbers
from evalcard_engine import rows as row_math
from evalcard_engine.answers import GenerateSequence, ScoreSequence
from evalcard_engine.device_numbers import Asked, Numbers
from evalcard_engine.draws import Draw
from evalcard_engine.request import Answer, Completion
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
        self.drafted = 0
        """Rows of draft tokens, and how many of those were right; known once `finish` has come to its end."""
        self.accepted = 0

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
        chosen = [drawn.get(index, token) for index, token in enumerate(numbers.greedy)]
        for _, group in groupby(enumerate(self._rows), key=lambda pair: id(pair[1].sequence)):
            rows = list(group)
            sequence = rows[0][1].sequence
            if isinstance(sequence, ScoreSequence):
                for index, row in rows:
                    found = [next(logprobs) for _ in sequence.targets(row.position)]
                    sequence.record(row.position, found if numbers.finite[index] else None, numbers.greedy[index])
                if sequence.next_logits == sequence.num_tokens:
                    yield Ended(sequence, list(sequence.scored()))
                continue
            assert isinstance(sequence, GenerateSequence), type(sequence)
            completion = self._extend(sequence, rows, numbers.finite, chosen)
            if completion is not None:
                yield Ended(sequence, [completion])

    def _extend(
        self, sequence: GenerateSequence, rows: list[tuple[int, Row]], finite: list[bool], chosen: list[int]
    ) -> Completion | None:
        """Append what rows choose, as long as each stands behind the token that was chosen before it."""
        completion, used = None, 0
        for index, row in rows:
            if row.draft is not None and (row.position != sequence.num_tokens - 1 or row.draft != sequence.newest):
                break
            used += 1
            sequence.computed_len = max(sequence.computed_len, row.position + 1)
            completion = sequence.accept(chosen[index]) if finite[index] else sequence.complete("error")
            if completion is not None:
                break
        drafted, accepted = len(rows) - 1, used - 1
        sequence.checked(drafted, accepted)
        self.drafted += drafted
        self.accepted += accepted
        return completion


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
