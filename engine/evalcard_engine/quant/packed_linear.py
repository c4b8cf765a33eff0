"""A linear that keeps its weight as codes and dequantizes it tile by tile inside the product (CPU)."""

from functools import cache

import torch
from torch import nn

from evalcard_engine.arithmetic import exact_linear
from evalcard_engine.quant.row_tiles import RowTiles
from evalcard_engine.quant.weight import QuantizedWeight
from evalcard_engine.quant.workspace import Workspace

TILE_WEIGHTS = 1 << 19
"""Weights of a tile, about: 2 MiB of float32, which stay in a core's caches between being made and being used."""

TILE_ROWS = 64
"""A tile's rows are a multiple of this, so that the product cuts a tile as it cuts the whole."""


class TiledLinear(nn.Module):
    """y = x W^T + b for x of ``dtype``; in every bit what the linear of the dequantized weight gives.

    A tile is some rows of W. Where a product of tiles is not the same as that of the whole on this machine
    (`tiles_serve`), the whole weight is one tile and is laid out anew for each product, by the same operator as an
    expanded weight.
    """

    def __init__(
        self, weight: QuantizedWeight, bias: torch.Tensor | None, dtype: torch.dtype, workspace: Workspace
    ) -> None:
        super().__init__()
        out, width = weight.out_features, weight.in_features
        self.in_features, self.out_features = width, out
        self.scheme = weight.scheme
        self.bias = bias
        self._dtype = dtype
        self._workspace = workspace
        self._tiles = RowTiles(weight)
        self._rows = tile_rows(out, width) if tiles_serve(out, width, dtype) else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, self.in_features)
        if self._rows is None:
            out = exact_linear.linear(rows, exact_linear.pack_linear(self._tile(0, self.out_features)), self.bias)
        elif self._rows >= self.out_features:
            out = _product(rows, self._tile(0, self.out_features), self.bias)
        else:
            out = rows.new_empty(rows.shape[0], self.out_features)
            for start in range(0, self.out_features, self._rows):
                stop = min(start + self._rows, self.out_features)
                bias = None if self.bias is None else self.bias[start:stop]
                out[:, start:stop] = _product(rows, self._tile(start, stop), bias)
        return out.view(*x.shape[:-1], self.out_features)

    def _tile(self, start: int, stop: int) -> torch.Tensor:
        """Rows [start, stop) of the weight in the linear's dtype, valid until the next tile is made."""
        tile = self._workspace.take("tile", stop - start, self.in_features, torch.float32)
        self._tiles.fill(start, stop, tile)
        if self._dtype == torch.float32:
            return tile
        return self._workspace.take("tile", stop - start, self.in_features, self._dtype).copy_(tile)

    def extra_repr(self) -> str:
        return f"{self.scheme}, {self.in_features}, {self.out_features}, tiles of {self._rows or self.out_features}"


def tile_rows(out: int, width: int) -> int:
    """Rows of a tile of a weight [out, in]; all of them where it is small, and never a last tile of a few rows."""
    most = max(TILE_WEIGHTS // width // TILE_ROWS, 1) * TILE_ROWS
    count = -(-out // most)
    return -(-out // count // TILE_ROWS) * TILE_ROWS


@cache
def tiles_serve(out: int, width: int, dtype: torch.dtype) -> bool:
    """Whether on this machine tiles of a plain weight [out, in] give the bits that the prepacked whole gives.

    Tried with that shape, for as few rows as a decode step has and as many as take another kernel. Where the answer is
    no, nothing changes but speed, so it needs no place in the numerics.
    """
    if not (exact_linear.is_compiled(width, dtype) or exact_linear.onednn_serves(dtype)):
        return False
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(out, width, generator=generator).to(dtype)
    x = torch.randn(67, width, generator=generator).to(dtype)
    whole = exact_linear.linear(x, exact_linear.pack_linear(weight), None)
    step = tile_rows(out, width)
    for rows in (1, 7, 33, 64):
        parts = [_product(x[3 : 3 + rows], tile, None) for tile in weight.split(step)]
        if not torch.equal(torch.cat(parts, dim=1), whole[3 : 3 + rows]):
            return False
    return True


def _product(rows: torch.Tensor, tile: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """rows [n, in] times a tile [m, in]; not laid out for oneDNN, as for a weight used once that costs more than it
    saves."""
    if exact_linear.is_compiled(tile.shape[1], tile.dtype):
        return exact_linear.linear(rows, exact_linear.pack_linear(tile), bias)
    return exact_linear.linear(rows, exact_linear.PackedLinear(tile.shape[0], tile.shape[1], tile, None), bias)
