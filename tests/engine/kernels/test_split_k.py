"""Partial sums in order, and a numbering of tiles that leaves none out."""

import pytest
import torch
import triton
import triton.language as tl

from evalcard_engine.kernels.split_k import sum_parts, sum_reference, tile_of


@triton.jit
def _mark(seen, num_rows, out_features, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Count a program's visit at its first row and column."""
    row, column = tile_of(tl.program_id(0), num_rows, out_features, ROWS, COLUMNS)
    place = seen + row * out_features + column
    tl.store(place, tl.load(place) + 1)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 700), (33, 129), (16, 128), (200, 17)])
def test_every_tile_is_computed_once(rows: int, columns: int) -> None:
    seen = torch.zeros(rows, columns, dtype=torch.int32)
    tiles = -(-rows // 16) * -(-columns // 16)
    _mark[(tiles,)](seen, rows, columns, 16, 16)
    assert int(seen.sum()) == tiles and bool((seen[::16, ::16] == 1).all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("columns", [1, 127, 2100])
@pytest.mark.parametrize("has_scales", [False, True])
def test_sums(dtype: torch.dtype, columns: int, has_scales: bool) -> None:
    generator = torch.Generator().manual_seed(columns)
    parts = torch.randn(5, 3, columns, generator=generator)
    if has_scales:
        parts = (parts * 1e6).to(torch.int32)
    bias = torch.randn(columns, generator=generator).to(dtype)
    scales = (torch.rand(3), torch.rand(-(-columns // 4)), 4) if has_scales else ()
    out = torch.empty(3, columns, dtype=dtype)
    sum_parts(parts, out, bias, *scales)
    assert torch.equal(out, sum_reference(parts, bias, *scales).to(dtype))


def test_scales_come_in_pairs() -> None:
    with pytest.raises(AssertionError):
        sum_parts(torch.zeros(2, 1, 4), torch.zeros(1, 4), None, torch.ones(1))
