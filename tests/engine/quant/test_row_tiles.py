"""Rows of a packed weight against the weight's own definition, in every bit; and what is kept of it in memory."""

import pytest
import torch

from evalcard_engine.quant.elements import CODEBOOK4, ELEMENTS, Element, code_dtype, code_width
from evalcard_engine.quant.floats import NF4
from evalcard_engine.quant.quantize import quantize
from evalcard_engine.quant.row_tiles import RowTiles, narrow
from evalcard_engine.quant.scheme import parse_scheme
from evalcard_engine.quant.weight import QuantizedWeight

GENERATOR = torch.Generator().manual_seed(11)


def codes(element: Element, out: int, width: int) -> torch.Tensor:
    """Every code there is of a byte, NaN of the fp8 elements left out."""
    found = torch.randint(0, 256, (out, code_width(element, width)), dtype=torch.uint8, generator=GENERATOR)
    if element.name == "fp8_e4m3":
        found[(found & 0x7F) == 0x7F] = 0x7E
    if element.name == "fp8_e5m2":
        found[(found & 0x7F) > 0x7C] = 0x7C  # infinity stays
    return found.view(code_dtype(element))


def weight(element: str, out: int, width: int, group: int, **changes) -> QuantizedWeight:
    kind = ELEMENTS[element]
    blocks = (-(-out // changes.get("row_block", 1)), -(-width // group))
    if changes.get("is_flat"):
        blocks = (1, -(-out * width // group))
    numbers = {name: torch.randn(blocks, generator=GENERATOR) for name in ("zero_points", "offsets") if name in changes}
    book = torch.tensor(NF4) if kind is CODEBOOK4 else None
    scales = torch.rand(blocks, generator=GENERATOR) + 0.01
    return QuantizedWeight(codes(kind, out, width), kind, scales, group, width, codebook=book, **{**changes, **numbers})


def assert_same_rows(held: QuantizedWeight) -> None:
    expected, tiles = held.dequantize(), RowTiles(held)
    out, width = expected.shape
    for start, stop in ((0, out), (0, 1), (out - 1, out), (out // 3, out // 3 + max(out // 2, 1))):
        into = torch.full((stop - start, width), torch.nan)
        tiles.fill(start, stop, into)
        same = into.view(torch.int32) == expected[start:stop].contiguous().view(torch.int32)
        assert bool(same.all()), (start, stop, into[~same][:4], expected[start:stop][~same][:4])


@pytest.mark.parametrize("element", sorted(ELEMENTS))
@pytest.mark.parametrize(("out", "width", "group"), [(24, 96, 32), (7, 33, 33), (5, 50, 16), (1, 2, 1)])
def test_every_element(element: str, out: int, width: int, group: int) -> None:
    """Groups that divide a row and such that do not, odd widths, one row."""
    assert_same_rows(weight(element, out, width, group))


@pytest.mark.parametrize("element", ["int4", "int8", "fp8_e4m3", "codebook4"])
def test_zero_points_and_offsets_in_their_order(element: str) -> None:
    assert_same_rows(weight(element, 12, 64, 16, zero_points=True, offsets=True))
    assert_same_rows(weight(element, 12, 60, 16, zero_points=True, offsets=True))


@pytest.mark.parametrize("row_block", [3, 8, 24])
def test_blocks_of_rows(row_block: int) -> None:
    assert_same_rows(weight("fp8_e4m3", 23, 40, 16, row_block=row_block, offsets=True))


def test_groups_by_index() -> None:
    index = torch.randint(0, 4, (64,), generator=GENERATOR)
    assert_same_rows(weight("int4", 9, 64, 16, group_index=index, zero_points=True))


@pytest.mark.parametrize(("width", "group"), [(96, 32), (96, 64), (33, 64), (33, 7)])
def test_a_flat_line_of_groups(width: int, group: int) -> None:
    assert_same_rows(weight("codebook4", 10, width, group, is_flat=True, offsets=True))


def test_a_nan_among_the_codes_stays_one() -> None:
    held = weight("fp8_e4m3", 4, 16, 16)
    held.codes.view(torch.uint8)[2, 5] = 0xFF
    tiles, into = RowTiles(held), torch.empty(4, 16)
    tiles.fill(0, 4, into)
    assert bool(into[2, 5].isnan()) and int(into.isnan().sum()) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int8])
def test_numbers_come_back_as_they_were(dtype: torch.dtype) -> None:
    numbers = (torch.randn(40, 30, generator=GENERATOR) * 50).to(dtype)
    held = narrow(numbers)
    assert torch.equal(held.floats(slice(3, 9)), numbers[3:9].float())
    assert torch.equal(held.floats(torch.tensor([5, 5, 39])), numbers[[5, 5, 39]].float())
    assert held.held.itemsize == dtype.itemsize and held.held.data_ptr() != numbers.data_ptr()


def test_numbers_are_held_as_narrow_as_they_are() -> None:
    many = torch.randn(64, 64, generator=GENERATOR)
    assert narrow(many.bfloat16().float()).held.dtype == torch.bfloat16
    assert narrow(many.half().float()).held.dtype == torch.float16
    assert narrow(many).held.dtype == torch.float32
    few = torch.exp2(torch.randint(-9, 9, (64, 64), generator=GENERATOR).float()) / 3
    held = narrow(few)
    assert held.held.dtype == torch.uint8 and torch.equal(held.floats(slice(None)), few)
    assert not torch.isfinite(narrow(torch.full((64, 64), torch.nan)).floats(slice(0, 1))).any()


@pytest.mark.parametrize("scheme", ["w4a16", "w8a16", "w8a16_fp8", "nf4", "mxfp4a16", "nvfp4a16", "w4a16_asym"])
def test_schemes_keep_their_numbers_and_their_size(scheme: str) -> None:
    matrix = torch.randn(256, 768, generator=GENERATOR).bfloat16()
    held = quantize(matrix, parse_scheme(scheme))
    assert_same_rows(held)
    tiles = RowTiles(held)
    numbers = [part for part in (tiles._scales, tiles._zeros) if part is not None]
    parts = [tiles._codes, tiles._table, *(part for one in numbers for part in (one.held, one.palette))]
    assert sum(part.nbytes for part in parts if part is not None) <= held.stored_bytes * 1.06 + 4096
