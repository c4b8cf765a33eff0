"""The key and value blocks that a step's attention on the CPU meets: numbers as they are stored, codes widened."""

from dataclasses import dataclass
from typing import Protocol

import torch

from evalcard_engine.attention.plan import BlockTable
from evalcard_engine.attention.tiles import BLOCK
from evalcard_engine.cache.pool import KVPool


class Blocks(Protocol):
    """One layer's blocks by number, as a BlockTable counts them."""

    @property
    def kv_heads(self) -> int: ...

    @property
    def value_size(self) -> int: ...

    @property
    def dtype(self) -> torch.dtype:
        """Of the blocks as they are given."""

    def key(self, number: int) -> torch.Tensor:
        """[1, kv_heads, BLOCK, key_size]; rows beyond the sequence's end are finite."""

    def value(self, number: int) -> torch.Tensor:
        """[1, kv_heads, BLOCK, value_size], likewise."""


@dataclass(frozen=True, slots=True)
class DenseBlocks:
    """Blocks that lie in memory side by side, [num_blocks, kv_heads, BLOCK, size] each."""

    keys: torch.Tensor
    values: torch.Tensor

    @property
    def kv_heads(self) -> int:
        return self.values.shape[1]

    @property
    def value_size(self) -> int:
        return self.values.shape[3]

    @property
    def dtype(self) -> torch.dtype:
        return self.keys.dtype

    def key(self, number: int) -> torch.Tensor:
        return self.keys[number : number + 1]

    def value(self, number: int) -> torch.Tensor:
        return self.values[number : number + 1]


@dataclass(frozen=True, slots=True)
class CodedBlocks:
    """Blocks made from the cache's codes when asked for, as float32: no more than one of them is held as numbers."""

    pool: KVPool
    layer: int
    table: BlockTable

    @property
    def kv_heads(self) -> int:
        return self.pool.values[self.layer].shape[1]

    @property
    def value_size(self) -> int:
        return self.pool.values[self.layer].shape[3]

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32

    def key(self, number: int) -> torch.Tensor:
        return self._block(number, self.pool.read_keys)

    def value(self, number: int) -> torch.Tensor:
        return self._block(number, self.pool.read_values)

    def _block(self, number: int, read: "_Read") -> torch.Tensor:
        pages, lengths = self.table.pages, self.table.lengths
        if pages is None or lengths is None:
            return read(self.layer, number).unsqueeze(0)
        per_block = BLOCK // self.pool.page_size
        picked = read(self.layer, pages[number * per_block : (number + 1) * per_block])
        block = picked.transpose(0, 1).reshape(picked.shape[1], BLOCK, -1)
        block[:, int(lengths[number]) :] = 0.0
        return block.unsqueeze(0)


class _Read(Protocol):
    def __call__(self, layer: int, pages: int | torch.Tensor) -> torch.Tensor: ...


def read_blocks(pool: KVPool, layer: int, table: BlockTable) -> Blocks:
    """The layer's blocks: the pool itself, copies with unused slots cleared, or codes read one by one."""
    if pool.is_coded:
        return CodedBlocks(pool, layer, table)
    keys, values = pool.keys[layer], pool.values[layer]
    if table.pages is None or table.lengths is None:
        return DenseBlocks(keys, values)
    unused = (torch.arange(BLOCK) >= table.lengths[:, None])[:, None, :, None]
    keys, values = _gather(keys, table.pages), _gather(values, table.pages)
    return DenseBlocks(keys.masked_fill_(unused, 0.0), values.masked_fill_(unused, 0.0))


def _gather(pages: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    _, kv_heads, page_size, size = pages.shape
    picked = pages.index_select(0, numbers).view(-1, BLOCK // page_size, kv_heads, page_size, size)
    return picked.transpose(1, 2).reshape(-1, kv_heads, BLOCK, size)
