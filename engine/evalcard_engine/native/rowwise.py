"""What lies between the linears of a layer, by rowwise.c: as kernels/ has it for GPUs, with the same arguments.

Nothing here can be called where `serves` says no. All tensors are on the CPU.
"""

import ctypes
from functools import cache

import torch

from evalcard_engine.native.build import Built, built

DTYPES = (torch.float32, torch.bfloat16)

_P, _N, _I = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int

_ARGUMENTS = {
    "rms_norm": (_P, _N, _P, _P, _P, _P, _N, _N, ctypes.c_float, _I, _I, _I),
    "silu_mul": (_P, _N, _P, _N, _P, _N, _N, _I, _I),
    "rotary_cache": (_P, _I),
    "quantize_rows": (_P, _P, _P, _N, _N, _I, _I),
    "scale_rows": (_P, _P, _P, _P, _P, _N, _N, _I, _I),
    "silu_mul_codes": (_P, _P, _P, _P, _P, _P, _P, _N, _N, _I, _I),
}


class _Rotary(ctypes.Structure):
    """``Rotary`` of rowwise.c."""

    _fields_ = (
        *((name, _P) for name in ("query", "key", "value", "cos", "sin", "slots", "out", "key_pages", "value_pages")),
        *((f"{name}_{step}", _N) for name in ("query", "key", "value") for step in ("token", "head")),
        *(
            (name, _N)
            for name in (
                "tokens", "heads", "kv_heads", "key_size", "value_size", "rotary_size", "page_size", "threads",
            )
        ),
    )  # fmt: skip


def serves(dtype: torch.dtype) -> bool:
    """Whether rows of this dtype are worked on here."""
    return dtype in DTYPES and _library().library is not None


def words() -> str:
    """Which compiler and source serve; else the reason why none does."""
    return _library().words


def rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    residual: torch.Tensor | None = None,
    *,
    add_one: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """x [rows, width] of a dtype in DTYPES, unit stride along width; weight of x's dtype [width]; residual as x,
    contiguous. Returns the norm and what was normed (x + residual, or x itself). ``add_one`` is Gemma's weight, stored
    less one and applied before the rounding. RMSNorm: Zhang and Sennrich, arXiv 1910.07467.
    """
    rows, width = x.shape
    assert x.stride(1) == 1 or width == 1, x.stride()
    assert weight.dtype == x.dtype and tuple(weight.shape) == (width,), (weight.dtype, x.dtype, tuple(weight.shape))
    out = torch.empty(rows, width, dtype=x.dtype)
    total = x
    if residual is not None:
        assert residual.shape == x.shape and residual.dtype == x.dtype, (residual.shape, residual.dtype)
        assert residual.is_contiguous(), residual.stride()
        total = torch.empty_like(out)
    _call(
        "rms_norm", x.data_ptr(), x.stride(0), None if residual is None else residual.data_ptr(), weight.data_ptr(),
        out.data_ptr(), total.data_ptr(), rows, width, eps, add_one, _half(x), torch.get_num_threads(),
    )  # fmt: skip
    return out, total


def silu_mul(gate: torch.Tensor, up: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """gate and up [rows, width] of one dtype in DTYPES, unit stride along width -> contiguous [rows, width] of that
    dtype, ``out`` where it is given; that may be gate."""
    rows, width = gate.shape
    assert gate.shape == up.shape and gate.dtype == up.dtype, (gate.shape, up.shape, gate.dtype, up.dtype)
    assert gate.stride(1) == up.stride(1) == 1 or width == 1, (gate.stride(), up.stride())
    out = torch.empty(rows, width, dtype=gate.dtype) if out is None else out
    assert out.is_contiguous() and out.shape == gate.shape and out.dtype == gate.dtype, (out.shape, out.dtype)
    _call(
        "silu_mul", gate.data_ptr(), gate.stride(0), up.data_ptr(), up.stride(0), out.data_ptr(), rows, width,
        _half(gate), torch.get_num_threads(),
    )  # fmt: skip
    return out


def rotary_cache(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    slots: torch.Tensor,
    key_pages: torch.Tensor,
    value_pages: torch.Tensor,
) -> torch.Tensor:
    """Rotate a step's queries and keys, and store its keys and values: bit for bit what transformers' modules do.

    query [tokens, heads, key_size], key [tokens, kv_heads, key_size], value [tokens, kv_heads, value_size], all of one
    dtype in DTYPES, the pages too, and unit stride along the last dimension; cos and sin contiguous
    [tokens, rotary_size]; slots int64 [tokens]; pages contiguous [pages, kv_heads, page_size, size]. Returns the
    rotated queries, contiguous. Su et al., arXiv 2104.09864.
    """
    tokens, heads, key_size = query.shape
    kv_heads, value_size = value.shape[1:]
    tensors = (query, key, value, cos, sin, key_pages, value_pages)
    assert {tensor.dtype for tensor in tensors} == {query.dtype}, [tensor.dtype for tensor in tensors]
    assert all(part.stride(2) == 1 for part in (query, key, value)), (query.stride(), key.stride(), value.stride())
    assert all(one.is_contiguous() for one in (cos, sin, slots, key_pages, value_pages)), (cos.stride(), slots.stride())
    assert cos.shape == sin.shape == (tokens, cos.shape[1]) and cos.shape[1] % 2 == 0, (cos.shape, sin.shape)
    assert cos.shape[1] <= key_size and tuple(slots.shape) == (tokens,), (cos.shape, key_size, slots.shape)
    pages, _, page_size, _ = key_pages.shape
    assert key_pages.shape == (pages, kv_heads, page_size, key_size), (key_pages.shape, key.shape)
    assert value_pages.shape == (pages, kv_heads, page_size, value_size), (value_pages.shape, value.shape)
    out = torch.empty(tokens, heads, key_size, dtype=query.dtype)
    call = _Rotary(
        query.data_ptr(), key.data_ptr(), value.data_ptr(), cos.data_ptr(), sin.data_ptr(), slots.data_ptr(),
        out.data_ptr(), key_pages.data_ptr(), value_pages.data_ptr(),
        query.stride(0), query.stride(1), key.stride(0), key.stride(1), value.stride(0), value.stride(1),
        tokens, heads, kv_heads, key_size, value_size, cos.shape[1], page_size, torch.get_num_threads(),
    )  # fmt: skip
    _call("rotary_cache", ctypes.byref(call), _half(query))
    return out


def quantize_rows(x: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor) -> None:
    """x, contiguous [rows, width] of a dtype in DTYPES, into int8 codes [rows, width] and float32 scales [rows, 1]: bit
    for bit what `quantize_tokens` makes of it."""
    rows, width = x.shape
    assert x.is_contiguous() and codes.is_contiguous() and scales.is_contiguous(), (x.stride(), codes.stride())
    assert codes.dtype == torch.int8 and codes.shape == x.shape and scales.numel() == rows, (codes.shape, scales.shape)
    _call(
        "quantize_rows", x.data_ptr(), codes.data_ptr(), scales.data_ptr(), rows, width, _half(x),
        torch.get_num_threads(),
    )  # fmt: skip


def scale_rows(
    integers: torch.Tensor,
    row_scales: torch.Tensor,
    scales: torch.Tensor,
    bias: torch.Tensor | None,
    out: torch.Tensor,
) -> None:
    """int32 [rows, width] * float32 [rows, 1] * float32 [1, width] + float32 [width], in this order, into ``out``,
    contiguous [rows, width] of a dtype in DTYPES."""
    rows, width = integers.shape
    tensors = (integers, row_scales, scales, out) if bias is None else (integers, row_scales, scales, out, bias)
    assert all(tensor.is_contiguous() for tensor in tensors), [tensor.stride() for tensor in tensors]
    assert out.shape == integers.shape and row_scales.numel() == rows and scales.numel() == width, out.shape
    _call(
        "scale_rows", integers.data_ptr(), row_scales.data_ptr(), scales.data_ptr(),
        None if bias is None else bias.data_ptr(), out.data_ptr(), rows, width, _half(out), torch.get_num_threads(),
    )  # fmt: skip


def silu_mul_codes(
    gate: torch.Tensor,
    up: torch.Tensor,
    row_scales: torch.Tensor,
    gate_scales: torch.Tensor,
    up_scales: torch.Tensor,
    codes: torch.Tensor,
    scales: torch.Tensor,
    dtype: torch.dtype,
) -> None:
    """What `scale_rows` to ``dtype``, `silu_mul` and `quantize_rows` make of the integer products gate and up, in one
    pass: int32 [rows, width] each into int8 codes [rows, width] and float32 scales [rows, 1]. Overwrites ``gate``."""
    assert dtype in DTYPES, dtype
    rows, width = gate.shape
    tensors = (gate, up, row_scales, gate_scales, up_scales, codes, scales)
    assert all(tensor.is_contiguous() for tensor in tensors), [tensor.stride() for tensor in tensors]
    assert gate.shape == up.shape == codes.shape and gate_scales.numel() == up_scales.numel() == width, gate.shape
    assert row_scales.numel() == scales.numel() == rows, (row_scales.shape, scales.shape)
    pointers = (tensor.data_ptr() for tensor in tensors)
    _call("silu_mul_codes", *pointers, rows, width, dtype == torch.bfloat16, torch.get_num_threads())


def _call(name: str, *arguments: object) -> None:
    library = _library().library
    assert library is not None, _library().words
    getattr(library, name)(*arguments)


def _half(tensor: torch.Tensor) -> bool:
    assert tensor.dtype in DTYPES, tensor.dtype
    return tensor.dtype == torch.bfloat16


@cache
def _library() -> Built:
    found = built("rowwise")
    if found.library is not None:
        for name, arguments in _ARGUMENTS.items():
            function = getattr(found.library, name)
            function.argtypes, function.restype = arguments, None
    return found
