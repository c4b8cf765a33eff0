"""What a step's logits come to, reckoned where they lie: nothing waits for a GPU but the one copy at the end."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from evalcard_engine import rows as row_math
from evalcard_engine.draws import Draw, draw
from evalcard_engine.transfer import send


@dataclass(frozen=True, slots=True)
class Asked:
    """What is wanted of rows of logits besides whether they are finite and their most likely token."""

    score_rows: Sequence[int]
    """Of `score_tokens`, one by one."""
    score_tokens: Sequence[int]
    draw_rows: Sequence[int]
    draws: Sequence[Draw]


@dataclass(frozen=True, slots=True)
class Numbers:
    """By row, by (score_rows, score_tokens), by draw. Of rows that are not finite only that is known."""

    finite: list[bool]
    greedy: list[int]
    logprobs: list[float]
    """NaN where the row is not finite."""
    drawn: list[int]


@dataclass(frozen=True, slots=True)
class Pending:
    """`Numbers` on their way."""

    asked: Asked
    num_rows: int
    wanted: list[int]
    """The rows that are scored, each once."""
    packed: torch.Tensor
    """int64 on the device: finite and greedy by row; totals and greatest logits by wanted row, and picked logits, both
    as float64; drawn tokens."""

    def collect(self) -> Numbers:
        """Waits for the device, once."""
        host = self.packed.cpu()
        sizes = [self.num_rows, self.num_rows, len(self.wanted), len(self.wanted), len(self.asked.score_rows)]
        finite, greedy, totals, tops, picked, drawn = host.split([*sizes, len(self.asked.draws)])
        is_finite = [bool(one) for one in finite.tolist()]
        tops_read, picked_read = (part.view(torch.float64).tolist() for part in (tops, picked))
        normalizers = {
            row: row_math.normalizer(top, total)
            for row, top, total in zip(self.wanted, tops_read, totals.tolist(), strict=True)
            if is_finite[row]
        }
        logprobs = [
            value - normalizers[row] if row in normalizers else math.nan
            for row, value in zip(self.asked.score_rows, picked_read, strict=True)
        ]
        return Numbers(is_finite, greedy.tolist(), logprobs, drawn.tolist())


def begin(logits: torch.Tensor, asked: Asked) -> Pending:
    """Start on float32 [rows, vocab]; what is in ``asked`` goes over by a copy that is not waited for."""
    wanted = sorted(set(asked.score_rows))
    numbers = (wanted, asked.score_rows, asked.score_tokens, asked.draw_rows)
    index, rows, tokens, draw_rows = send([np.asarray(one, np.int64) for one in numbers], logits.device)
    top = logits.amax(dim=-1)
    finite = torch.isfinite(logits.amin(dim=-1)) & torch.isfinite(top)
    parts = [finite.long(), row_math.lowest_arg_max(logits)]
    if wanted:
        parts += [torch.cat([row_math.weights(logits[some]).sum(dim=-1) for some in row_math.chunks(logits, index)])]
        parts += [value.double().view(torch.int64) for value in (top[index], logits[rows, tokens])]
    if asked.draws:
        parts.append(draw(logits, draw_rows, asked.draws))
    return Pending(asked, logits.shape[0], wanted, torch.cat(parts))
