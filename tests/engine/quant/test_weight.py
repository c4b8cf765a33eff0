"""Packed integers: there and back, and what they stand for."""

import pytest
import torch

from evalcard_engine.quant.scheme import SCHEMES
from evalcard_engine.quant.weight import QuantizedWeight, pack_int4, unpack_int4


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (16, 2), (5, 128), (2, 0)])
def test_int4_goes_there_and_back(shape: tuple[int, int]) -> None:
    values = torch.randint(-8, 8, shape, dtype=torch.int8, generator=torch.Generator().manual_seed(0))
    packed = pack_int4(values)
    assert packed.dtype == torch.uint8 and packed.shape == (shape[0], (shape[1] + 1) // 2)
    assert torch.equal(unpack_int4(packed, shape[1]), values)


def test_every_byte_of_two_nibbles() -> None:
    """Low nibble first, value + 8: the layout that kernels and formats rely on."""
    values = torch.tensor([[-8, 7, 0, -1, 3]], dtype=torch.int8)
    assert pack_int4(values).tolist() == [[0xF0, 0x78, 0x8B]]
    every = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(1, -1)
    assert torch.equal(pack_int4(unpack_int4(every, 512)), every)


def by_hand(weight: QuantizedWeight) -> torch.Tensor:
    """The definition, one value at a time."""
    integers = weight.integers()
    out = torch.empty(integers.shape)
    for row in range(integers.shape[0]):
        for column in range(integers.shape[1]):
            group = column // weight.group_size if weight.group_index is None else int(weight.group_index[column])
            zero = 0 if weight.zero_points is None else int(weight.zero_points[row, group])
            out[row, column] = (int(integers[row, column]) - zero) * float(weight.scales[row, group])
    return out


@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize("has_index", [False, True])
def test_dequantize_is_the_definition(has_zeros: bool, has_index: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(-8, 8, (3, 9), dtype=torch.int8, generator=generator)
    weight = QuantizedWeight(
        packed=pack_int4(values),
        scales=torch.rand(3, 3, generator=generator),
        zero_points=torch.randint(-8, 8, (3, 3), dtype=torch.int8, generator=generator) if has_zeros else None,
        group_index=torch.tensor([2, 0, 1, 1, 0, 2, 2, 1, 0]) if has_index else None,
        group_size=3,
        in_features=9,
        scheme=SCHEMES["w4a16"],
    )
    assert torch.equal(weight.dequantize(), by_hand(weight))


def test_bytes_count_everything_that_is_stored() -> None:
    weight = QuantizedWeight(
        pack_int4(torch.zeros(4, 6, dtype=torch.int8)),
        torch.ones(4, 2, dtype=torch.bfloat16),
        torch.zeros(4, 2, dtype=torch.int8),
        torch.zeros(6, dtype=torch.int64),
        3,
        6,
        SCHEMES["w4a16"],
    )
    assert weight.num_bytes == 4 * 3 + 4 * 2 * 2 + 4 * 2 + 6 * 8


def test_parts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(AssertionError):
        QuantizedWeight(torch.zeros(2, 4, dtype=torch.int8), torch.ones(2, 2), None, None, 4, 4, SCHEMES["w8a8"])
    with pytest.raises(AssertionError):
        QuantizedWeight(torch.zeros(2, 4, dtype=torch.int8), torch.ones(2, 1), None, None, 4, 4, SCHEMES["w4a16"])
