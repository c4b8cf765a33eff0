"""The integer product, and another way to the same integers where torch's own is not exact."""

from functools import cache

import torch
import torch.nn.functional as F

EXACT_WIDTH = 1024
"""Products of two bytes, summed over as many columns, that float32 holds exactly: 2^7 * 2^7 * 2^10 = 2^24."""


def int8_product(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """int8 [rows, k] @ int8 [k, out] -> int32 [rows, out], on the CPU into ``out``; exact as long as k < 2^17."""
    rows, width = left.shape
    assert width < 2**17, width
    if left.device.type == "cpu":
        if out is None:
            out = left.new_empty(rows, right.shape[1], dtype=torch.int32)
        if not rows:
            return out
        return torch._int_mm(left, right, out=out) if int8_serves() else out.copy_(_float_product(left, right))
    # CUDA's integer product wants more than 16 rows and multiples of 8.
    left = F.pad(left, (0, -width % 8, 0, max(32 - rows, -rows % 8)))
    columns = right.shape[1]
    right = F.pad(right, (0, -columns % 8, 0, -width % 8))
    return torch._int_mm(left, right)[:rows, :columns]


@cache
def int8_serves() -> bool:
    """Whether torch's integer product is exact here: without VNNI, kernels exist that saturate sums of two at 16 bits.

    Where it is not, `int8_product` takes another way to the same integers, so no name of the numerics depends on this.
    """
    generator = torch.Generator().manual_seed(0)
    for rows, width, out in ((1, 576, 192), (67, 33, 7), (64, 1536, 48)):
        left = torch.randint(-128, 128, (rows, width), dtype=torch.int8, generator=generator)
        right = torch.randint(-128, 128, (width, out), dtype=torch.int8, generator=generator)
        # Random sums stay small; a row and a column of the extremes do not.
        left[0], right[:, 0], right[:, 1] = -128, -128, 127
        # Weights come turned; a right side that lies as it is takes another kernel.
        for each in (right, right.t().contiguous().t()):
            if not torch.equal(torch._int_mm(left, each), _float_product(left, right)):
                return False
    return True


def _float_product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """The integer product by float32: exact in any order, since sums over EXACT_WIDTH columns stay within 2^24."""
    out = torch.zeros(left.shape[0], right.shape[1], dtype=torch.int32)
    for part, columns in zip(left.split(EXACT_WIDTH, dim=1), right.split(EXACT_WIDTH), strict=True):
        out += torch.mm(part.float(), columns.float()).to(torch.int32)
    return out
