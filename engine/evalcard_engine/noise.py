"""Noise by address: the same (key, position, repeat, token) gives the same number in any batch on any day.

Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011) turns a
128-bit counter and a 64-bit key into four 32-bit words. A token's word is word ``token % 4`` of the counter
(token // 4, position in the answer, repeat, 0).
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from evalcard_engine.native import sampling

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF
_ROUNDS = 10

GUMBEL_MIN = -2.82
"""Below the smallest noise there is, -log(24 log 2)."""
GUMBEL_MAX = 16.64
"""Above the largest noise there is, -log(-log(1 - 2^-24))."""


def noise_key(seed: int, item_key: int) -> int:
    """The 64-bit Philox key of an item under a seed: BLAKE2b over both as 64-bit little-endian words."""
    words = [(value & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little") for value in (seed, item_key)]
    return int.from_bytes(hashlib.blake2b(b"".join(words), digest_size=8).digest(), "little")


def philox(blocks: torch.Tensor, tail: tuple[int, int, int], key: int) -> torch.Tensor:
    """Philox4x32-10 of the n counters (blocks[i], *tail), all 32-bit values: int64 [n] -> int64 [4, n]."""
    columns = [torch.full_like(blocks, word) for word in tail]
    return _philox([blocks, *columns], [torch.full_like(blocks, half) for half in _halves(key)])


def _philox(counter: list[torch.Tensor], key: list[torch.Tensor]) -> torch.Tensor:
    """The four words of each counter, int64 [n], and the two halves of its key: int64 [4, n]."""
    if counter[0].device.type == "cpu":
        words, halves = ([part.numpy().astype(np.uint64) for part in parts] for parts in (counter, key))
        return torch.from_numpy(np.stack(_rounds(words, (halves[0], halves[1]), _multiply_uint64)).astype(np.int64))
    return torch.stack(_rounds(counter, (key[0], key[1]), multiply_halves))


def _halves(key: int) -> tuple[int, int]:
    return key & _WORD, key >> 32


def _rounds(counter: list, key: tuple[Any, Any], multiply: Callable) -> list:
    """The ten rounds, on numpy arrays or torch tensors alike; ``key``: its low and its high half."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        high0, low0 = multiply(_MULTIPLIERS[0], c0)
        high1, low1 = multiply(_MULTIPLIERS[1], c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + _WEYL[0]) & _WORD, (k1 + _WEYL[1]) & _WORD
    return [c0, c1, c2, c3]


def _multiply_uint64(factor: int, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """High and low 32 bits of factor * words."""
    product = words * np.uint64(factor)
    return product >> np.uint64(32), product & np.uint64(_WORD)


def multiply_halves(factor: int, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """High and low 32 bits of factor * words, in halves of 16 bits: torch has no uint64 arithmetic to rely on."""
    low = (words & 0xFFFF) * factor
    high = (words >> 16) * factor + (low >> 16)
    return high >> 16, ((high & 0xFFFF) << 16) | (low & 0xFFFF)


def gumbel_noise(token_ids: torch.Tensor, *, key: int, position: int, repeat: int) -> torch.Tensor:
    """Standard Gumbel noise, float32 [n], of the ascending int64 [n] ``token_ids`` at one place of one answer.

    u = ((word >> 9) + 0.5) * 2^-23 is exact in float32 and never 0 or 1; -log(-log u) is taken in float64.
    """
    return gumbel_noises([token_ids], keys=[key], positions=[position], repeats=[repeat])


def gumbel_noises(
    token_ids: Sequence[torch.Tensor], *, keys: Sequence[int], positions: Sequence[int], repeats: Sequence[int]
) -> torch.Tensor:
    """`gumbel_noise` of several answers, one behind the other: each has its ids, key, position and repeat."""
    device = token_ids[0].device
    if device.type == "cpu" and sampling.serves():
        addresses = zip(token_ids, keys, positions, repeats, strict=True)
        return _gumbel(torch.cat([_words(*address) for address in addresses]))
    columns = [
        [key & _WORD for key in keys],
        [key >> 32 for key in keys],
        [position & _WORD for position in positions],
        [repeat & _WORD for repeat in repeats],
    ]
    lengths = torch.tensor([len(ids) for ids in token_ids], device=device)
    answers = torch.arange(len(token_ids), device=device).repeat_interleave(lengths)
    ids = torch.cat(list(token_ids))
    # A block of four words serves all of its tokens that an answer asks for.
    blocks, inverse = torch.unique_consecutive(answers << 32 | ids >> 2, return_inverse=True)
    low, high, place, repeat = torch.tensor(columns, device=device)[:, blocks >> 32]
    words = _philox([blocks & _WORD, place, repeat, torch.zeros_like(place)], [low, high])
    return _gumbel(words.flatten()[(ids & 3) * blocks.shape[0] + inverse])


def _words(ids: torch.Tensor, key: int, position: int, repeat: int) -> torch.Tensor:
    return sampling.philox_words(ids.contiguous(), *_halves(key), position & _WORD, repeat & _WORD)


def gumbel_rows(
    vocab: int, low: torch.Tensor, high: torch.Tensor, position: torch.Tensor, repeat: torch.Tensor
) -> torch.Tensor:
    """Row by row the noise of all tokens, float32 [n, vocab]; low and high: int64 [n], the halves of the keys."""
    blocks = torch.arange(-(-vocab // 4), device=low.device)[None]
    columns = [part[:, None] for part in (low, high, position, repeat)]
    counter = [blocks, *columns[2:], torch.zeros_like(columns[3])]
    words = torch.stack(_rounds(counter, (columns[0], columns[1]), multiply_halves), dim=-1)
    return _gumbel(words.flatten(1)[:, :vocab])


def _gumbel(words: torch.Tensor) -> torch.Tensor:
    uniform = ((words >> 9).double() + 0.5) * 2.0**-23
    return (-elementwise_log(-elementwise_log(uniform))).float()


def elementwise_log(values: torch.Tensor) -> torch.Tensor:
    """Natural logarithm of float64 values; on the CPU through numpy, for the reason given in rows.py."""
    if values.device.type != "cpu":
        return values.log()
    return torch.from_numpy(np.log(values.numpy()))
