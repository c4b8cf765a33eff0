"""Packed integers: there and back, and what they stand for."""

import pytest
import torch

from evalcard_engine.quant.elements import (
    CODEBOOK4,
    FP4_E2M1,
    FP8_E4M3,
    INT4,
    INT8,
    pack_integers,
    pack_nibbles,
    unpack_integers,
    unpack_nibbles,
)
from evalcard_engine.quant.weight import QuantizedWeight


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (16, 2), (5, 128), (2, 0)])
def test_int4_goes_there_and_back(shape: tuple[int, int]) -> None:
    values = torch.randint(-8, 8, shape, dtype=torch.int8, generator=torch.Generator().manual_seed(0))
    packed = pack_integers(values)
    assert packed.dtype == torch.uint8 and packed.shape == (shape[0], (shape[1] + 1) // 2)
    assert torch.equal(unpack_integers(packed, shape[1]), values)


def test_every_byte_of_two_nibbles() -> None:
    """Low nibble first, value + 8: the layout that kernels and formats rely on."""
    values = torch.tensor([[-8, 7, 0, -1, 3]], dtype=torch.int8)
    assert pack_integers(values).tolist() == [[0xF0, 0x78, 0x8B]]
    every = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(1, -1)
    assert torch.equal(pack_integers(unpack_integers(every, 512)), every)


def value_of(weight: QuantizedWeight, row: int, column: int) -> float:
    """What one code stands for, by its bits."""
    if weight.element.storage == "nibbles":
        code = int(weight.codes[row, column // 2]) >> (4 * (column % 2)) & 15
        values = weight.element.values if weight.codebook is None else weight.codebook.tolist()
        return float(code - 8) if values is None else float(values[code])
    return float(weight.codes[row, column])


def by_hand(weight: QuantizedWeight) -> torch.Tensor:
    """The definition, one value at a time."""
    out, width = weight.out_features, weight.in_features
    found = torch.empty(out, width)
    for row in range(out):
        for column in range(width):
            group = column // weight.group_size if weight.group_index is None else int(weight.group_index[column])
            place = (row // weight.row_block, group)
            if weight.is_flat:
                place = (0, (row * width + column) // weight.group_size)
            value = torch.tensor(value_of(weight, row, column))
            if weight.zero_points is not None:
                value = value - weight.zero_points[place].float()
            value = value * weight.scales[place].float()
            found[row, column] = value if weight.offsets is None else value + weight.offsets[place].float()
    return found


def codes_of(element, shape: tuple[int, int], generator: torch.Generator) -> torch.Tensor:
    if element.storage == "nibbles":
        return pack_nibbles(torch.randint(0, 16, shape, generator=generator).to(torch.uint8))
    if element is INT8:
        return torch.randint(-128, 128, shape, generator=generator).to(torch.int8)
    return torch.randn(shape, generator=generator).to(torch.float8_e4m3fn)


@pytest.mark.parametrize("element", [INT4, INT8, FP8_E4M3, FP4_E2M1, CODEBOOK4], ids=lambda element: element.name)
@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize("layout", ["groups", "index", "blocks", "flat"])
def test_dequantize_is_the_definition(element, has_zeros: bool, layout: str) -> None:
    generator = torch.Generator().manual_seed(0)
    shape = {"groups": (5, 3), "index": (5, 3), "blocks": (3, 3), "flat": (1, 13)}[layout]
    zeros = torch.randint(-8, 8, shape, dtype=torch.int8, generator=generator)
    weight = QuantizedWeight(
        codes=codes_of(element, (5, 10), generator),
        element=element,
        scales=torch.rand(shape, generator=generator).bfloat16(),
        group_size=4,
        in_features=10,
        zero_points=zeros if has_zeros else None,
        offsets=torch.rand(shape, generator=generator) if has_zeros else None,
        group_index=torch.tensor([2, 0, 1, 1, 0, 2, 2, 1, 0, 0]) if layout == "index" else None,
        codebook=torch.randn(16, generator=generator) if element is CODEBOOK4 else None,
        row_block=2 if layout == "blocks" else 1,
        is_flat=layout == "flat",
    )
    assert torch.equal(weight.dequantize(), by_hand(weight))


def test_nibbles_of_codes_go_there_and_back() -> None:
    codes = torch.arange(15, dtype=torch.uint8).view(3, 5)
    assert torch.equal(unpack_nibbles(pack_nibbles(codes), 5), codes)


def test_bytes_count_everything_that_is_held() -> None:
    weight = QuantizedWeight(
        codes=pack_integers(torch.zeros(4, 6, dtype=torch.int8)),
        element=INT4,
        scales=torch.ones(4, 2, dtype=torch.bfloat16),
        group_size=3,
        in_features=6,
        zero_points=torch.zeros(4, 2, dtype=torch.int8),
        group_index=torch.zeros(6, dtype=torch.int64),
    )
    assert weight.num_bytes == 4 * 3 + 4 * 2 * 2 + 4 * 2 + 6 * 8


@pytest.mark.parametrize(
    ("codes", "element", "scales", "more"),
    [
        (torch.zeros(2, 4, dtype=torch.int8), INT8, (2, 2), {}),
        (torch.zeros(2, 4, dtype=torch.int8), INT4, (2, 1), {}),
        (torch.zeros(2, 4, dtype=torch.int8), INT8, (2, 1), {"row_block": 2}),
        (torch.zeros(2, 4, dtype=torch.int8), INT8, (2, 1), {"zero_points": torch.zeros(1, 1)}),
        (torch.zeros(2, 2, dtype=torch.uint8), CODEBOOK4, (2, 1), {}),
    ],
    ids=["groups", "storage", "blocks", "zeros", "codebook"],
)
def test_parts_that_do_not_fit_are_refused(codes: torch.Tensor, element, scales: tuple[int, int], more: dict) -> None:
    with pytest.raises(AssertionError):
        QuantizedWeight(codes, element, torch.ones(scales), 4, 4, **more)
