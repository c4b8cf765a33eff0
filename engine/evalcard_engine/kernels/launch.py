"""How a kernel is started: its tile, how the inner dimension is cut, and what the GPU at hand can multiply.

Every choice is a fixed function of shapes and dtypes, never of a measurement, so that it can be part of a journal key.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

from evalcard_engine.quant.weight import QuantizedWeight

Product = Literal["fp32", "fp16", "bf16", "int8", "fp8"]

PRODUCTS: dict[int, dict[Product, str | None]] = {
    80: {"fp32": None, "fp16": "HMMA", "bf16": "HMMA", "int8": "IMMA"},
    89: {"fp32": None, "fp16": "HMMA", "bf16": "HMMA", "int8": "IMMA", "fp8": "QMMA"},
    90: {"fp32": None, "fp16": "HGMMA", "bf16": "HGMMA", "int8": "IGMMA", "fp8": "QGMMA"},
    100: {"fp32": None, "fp16": "UTCHMMA", "bf16": "UTCHMMA", "int8": "IMMA", "fp8": "UTCQMMA"},
}
"""By compute capability (major * 10 + minor): the products that exist there and the tensor-core instruction that makes
them; None is a product without tensor cores, in full float32. Integers on sm_100 go through the older instruction."""

SHARED_BYTES = {80: 166_912, 89: 101_376, 90: 232_448, 100: 232_448}
"""Shared memory that one program may ask for (CUDA C++ Programming Guide, technical specifications by capability)."""

NUM_PROGRAMS = 256
"""Programs worth having at once; with fewer tiles than this the inner dimension is cut. About two a multiprocessor."""

LEAST_SPLIT_LEN = 512
MOST_SPLITS = 16


@dataclass(frozen=True, slots=True)
class Tile:
    """What one program computes: ``rows`` of x by ``columns`` of the result, ``inner`` terms at a time."""

    rows: int
    columns: int
    inner: int
    warps: int = 4
    stages: int = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """A tile and the cut of the inner dimension.

    A result is ((p_0 + p_1) + p_2) + ..., p_i the sum over the i-th ``split_len`` terms, whether the splits are
    programs of their own that `split_k` adds up or are ``is_folded`` into one program: the bits are the same.
    """

    tile: Tile
    splits: int
    split_len: int
    is_folded: bool

    @property
    def num_parts(self) -> int:
        """Programs along the inner dimension."""
        return 1 if self.is_folded else self.splits

    def grid(self, num_rows: int, out_features: int) -> tuple[int, int]:
        tiles = -(-num_rows // self.tile.rows) * -(-out_features // self.tile.columns)
        return tiles, self.num_parts


TILES: dict[tuple[str, str], Tile] = {
    # (what is multiplied, how many rows): weights are the left operand, whose tile wants 64 rows for Hopper's products.
    ("half", "few"): Tile(16, 64, 128, 4, 4),
    ("half", "exact"): Tile(64, 64, 64, 4, 4),
    ("half", "many"): Tile(128, 128, 64, 8, 3),
    ("half fine", "few"): Tile(16, 64, 128, 4, 4),
    ("half fine", "exact"): Tile(64, 64, 64, 4, 4),
    ("half fine", "many"): Tile(64, 128, 64, 8, 3),
    ("half gathered", "few"): Tile(16, 64, 32, 4, 3),
    ("half gathered", "exact"): Tile(32, 64, 32, 4, 3),
    ("half gathered", "many"): Tile(64, 64, 32, 4, 3),
    ("fp32", "few"): Tile(16, 32, 32, 4, 3),
    ("fp32", "exact"): Tile(16, 32, 32, 4, 3),
    ("fp32", "many"): Tile(32, 32, 32, 4, 3),
    ("int8", "few"): Tile(16, 64, 128, 4, 4),
    ("int8", "many"): Tile(128, 128, 128, 8, 3),
    ("fp8", "few"): Tile(16, 64, 128, 4, 4),
    ("fp8", "exact"): Tile(64, 64, 128, 4, 3),
    ("fp8", "many"): Tile(128, 128, 128, 8, 3),
    ("fp8 blocks", "few"): Tile(16, 64, 128, 4, 4),
    ("fp8 blocks", "exact"): Tile(64, 64, 128, 4, 3),
    ("fp8 blocks", "many"): Tile(64, 128, 128, 8, 3),
    ("fp8 widened", "few"): Tile(16, 64, 64, 4, 4),
    ("fp8 widened", "exact"): Tile(32, 64, 64, 4, 3),
    ("fp8 widened", "many"): Tile(64, 128, 64, 8, 3),
}
FEW_ROWS = 32


def plan(kind: str, num_rows: int, out_features: int, in_features: int, *, exact: bool) -> Plan:
    """The plan of x [num_rows, in_features] times W^T, W [out_features, in_features].

    ``exact`` makes tile and splits functions of W's shape alone, so that a row's result does not depend on the rows
    beside it; whether splits are folded, as they are where there are tiles enough without, changes no bit.
    """
    assert num_rows > 0 and out_features > 0 and in_features > 0, (num_rows, out_features, in_features)
    size = "exact" if exact else "few" if num_rows <= FEW_ROWS else "many"
    tile = TILES[kind, size]
    row_tiles = -(-num_rows // tile.rows)
    column_tiles = -(-out_features // tile.columns)
    wanted = column_tiles if exact else row_tiles * column_tiles
    splits = 1
    while splits < MOST_SPLITS and wanted * splits < NUM_PROGRAMS and in_features >= 2 * splits * LEAST_SPLIT_LEN:
        splits *= 2
    split_len = -(-in_features // (splits * tile.inner)) * tile.inner
    splits = -(-in_features // split_len)
    return Plan(tile, splits, split_len, splits == 1 or row_tiles * column_tiles >= NUM_PROGRAMS)


def is_interpreted() -> bool:
    """Whether kernels run in Triton's interpreter (TRITON_INTERPRET=1 before triton was loaded)."""
    import triton

    return bool(triton.knobs.runtime.interpret)


def capability(device: torch.device) -> int:
    """major * 10 + minor of a CUDA device; 0 where kernels are interpreted."""
    if device.type != "cuda":
        return 0
    major, minor = torch.cuda.get_device_capability(device)
    return major * 10 + minor


def has_fp8_product(device: torch.device) -> bool:
    """Whether two e4m3 operands can be multiplied as they are; elsewhere they are widened to fp16, which holds them."""
    target = capability(device)
    known = [table for least, table in PRODUCTS.items() if least <= target]
    return bool(known) and "fp8" in known[-1]


def launch(
    kernel: Any,
    grid: tuple[int, ...],
    arguments: Mapping[str, Any],
    constants: Mapping[str, Any],
    *,
    warps: int,
    stages: int,
    fp_fusion: bool,
    registers: int | None = None,
) -> None:
    """Start a kernel on the device of its first tensor; ``constants`` are its constexpr arguments.

    ``fp_fusion`` says whether a product and a sum may be rounded once (Triton's own default changes with its version).
    ``registers``: how many a thread may take; None leaves it to ptxas, which may spill some for more threads.
    """
    device = next(value.device for value in arguments.values() if isinstance(value, torch.Tensor))
    options = {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": fp_fusion, "maxnreg": registers}
    if device.type != "cuda":
        assert is_interpreted(), f"a kernel was started on {device}"
        kernel[grid](**arguments, **constants, **options)
        return
    with torch.cuda.device(device):
        kernel[grid](**arguments, **constants, **options)


def launch_product(
    kernel: Any,
    chosen: Plan,
    num_parts: int,
    weight: QuantizedWeight,
    arguments: Mapping[str, Any],
    constants: Mapping[str, Any],
) -> None:
    """Start a product by its plan, ``num_parts`` programs along the inner dimension.

    ``arguments`` begin with x [rows, in]; what all products take of the shapes, the plan and the interpreter is added.
    """
    tile, num_rows = chosen.tile, arguments["x"].shape[0]
    shared = {
        "num_rows": num_rows,
        "out_features": weight.out_features,
        "in_features": weight.in_features,
        "row_block": weight.row_block,
        "split_len": chosen.split_len,
    }
    sizes = {"ROWS": tile.rows, "COLUMNS": tile.columns, "INNER": tile.inner, "INTERPRETED": is_interpreted()}
    tiles, _ = chosen.grid(num_rows, weight.out_features)
    launch(kernel, (tiles, num_parts), {**arguments, **shared}, {**constants, **sizes}, warps=tile.warps,
           stages=tile.stages, fp_fusion=False)  # fmt: skip
