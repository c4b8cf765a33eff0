"""Arithmetic on rows of logits in which no row can feel its neighbours, the batch size or the threads.

A floating-point sum depends on the order of its terms, and libraries choose the order by shape and thread
count. Here a row's exponentials are rounded to integers, multiples of 2^-44: their sum is exact in any order
on any device. Maxima are exact anyway. What is left is the exponential itself; torch hands it to a vector
library on the CPU whose result may depend on where in the vector a value lies, numpy's does not.
"""

import math

import numpy as np
import torch

WEIGHT_BITS = 44
"""exp(logit - max) in units of 2^-44: a vocabulary of 2^18 tokens cannot overflow 63 bits."""
MAX_VOCAB = 1 << 18
_CHUNK_BYTES = 64 << 20

NUMERICS = f"rows=exp32-int{WEIGHT_BITS}(numpy {np.__version__})"
"""Names the choices of this module that could change the last digit of a log-probability."""


def finite_rows(logits: torch.Tensor) -> list[bool]:
    """For each row of float32 [rows, vocab] whether every logit is finite."""
    # Both pass NaN on. torch.aminmax says the same and is many times slower on the CPU.
    return (torch.isfinite(logits.amin(dim=-1)) & torch.isfinite(logits.amax(dim=-1))).tolist()


def arg_max(logits: torch.Tensor) -> list[int]:
    """The lowest token id with the largest logit in each row of finite float32 [rows, vocab]."""
    if logits.device.type == "cpu":
        return np.argmax(logits.numpy(), axis=-1).tolist()
    return lowest_arg_max(logits).tolist()


def lowest_arg_max(logits: torch.Tensor) -> torch.Tensor:
    """The same as int64 [rows], where the logits are; any number for rows that are not finite."""
    # torch does not say which of several maxima its argmax returns.
    ids = torch.arange(logits.shape[-1], device=logits.device)
    best = [ids[:0]]
    for rows in logits.split(_rows_at_once(logits)):
        is_max = rows == rows.amax(dim=-1, keepdim=True)
        best.append(torch.where(is_max, ids, logits.shape[-1]).amin(dim=-1))
    return torch.cat(best)


def weights(logits: torch.Tensor) -> torch.Tensor:
    """exp(logit - max) of each row as int64 multiples of 2^-WEIGHT_BITS; float32 [..., vocab] in, same shape out."""
    return in_units(exponentials(logits))


def exponentials(logits: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """exp(logit - max) of each row; float32 [..., vocab] in and out. ``out``: memory for it, where there is some."""
    assert logits.dtype == torch.float32 and logits.shape[-1] <= MAX_VOCAB, (logits.dtype, tuple(logits.shape))
    if logits.device.type != "cpu":
        return (logits - logits.amax(dim=-1, keepdim=True)).exp()
    numbers = logits.numpy()
    greatest = numbers.max(axis=-1, keepdims=True)
    shifted = np.subtract(numbers, greatest, out=None if out is None else out.numpy())
    return torch.from_numpy(np.exp(shifted, out=shifted))


def in_units(exponentials: torch.Tensor) -> torch.Tensor:
    """float32 from 0 to 1 as int64 multiples of 2^-WEIGHT_BITS, cut; nothing is lost of those above 2^-21."""
    return (exponentials * 2.0**WEIGHT_BITS).to(torch.int64)


def log_probabilities(logits: torch.Tensor, rows: list[int], tokens: list[int]) -> list[float]:
    """Natural log-probability of ``tokens[i]`` in row ``rows[i]`` of finite float32 [rows, vocab].

    logit - (max + log(sum exp(logit - max))), the logarithm and the outer sums in float64.
    """
    assert len(rows) == len(tokens), (len(rows), len(tokens))
    if not rows:
        return []
    wanted = sorted(set(rows))
    index = torch.tensor(wanted, device=logits.device)
    totals: list[int] = []
    for some in chunks(logits, index):
        totals += weights(logits[some]).sum(dim=-1).tolist()
    tops = logits.amax(dim=-1)[index].tolist()
    normalizers = [normalizer(top, total) for top, total in zip(tops, totals, strict=True)]
    offset = dict(zip(wanted, normalizers, strict=True))
    picked = logits[torch.tensor(rows, device=logits.device), torch.tensor(tokens, device=logits.device)].tolist()
    return [value - offset[row] for row, value in zip(rows, picked, strict=True)]


def normalizer(top: float, total: int) -> float:
    """The logarithm of the sum of a row's exponentials, from its greatest logit and the sum of its `weights`."""
    return top + math.log(total / (1 << WEIGHT_BITS))


def chunks(logits: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """``index``, int64 [n] of rows, in parts whose `weights` are small enough to be held at once."""
    return index.split(_rows_at_once(logits))


def _rows_at_once(logits: torch.Tensor) -> int:
    """Rows whose int64 weights stay within the chunk size."""
    return max(1, _CHUNK_BYTES // (8 * logits.shape[-1]))
