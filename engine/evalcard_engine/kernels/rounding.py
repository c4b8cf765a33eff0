"""Device functions that round as torch does, by bits where a target, or Triton's interpreter, would not."""

import triton
import triton.language as tl


@triton.jit
def round_half_even(value):
    """float32 with magnitude below 2^22 -> the nearest integer, ties to even: 1.5 * 2^23 leaves no bits below one."""
    return (value + 12582912.0) - 12582912.0


@triton.jit
def narrow(value, DTYPE: tl.constexpr, INTERPRETED: tl.constexpr):
    """float32 -> DTYPE, ties to even. The interpreter cuts bits off on the way to bfloat16, so there it is spelled out:
    add just under half of the last bit kept, and one more where that bit is set."""
    if INTERPRETED and DTYPE == tl.bfloat16:  # noqa: SIM300
        bits = value.to(tl.uint32, bitcast=True)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        rounded = tl.where(value == value, rounded, 0x7FC0)
        return rounded.to(tl.uint16).to(tl.bfloat16, bitcast=True)
    else:
        return value.to(DTYPE)


@triton.jit
def product(left, right, total, INTERPRETED: tl.constexpr):
    """total + left @ right in float32; float32 operands are multiplied in full. The interpreter knows no bfloat16."""
    if INTERPRETED:
        return tl.dot(left.to(tl.float32), right.to(tl.float32), total, input_precision="ieee")
    else:
        return tl.dot(left, right, total, input_precision="ieee")


@triton.jit
def encode_e4m3(value):
    """float32 -> the bits of the nearest float8_e4m3fn as uint8: ties to even, saturating at 448, NaN stays NaN.

    A normal number keeps its exponent, less 120 for the difference of the biases, and three rounded bits of mantissa;
    below 2^-6 the code counts units of 2^-9.
    """
    sign = (value.to(tl.int32, bitcast=True) >> 24) & 0x80
    size = tl.where(value == value, tl.minimum(tl.abs(value), 448.0), 0.0)
    bits = size.to(tl.int32, bitcast=True)
    normal = ((bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20) - (120 << 3)
    tiny = round_half_even(tl.minimum(size, 1.0) * 512.0).to(tl.int32)
    code = tl.where(size < 0.015625, tiny, normal)
    return (tl.where(value == value, code, 0x7F) | sign).to(tl.uint8)


@triton.jit
def decode_e4m3(code):
    """The bits of a float8_e4m3fn as uint8 -> float16, which holds every one: the same fields under a bias of 15."""
    bits = ((code & 0x7F).to(tl.uint16) << 7) | ((code & 0x80).to(tl.uint16) << 8)
    value = bits.to(tl.float16, bitcast=True) * 256.0
    return tl.where((code & 0x7F) == 0x7F, float("nan"), value).to(tl.float16)


@triton.jit
def decode_e5m2(code):
    """The bits of a float8_e5m2 as uint8 -> float16, whose upper byte they are."""
    return (code.to(tl.uint16) << 8).to(tl.float16, bitcast=True)


@triton.jit
def decode_e2m1(code):
    """Codes 0 to 15 of fp4 e2m1 -> float16: the same fields under a bias of 15 instead of 1."""
    bits = ((code & 7).to(tl.uint16) << 9) | ((code & 8).to(tl.uint16) << 12)
    return bits.to(tl.float16, bitcast=True) * 16384.0


@triton.jit
def decode_integer(code, OFFSET: tl.constexpr):
    """Codes 0 to 255 that stand for code - OFFSET -> float32: under the exponent of 2^23 the code is the mantissa."""
    return (code.to(tl.int32) | 0x4B000000).to(tl.float32, bitcast=True) - (8388608.0 + OFFSET)
