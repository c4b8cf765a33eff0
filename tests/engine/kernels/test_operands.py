"""A weight in the plainest of its equal forms is the same weight."""

from collections.abc import Callable

import pytest
import torch

from evalcard_engine.kernels.operands import FLAT, INDEXED, LOOKED_UP, grouping, loadable, regular, sort_columns
from evalcard_engine.quant.elements import ELEMENTS


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("width", [96, 90])
def test_sorted_columns_are_a_permutation(element: str, width: int, make_weight: Callable) -> None:
    weight = make_weight(element, 5, width, 32, order=True, zeros=True)
    ordered, order = sort_columns(weight)
    assert order is not None and ordered.group_index is None
    assert torch.equal(ordered.dequantize(), weight.dequantize()[:, order])


def test_an_order_that_says_nothing_goes_and_uneven_groups_stay(make_weight: Callable) -> None:
    weight = make_weight("int4", 3, 64, 32, order=True)
    weight.group_index.copy_(torch.arange(64) // 32)
    plain, order = sort_columns(weight)
    assert order is None and plain.group_index is None and torch.equal(plain.dequantize(), weight.dequantize())
    weight.group_index.copy_((torch.arange(64) > 40).long())
    assert sort_columns(weight) == (weight, None)


def test_a_line_whose_groups_end_with_rows_is_a_matrix(make_weight: Callable) -> None:
    weight = make_weight("codebook4", 6, 128, 64, flat=True, zeros=True)
    plain = regular(weight)
    assert not plain.is_flat and plain.scales.data_ptr() == weight.scales.data_ptr()
    assert torch.equal(plain.dequantize(), weight.dequantize())
    crooked = make_weight("codebook4", 6, 100, 64, flat=True)
    assert regular(crooked) is crooked


def test_groupings(make_weight: Callable) -> None:
    def of(inner: int, width: int, group: int, **how: bool) -> int:
        return grouping(make_weight("int4", 2, width, group, **how), inner)

    assert [of(64, 512, group) for group in (0, 128, 64, 32, 16)] == [1, 1, 1, 2, 4]
    assert [of(64, 576, 96), of(32, 576, 96), of(64, 40, 24), of(64, 500, 500)] == [LOOKED_UP, 1, LOOKED_UP, 1]
    assert [of(64, 512, 64, order=True), of(64, 100, 64, flat=True)] == [INDEXED, FLAT]


def test_one_byte_floats_are_widened() -> None:
    assert loadable(None) is None
    small = torch.tensor([[1.5, 448.0]]).to(torch.float8_e4m3fn)
    assert loadable(small).tolist() == [[1.5, 448.0]]
    assert loadable(torch.ones(2, 3, dtype=torch.int8).t()).is_contiguous()
