"""Weights as small floats and codebooks: fp8, NF4, NVFP4 and MXFP4, rounded to nearest."""

import math

import torch

from evalcard_engine.quant.elements import CODEBOOK4, E2M1, FP4_E2M1, FP8_E4M3, pack_nibbles
from evalcard_engine.quant.weight import QuantizedWeight

FP8_MAX, FP4_MAX = 448.0, 6.0
"""Greatest finite e4m3 and e2m1."""

NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
"""Quantiles of a normal distribution, scaled to [-1, 1] (T. Dettmers et al., QLoRA, 2023, appendix E)."""


def quantize_fp8(weight: torch.Tensor, block: int | None) -> QuantizedWeight:
    """e4m3 with scale = max|w| / 448 of each output channel, or of blocks of ``block`` rows and columns.

    Scales are rounded to the weight's dtype, as checkpoints store them; the last blocks may be partial.
    """
    out, width = weight.shape
    rows, columns = (block, block) if block else (1, width)
    tall, wide = -(-out // rows), -(-width // columns)
    padded = torch.nn.functional.pad(weight.float(), (0, wide * columns - width, 0, tall * rows - out))
    blocks = padded.view(tall, rows, wide, columns)
    scales = _no_zero((blocks.abs().amax(dim=(1, 3)) / FP8_MAX).to(weight.dtype).float())
    codes = to_fp8(blocks / scales[:, None, :, None])
    return QuantizedWeight(
        codes=codes.view(tall * rows, wide * columns)[:out, :width].contiguous(),
        element=FP8_E4M3,
        scales=scales.to(weight.dtype),
        group_size=columns,
        in_features=width,
        row_block=rows,
    )


def quantize_nf4(weight: torch.Tensor, block: int) -> QuantizedWeight:
    """The nearest of NF4's values times max|w| of each block of the matrix, read row after row as bitsandbytes does."""
    out, width = weight.shape
    flat = weight.float().reshape(-1)
    blocks = torch.nn.functional.pad(flat, (0, -flat.numel() % block)).view(-1, block)
    scales = blocks.abs().amax(dim=1)
    table = torch.tensor(NF4, device=weight.device)
    middles = (table[1:] + table[:-1]) / 2
    codes = torch.bucketize(blocks / _no_zero(scales)[:, None], middles).to(torch.uint8)
    return QuantizedWeight(
        codes=pack_nibbles(codes.view(-1)[: out * width].view(out, width)),
        element=CODEBOOK4,
        scales=scales[None],
        group_size=block,
        in_features=width,
        codebook=table,
        is_flat=True,
    )


def quantize_nvfp4(weight: torch.Tensor, group_size: int) -> QuantizedWeight:
    """e2m1 under e4m3 scales of groups, and one scale of scales, 448 * 6 / max|w|, for the whole matrix."""
    groups = weight.float().view(weight.shape[0], -1, group_size)
    whole = FP8_MAX * FP4_MAX / groups.abs().amax().clamp_min(torch.finfo(torch.float32).tiny)
    whole = torch.where(torch.isfinite(whole), whole, torch.ones_like(whole))
    local = to_fp8(whole * (groups.abs().amax(dim=-1) / FP4_MAX)).float()
    return _fp4(groups, torch.where(local == 0, torch.full_like(local, 2.0**-9), local) / whole)


def quantize_mxfp4(weight: torch.Tensor, group_size: int) -> QuantizedWeight:
    """e2m1 under powers of two: the exponent of max|w|, one more from 1.75 times a power on, less 2 (that of e2m1's
    greatest value), as compressed-tensors rounds it."""
    groups = weight.float().view(weight.shape[0], -1, group_size)
    return _fp4(groups, mx_scales(groups.abs().amax(dim=-1), FP4_MAX))


def mx_scales(top: torch.Tensor, limit: float) -> torch.Tensor:
    """Powers of two by which groups with the greatest magnitudes ``top`` are divided before they are rounded.

    The exponent of top less that of the element's greatest value ``limit`` (OCP Microscaling Formats, 2023, 6.3), but
    counted up where the mantissa of top is 1.75 or more, which a limit of 1.5 or 1.75 times a power of two would cut
    off: the rule of compressed-tensors and of vLLM's emulation. At least 2^-127, the least that E8M0 holds.
    """
    mantissa, exponent = torch.frexp(top)  # mantissa in [0.5, 1)
    exponent = exponent - 1 + (mantissa >= 0.875).int() - (math.frexp(limit)[1] - 1)
    scales = torch.exp2(exponent.float().clamp(-127, 127))
    return torch.where(torch.isfinite(top), scales, top)


def to_fp8(values: torch.Tensor) -> torch.Tensor:
    """float32 -> float8_e4m3fn, ties to even; beyond the greatest finite value it saturates, NaN stays."""
    return values.clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn)


def fp4_codes(values: torch.Tensor) -> torch.Tensor:
    """The nearest e2m1 of float32 values, as uint8 codes 0 to 15: ties to the even mantissa, beyond 6 it saturates."""
    table = torch.tensor(E2M1, device=values.device)
    middles = (table[1:] + table[:-1]) / 2
    size = values.abs()
    down, up = torch.bucketize(size, middles), torch.bucketize(size, middles, right=True)
    # Both differ at a tie only, where the even one of the two is meant.
    index = torch.where(up % 2 == 0, up, down)
    return (index + 8 * torch.signbit(values)).to(torch.uint8)


def _fp4(groups: torch.Tensor, scales: torch.Tensor) -> QuantizedWeight:
    out, _, size = groups.shape
    codes = fp4_codes(groups / scales[..., None]).view(out, -1)
    return QuantizedWeight(
        codes=pack_nibbles(codes), element=FP4_E2M1, scales=scales, group_size=size, in_features=codes.shape[1],
        scale_bytes=1,
    )  # fmt: skip


def _no_zero(scales: torch.Tensor) -> torch.Tensor:
    """Groups of zeros get the scale 1, so that nothing is divided by 0."""
    return torch.where(scales == 0, torch.ones_like(scales), scales)
