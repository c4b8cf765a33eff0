"""Every block type stands for what gguf-py says it does, to the last bit."""

import numpy as np
import pytest
import torch

from evalcard_engine.checkpoint.gguf_blocks import BLOCK_TYPES, IQ4_VALUES, read_blocks

gguf = pytest.importorskip("gguf", reason="the reference of every type is the format's own library")

HALVES = {
    "Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q2_K": (80, 82), "Q3_K": (108,),
    "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,),
}  # fmt: skip
"""Where a block has its half-precision numbers."""


def reference(raw: np.ndarray, kind: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return gguf.dequantize(raw, gguf.GGMLQuantizationType[kind])


def test_every_promised_type_is_read() -> None:
    assert set(BLOCK_TYPES) == set(HALVES)


@pytest.mark.parametrize("kind", BLOCK_TYPES)
@pytest.mark.parametrize(("rows", "blocks"), [(1, 1), (37, 3), (2, 11)])
def test_random_bytes_equal_the_library_bit_for_bit(kind: str, rows: int, blocks: int) -> None:
    block = BLOCK_TYPES[kind]
    raw = np.random.default_rng(rows).integers(0, 256, (rows, blocks * block.num_bytes), dtype=np.uint8)
    expected = reference(raw, kind)
    found = read_blocks(torch.from_numpy(raw), kind, blocks * block.block_size).dequantize().numpy()
    number = ~np.isnan(expected)
    assert number.any() and (np.isnan(found) == ~number).all()
    assert (found.view(np.uint32) == expected.view(np.uint32))[number].all()


@pytest.mark.parametrize("kind", BLOCK_TYPES)
def test_every_code_of_every_group_counts(kind: str) -> None:
    """Ordinary scales, so that no infinity hides a wrong code; codes lie within their element."""
    block = BLOCK_TYPES[kind]
    raw = np.random.default_rng(9).integers(0, 256, (64, block.num_bytes), dtype=np.uint8)
    for at in HALVES[kind]:
        raw[:, at : at + 2] = np.linspace(-2, 3, 64, dtype=np.float16).view(np.uint8).reshape(64, 2)
    weight = read_blocks(torch.from_numpy(raw), kind, block.block_size)
    assert np.array_equal(weight.dequantize().numpy(), reference(raw, kind))
    if weight.element.is_integer:
        low, high = weight.element.limits
        assert (int(weight.integers().min()), int(weight.integers().max())) == (low, high)
    assert weight.scales.shape == (64, block.block_size // block.group_size)


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_what_the_library_quantizes_comes_back(kind: str) -> None:
    values = np.random.default_rng(1).normal(size=(16, 96)).astype(np.float32)
    raw = gguf.quantize(values, gguf.GGMLQuantizationType[kind])
    weight = read_blocks(torch.from_numpy(raw), kind, 96)
    step = float(weight.scales.float().abs().max())
    assert np.abs(weight.dequantize().numpy() - values).max() <= 1.01 * step


def test_by_hand() -> None:
    """Q4_1: d = 0.5, m = -1; the first byte holds values 0 (low nibble) and 16 (high nibble)."""
    block = np.zeros(20, dtype=np.uint8)
    block[:4] = np.array([0.5, -1.0], dtype=np.float16).view(np.uint8)
    block[4] = 0x73
    weight = read_blocks(torch.from_numpy(block)[None], "Q4_1", 32)
    found = weight.dequantize()[0]
    assert (found[0], found[16]) == (0.5, 2.5) and set(found[[*range(1, 16), *range(17, 32)]].tolist()) == {-1.0}
    assert weight.scheme == "Q4_1 (int4, groups of 32, asymmetric)"


def test_the_codebook_is_that_of_the_library() -> None:
    assert gguf.quants.IQ4_NL.kvalues == IQ4_VALUES
