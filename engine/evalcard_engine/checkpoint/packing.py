"""Integers packed into 32-bit words, as GPTQ, AWQ and compressed-tensors store them."""

import sys

import torch

AWQ_NIBBLES = (0, 4, 1, 5, 2, 6, 3, 7)
"""The nibble, from the low end of a word, that holds each of its eight columns (AutoAWQ's gemm layout)."""


def unpack_padded(words: torch.Tensor, bits: int, count: int) -> torch.Tensor:
    """int32 [rows, words] -> uint8 [rows, count]: 32 // bits codes a word from its low end, the rest of it unused."""
    assert words.dtype == torch.int32 and words.dim() == 2, (words.dtype, tuple(words.shape))
    per_word = 32 // bits
    assert words.shape[1] == -(-count // per_word), (tuple(words.shape), bits, count)
    if 8 % bits == 0 and sys.byteorder == "little":  # no code straddles a byte: a quarter of the memory
        shifts = torch.arange(8 // bits, dtype=torch.uint8) * bits
        codes = (words.reshape(-1).view(torch.uint8)[:, None] >> shifts) & (2**bits - 1)
        return codes.view(words.shape[0], -1)[:, :count]
    shifts = torch.arange(per_word, dtype=torch.int32) * bits
    codes = (words[:, :, None] >> shifts) & (2**bits - 1)
    return codes.reshape(words.shape[0], -1)[:, :count].to(torch.uint8)


def unpack_dense(words: torch.Tensor, bits: int, count: int) -> torch.Tensor:
    """int32 [rows, words] -> uint8 [rows, count]: one stream of bits from the low end, codes may straddle words."""
    assert words.dtype == torch.int32 and words.dim() == 2, (words.dtype, tuple(words.shape))
    assert words.shape[1] == dense_words(bits, count), (tuple(words.shape), bits, count)
    # 64 bits that begin at a word hold every code that begins in it; the next word lends its low half.
    low = words.long() & 0xFFFFFFFF
    following = torch.nn.functional.pad(low, (0, 1))[:, 1:]
    wide = low | (following & 0xFF) << 32
    starts = torch.arange(count) * bits
    codes = (wide[:, starts // 32] >> (starts % 32)) & (2**bits - 1)
    return codes.to(torch.uint8)


def unpack_awq(words: torch.Tensor) -> torch.Tensor:
    """int32 [rows, words] -> uint8 [rows, 8 * words]: codes of 4 bits in AutoAWQ's gemm order."""
    in_place = unpack_padded(words, 4, 8 * words.shape[1]).view(words.shape[0], -1, 8)
    return in_place[:, :, AWQ_NIBBLES].reshape(words.shape[0], -1)


def dense_words(bits: int, count: int) -> int:
    """32-bit words that ``count`` codes take in one stream."""
    return -(-count * bits // 32)


def padded_words(bits: int, count: int) -> int:
    """32-bit words that ``count`` codes take where none straddles."""
    return -(-count // (32 // bits))


def signed(codes: torch.Tensor, bits: int) -> torch.Tensor:
    """uint8 codes 0 .. 2^bits - 1 as int8, the middle of the range taken off."""
    return (codes.to(torch.int16) - 2 ** (bits - 1)).to(torch.int8)
