"""Integers in 32-bit words against a slow definition that places one bit after the other."""

import pytest
import torch

from evalcard_engine.checkpoint.packing import dense_words, padded_words, signed, unpack_dense, unpack_padded

COUNTS = [1, 3, 7, 8, 15, 16, 17, 31, 32, 33, 64, 97, 127, 128]


def some_codes(bits: int, count: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(1000 * bits + count)
    rows = torch.randint(0, 2**bits, (3, count), generator=generator).tolist()
    return [[2**bits - 1] * count, *rows]


def to_words(rows: list[list[int]], bits: int, starts: list[int], num_words: int) -> torch.Tensor:
    """Code i of a row has its lowest bit at position starts[i] of the row's words."""
    packed = []
    for row in rows:
        words = [0] * num_words
        for code, start in zip(row, starts, strict=True):
            for bit in range(bits):
                words[(start + bit) // 32] |= (code >> bit & 1) << (start + bit) % 32
        packed.append([word - 2**32 if word >= 2**31 else word for word in words])
    return torch.tensor(packed, dtype=torch.int32)


@pytest.mark.parametrize("bits", range(1, 9))
def test_dense_words_are_one_stream_of_bits(bits: int) -> None:
    for count in COUNTS:
        rows = some_codes(bits, count)
        num_words = -(-(bits * count) // 32)
        assert dense_words(bits, count) == num_words
        words = to_words(rows, bits, [bits * i for i in range(count)], num_words)
        assert unpack_dense(words, bits, count).tolist() == rows


@pytest.mark.parametrize("bits", range(1, 9))
def test_padded_words_hold_whole_codes_only(bits: int) -> None:
    each = 32 // bits
    for count in COUNTS:
        rows = some_codes(bits, count)
        num_words = -(-count // each)
        assert padded_words(bits, count) == num_words
        words = to_words(rows, bits, [i // each * 32 + i % each * bits for i in range(count)], num_words)
        assert unpack_padded(words, bits, count).tolist() == rows


@pytest.mark.parametrize("bits", range(2, 9))
def test_signed_codes_span_the_integers_of_their_width(bits: int) -> None:
    codes = torch.arange(2**bits, dtype=torch.uint8)
    assert signed(codes, bits).tolist() == list(range(-(2 ** (bits - 1)), 2 ** (bits - 1)))


@pytest.mark.parametrize("bits", range(1, 9))
def test_the_librarys_own_words(bits: int) -> None:
    helpers = pytest.importorskip(
        "compressed_tensors.compressors.pack_quantized.helpers", reason="the library whose packing is read"
    )
    for count in COUNTS:
        values = torch.tensor(some_codes(bits, count)) - 2 ** (bits - 1)
        words = helpers.pack_to_int32(values.to(torch.int8), bits)
        assert torch.equal(unpack_dense(words, bits, count).long() - 2 ** (bits - 1), values)
