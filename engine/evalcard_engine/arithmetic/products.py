"""The products of attention on the CPU: of several matrices at once, whose rows do not depend on their neighbours.

MKL's batched product keeps rows apart where their number is a multiple of eight; `product_faults` checks that on the
machine at hand.
"""

import math
from functools import cache

import torch

from evalcard_engine.arithmetic.threads import one_thread

ROW_TILE = 8
"""Rows of a batched product come in multiples of this; fewer, and MKL picks kernels that round differently."""

LEAST_PART = 64
"""Rows that are left of a batched product when it is cut, so that copies of its right side do not outweigh the gain."""


def batched_product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """left [n, rows, k] @ right [n, k, m] -> contiguous [n, rows, m]; rows is a multiple of ROW_TILE.

    MKL gives each thread whole products of a batch, so where n does not divide among the threads each is cut by rows
    into as many as do. Written without ``out=``: a strided output takes torch off the batched MKL path, whose rounding
    is the one tested.
    """
    n, rows, _ = left.shape
    assert rows % ROW_TILE == 0, (tuple(left.shape), ROW_TILE)
    parts = _row_parts(n, rows, torch.get_num_threads())
    if parts == 1:
        return torch.bmm(left, right)
    left = left.unflatten(1, (parts, -1)).flatten(0, 1)
    return torch.bmm(left, right.repeat_interleave(parts, dim=0)).view(n, rows, right.shape[2])


def _row_parts(n: int, rows: int, threads: int) -> int:
    """Into how many each of n products is cut: 1 where they divide among the threads, or are too small to gain."""
    parts = threads // math.gcd(n, threads)
    is_worth_it = rows % (parts * ROW_TILE) == 0 and rows >= parts * LEAST_PART
    return parts if is_worth_it else 1


def fused_block(
    rows: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float, mask: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of rows [n, kv_heads, rows, size] over keys and values [n, kv_heads, width, size], in one go.

    All are float32 or all bfloat16, with sums in float32 either way. mask: float32 [rows, width], added to the scaled
    scores. Returns the averages, of the shape and dtype of ``rows``, and the logarithm of the sum of the scores'
    exponentials, float32 [n, kv_heads, rows, 1].
    """
    assert rows.shape[2] % ROW_TILE == 0, (tuple(rows.shape), ROW_TILE)
    out, log_sum = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        rows, keys, values, attn_mask=mask, scale=scale
    )
    return out, log_sum.unsqueeze(-1)


@cache
def fused_serves(dtype: torch.dtype, kv_heads: int, head_sizes: tuple[int, int]) -> bool:
    """Whether `fused_block` is there for these heads and keeps rows apart, so that it stands in for two products."""
    has_operator = hasattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu")
    is_for_them = dtype in (torch.float32, torch.bfloat16) and head_sizes[0] == head_sizes[1]
    return has_operator and is_for_them and not _fused_faults(dtype, kv_heads, head_sizes[0])


def product_faults(kv_heads: int, head_sizes: tuple[int, int]) -> list[str]:
    """The attention's two products at this model's shapes: row tiles, batches and one thread against one product."""
    generator = torch.Generator().manual_seed(0)
    for inner, outer, is_turned in ((head_sizes[0], 256, True), (256, head_sizes[1], False)):
        left = torch.randn(kv_heads, 144, inner, generator=generator)
        right = torch.randn(kv_heads, outer, inner, generator=generator).transpose(1, 2)
        right = right if is_turned else right.contiguous()
        whole = batched_product(left, right)
        few = {rows: batched_product(left[:, 8 : 8 + rows], right) for rows in (8, 16, 24, 64, 128)}
        if not all(torch.equal(part, whole[:, 8 : 8 + rows]) for rows, part in few.items()):
            return [f"product {inner}x{outer}: rows depend on the row count"]
        # MKL rounds rows of some narrow results (10 columns, but not 12) by their place in a tile.
        if not all(torch.equal(batched_product(left[:, at : at + 40], right), whole[:, at : at + 40]) for at in (3, 7)):
            return [f"product {inner}x{outer}: rows depend on their place in a tile"]
        if not torch.equal(batched_product(left[:1, 8:16], right[:1]), whole[:1, 8:16]):
            return [f"product {inner}x{outer}: rows depend on the batch"]
        with one_thread():
            alone = batched_product(left, right)
        if not torch.equal(alone, whole):
            return [f"product {inner}x{outer}: rows depend on the thread count"]
    return []


def _fused_faults(dtype: torch.dtype, kv_heads: int, size: int) -> list[str]:
    """Likewise of `fused_block`; a mask that hides nothing must change nothing either."""
    generator = torch.Generator().manual_seed(0)
    rows, scale = torch.randn(1, kv_heads, 1040, size, generator=generator).to(dtype), size**-0.5
    keys, values = (torch.randn(1, kv_heads, 256, size, generator=generator).to(dtype) for _ in range(2))
    whole = fused_block(rows, keys, values, scale, None)

    def is_same(found: tuple[torch.Tensor, torch.Tensor], start: int, stop: int, heads: int = kv_heads) -> bool:
        return all(torch.equal(a, b[:, :heads, start:stop]) for a, b in zip(found, whole, strict=True))

    # torch tiles rows by their number: below 192, below 768 and beyond.
    for start, stop in ((0, 8), (8, 24), (3, 43), (16, 216), (8, 784)):
        some = rows[:, :, start:stop]
        for mask in (None, torch.zeros(stop - start, 256)):
            if not is_same(fused_block(some, keys, values, scale, mask), start, stop):
                return [f"fused attention of {size}: rows depend on the row count"]
        with one_thread():
            alone = fused_block(some, keys, values, scale, None)
        if not is_same(alone, start, stop):
            return [f"fused attention of {size}: rows depend on the thread count"]
    if not is_same(fused_block(rows[:, :1, :8], keys[:, :1], values[:, :1], scale, None), 0, 8, heads=1):
        return [f"fused attention of {size}: rows depend on the batch"]
    return []


NARROW = (64, 128)
"""Keys of a block that attention may stop at, where the rest is hidden."""


@cache
def exact_widths(dtype: torch.dtype, kv_heads: int, head_sizes: tuple[int, int]) -> tuple[int, ...]:
    """After how many of a block's 256 keys its products and softmax may stop without changing a bit, where all further
    ones weigh zero; ascending, 256 always among them. Takes about 0.02 s."""
    is_fused = fused_serves(dtype, kv_heads, head_sizes)

    def has_faults(width: int) -> bool:
        fused = is_fused and _narrow_fused_faults(width, dtype, kv_heads, head_sizes[0])
        return fused or _narrow_faults(width, kv_heads, head_sizes)

    return (*(width for width in NARROW if not has_faults(width)), 256)


def _narrow_faults(width: int, kv_heads: int, head_sizes: tuple[int, int]) -> bool:
    """Whether the attention of a block's first keys differs from that of a block whose other keys are hidden."""
    generator = torch.Generator().manual_seed(0)
    keys, values = (torch.randn(kv_heads, 256, size, generator=generator) for size in head_sizes)
    for rows in (8, 48, 144, 384):
        query = torch.randn(kv_heads, rows, head_sizes[0], generator=generator)
        scores = batched_product(query, keys.transpose(1, 2))
        narrow = batched_product(query, keys[:, :width].transpose(1, 2))
        if not torch.equal(scores[..., :width], narrow):
            return True
        scores[..., width:] -= 1e30
        weights, few = torch.softmax(scores, -1), torch.softmax(narrow, -1)
        if not torch.equal(weights[..., :width], few):
            return True
        if not torch.equal(batched_product(weights, values), batched_product(few, values[:, :width])):
            return True
    return False


def _narrow_fused_faults(width: int, dtype: torch.dtype, kv_heads: int, size: int) -> bool:
    generator = torch.Generator().manual_seed(0)
    keys, values = (torch.randn(1, kv_heads, 256, size, generator=generator).to(dtype) for _ in range(2))
    scale = size**-0.5
    for rows in (8, 48, 256, 784):
        query = torch.randn(1, kv_heads, rows, size, generator=generator).to(dtype)
        mask = torch.zeros(rows, 256)
        mask[:, width:] = -1e30
        whole = fused_block(query, keys, values, scale, mask)
        few = fused_block(query, keys[:, :, :width], values[:, :, :width], scale, None)
        if not all(map(torch.equal, whole, few)):
            return True
    return False
