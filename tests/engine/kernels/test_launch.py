"""Plans: what is fixed in exact mode, what covers the inner dimension, and a table without holes."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from evalcard_engine.kernels import launch
from evalcard_engine.kernels.launch import PRODUCTS, SHARED_BYTES, TILES, has_fp8_product, plan

SHAPES = [(1, 1), (17, 129), (4096, 4096), (576, 1536), (128256, 4096), (4096, 14336), (30, 100_000)]


@pytest.mark.parametrize(("out", "width"), SHAPES)
@pytest.mark.parametrize("kind", sorted({kind for kind, size in TILES if size == "exact"}))
def test_exact_plans_do_not_depend_on_the_rows(kind: str, out: int, width: int) -> None:
    plans = [plan(kind, rows, out, width, exact=True) for rows in (1, 2, 15, 16, 17, 64, 65, 1000, 100_000)]
    assert len({(made.tile, made.splits, made.split_len) for made in plans}) == 1
    assert plans[-1].is_folded


@pytest.mark.parametrize(("out", "width"), SHAPES)
@pytest.mark.parametrize("rows", [1, 33, 5000])
@pytest.mark.parametrize("exact", [True, False])
def test_splits_cover_the_inner_dimension_once(out: int, width: int, rows: int, exact: bool) -> None:
    made = plan("half", rows, out, width, exact=exact)
    assert made.split_len % made.tile.inner == 0
    assert (made.splits - 1) * made.split_len < width <= made.splits * made.split_len
    assert made.num_parts == (1 if made.is_folded else made.splits)
    tiles, parts = made.grid(rows, out)
    assert parts == made.num_parts and tiles * made.tile.rows * made.tile.columns >= rows * out


def test_a_single_row_fills_the_gpu() -> None:
    made = plan("half", 1, 4096, 4096, exact=True)
    assert made.splits > 1 and made.num_parts == made.splits


def test_tiles_are_powers_of_two_and_every_kind_has_its_sizes() -> None:
    kinds = {kind for kind, _ in TILES}
    sizes = {kind: {size for other, size in TILES if other == kind} for kind in kinds}
    # Integer sums do not depend on their order, so int8 has no exact size of its own.
    assert all(found == {"few", "many"} | ({"exact"} if kind != "int8" else set()) for kind, found in sizes.items())
    for tile in TILES.values():
        for side in (tile.rows, tile.columns, tile.inner):
            assert side >= 16 and side & (side - 1) == 0, tile


def test_fp8_products_begin_with_sm_89(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(PRODUCTS) == set(SHARED_BYTES) == {80, 89, 90, 100}
    cuda = torch.device("cuda")
    for target, expected in ((0, False), (75, False), (80, False), (86, False), (89, True), (90, True), (120, True)):
        monkeypatch.setattr(launch, "capability", lambda device, target=target: target)
        assert has_fp8_product(cuda) == expected, target
        if target in PRODUCTS:
            assert ("fp8" in PRODUCTS[target]) == expected


def test_the_door_loads_no_triton() -> None:
    code = "import sys, evalcard_engine.kernels.dispatch; sys.exit('triton' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_cpu_has_no_kernels() -> None:
    """Outside the interpreter, torch's own paths serve the CPU."""
    from evalcard_engine.kernels.dispatch import serves

    assert not serves(torch.device("cpu"), torch.float32)


def test_the_manual_has_the_table_of_products() -> None:
    lines = (Path(__file__).parents[3] / "docs" / "engine.md").read_text(encoding="utf-8").splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("| product of |"))
    head, _, *rows = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines[begin : begin + 2 + len(PRODUCTS[90])]
    )
    assert [int(name.removeprefix("sm_")) for name in head[1:]] == sorted(PRODUCTS)
    assert {row[0] for row in rows} == set(PRODUCTS[90])
    for product, *cells in rows:
        for target, cell in zip(sorted(PRODUCTS), cells, strict=True):
            there = PRODUCTS[target]
            expected = (there[product] or "no tensor cores") if product in there else "widened to fp16"
            assert cell == expected, (product, target)
