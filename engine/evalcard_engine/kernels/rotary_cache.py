"""Rotary position embedding (Su et al., arXiv 2104.09864), halves rotated, and keys and values written to pages."""

import torch
import triton
import triton.language as tl

from evalcard_engine.kernels.launch import is_interpreted, launch
from evalcard_engine.kernels.rounding import narrow

DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def _rotate(at, cos, sin, places, rotary_size, size, DTYPE: tl.constexpr, INTERPRETED: tl.constexpr):
    """One head's numbers at ``at``, the first rotary_size of them rotated: float32, as rounded to DTYPE."""
    half = rotary_size // 2
    turned = places < rotary_size
    is_low = places < half
    value = tl.load(at + places, mask=places < size, other=0.0).to(tl.float32)
    partner = tl.load(at + tl.where(is_low, places + half, places - half), mask=turned, other=0.0).to(tl.float32)
    partner = tl.where(is_low, -partner, partner)
    first = value * tl.load(cos + places, mask=turned, other=0.0).to(tl.float32)
    second = partner * tl.load(sin + places, mask=turned, other=0.0).to(tl.float32)
    first = narrow(first, DTYPE, INTERPRETED).to(tl.float32)
    second = narrow(second, DTYPE, INTERPRETED).to(tl.float32)
    rotated = narrow(first + second, DTYPE, INTERPRETED).to(tl.float32)
    return tl.where(turned, rotated, value)


@triton.jit
def _rotary_cache_kernel(
    query, key, value, cos, sin, slots, out, key_pages, value_pages,
    heads, kv_heads, key_size, value_size, rotary_size, page_size,
    query_token, query_head, key_token, key_head, value_token, value_head,
    BLOCK: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """out[t, h] = q cos[t] + rotate_half(q) sin[t] of q = query[t, h]; the same of key[t, h] goes to slot slots[t] of
    key_pages, and value[t, h] as it is to that slot of value_pages. rotate_half((a, b)) = (-b, a). Each product and
    the sum are rounded to the dtype of query, as a model in that dtype does it."""
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    places = tl.arange(0, BLOCK)
    cos_row = cos + token * rotary_size
    sin_row = sin + token * rotary_size
    DTYPE: tl.constexpr = out.dtype.element_ty
    if head < heads:
        at = query + token * query_token + head * query_head
        rotated = _rotate(at, cos_row, sin_row, places, rotary_size, key_size, DTYPE, INTERPRETED)
        place = out + (token * heads + head) * key_size + places
        tl.store(place, narrow(rotated, DTYPE, INTERPRETED), mask=places < key_size)
    else:
        kv_head = head - heads
        slot = tl.load(slots + token)
        line = (slot // page_size * kv_heads + kv_head) * page_size + slot % page_size
        at = key + token * key_token + kv_head * key_head
        rotated = _rotate(at, cos_row, sin_row, places, rotary_size, key_size, DTYPE, INTERPRETED)
        place = key_pages + line * key_size + places
        tl.store(place, narrow(rotated, key_pages.dtype.element_ty, INTERPRETED), mask=places < key_size)
        fresh = tl.load(
            value + token * value_token + kv_head * value_head + places, mask=places < value_size, other=0.0
        )
        place = value_pages + line * value_size + places
        fresh = narrow(fresh.to(tl.float32), value_pages.dtype.element_ty, INTERPRETED)
        tl.store(place, fresh, mask=places < value_size)


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
    """Rotate a step's queries and keys, and store its keys and values.

    query [tokens, heads, key_size], key [tokens, kv_heads, key_size], value [tokens, kv_heads, value_size], of one
    dtype in DTYPES and unit stride along the last dimension; cos and sin contiguous [tokens, rotary_size], rotary_size
    even and at most key_size; slots int64 [tokens], each at most once; pages contiguous
    [pages, kv_heads, page_size, size] of a dtype in DTYPES. Returns the rotated queries, contiguous.
    """
    _check(query, key, value, cos, sin, slots, key_pages, value_pages)
    tokens, heads, key_size = query.shape
    kv_heads, value_size = value.shape[1:]
    out = torch.empty(tokens, heads, key_size, dtype=query.dtype, device=query.device)
    if tokens == 0:
        return out
    arguments = {
        "query": query,
        "key": key,
        "value": value,
        "cos": cos,
        "sin": sin,
        "slots": slots,
        "out": out,
        "key_pages": key_pages,
        "value_pages": value_pages,
        "heads": heads,
        "kv_heads": kv_heads,
        "key_size": key_size,
        "value_size": value_size,
        "rotary_size": cos.shape[1],
        "page_size": key_pages.shape[2],
    }
    for name, part in (("query", query), ("key", key), ("value", value)):
        arguments |= {f"{name}_token": part.stride(0), f"{name}_head": part.stride(1)}
    constants = {"BLOCK": triton.next_power_of_2(max(key_size, value_size)), "INTERPRETED": is_interpreted()}
    grid = (tokens, heads + kv_heads)
    launch(_rotary_cache_kernel, grid, arguments, constants, warps=1, stages=1, fp_fusion=False)
    return out


def rotary_cache_reference(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    slots: torch.Tensor,
    key_pages: torch.Tensor,
    value_pages: torch.Tensor,
) -> torch.Tensor:
    """The same in torch, as transformers' attention modules and a paged cache do it."""
    page, offset = slots // key_pages.shape[2], slots % key_pages.shape[2]
    key_pages[page, :, offset] = _rotated(key, cos, sin).to(key_pages.dtype)
    value_pages[page, :, offset] = value.to(value_pages.dtype)
    return _rotated(query, cos, sin)


def _rotated(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    size = cos.shape[1]
    turned, rest = heads[..., :size], heads[..., size:]
    low, high = turned.chunk(2, dim=-1)
    other = torch.cat((-high, low), dim=-1)
    cos, sin = cos[:, None].to(heads.dtype), sin[:, None].to(heads.dtype)
    return torch.cat((turned * cos + other * sin, rest), dim=-1)


def _check(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    slots: torch.Tensor,
    key_pages: torch.Tensor,
    value_pages: torch.Tensor,
) -> None:
    tokens, _, key_size = query.shape
    kv_heads, value_size = value.shape[1:]
    for name, part in (("query", query), ("key", key), ("value", value)):
        assert part.dtype == query.dtype and part.dtype in DTYPES, f"rotary_cache: {name} is {part.dtype}"
        assert part.shape[2] == 1 or part.stride(2) == 1, f"rotary_cache: {name} has strides {part.stride()}"
    assert tuple(key.shape) == (tokens, kv_heads, key_size), f"rotary_cache: key {tuple(key.shape)}"
    assert value.shape[0] == tokens, f"rotary_cache: value {tuple(value.shape)}"
    for name, table in (("cos", cos), ("sin", sin)):
        is_whole = table.shape == (tokens, cos.shape[1]) and table.shape[1] % 2 == 0 and table.shape[1] <= key_size
        assert is_whole and table.is_contiguous(), f"rotary_cache: {name} {tuple(table.shape)}"
    assert tuple(slots.shape) == (tokens,) and slots.dtype == torch.int64, f"rotary_cache: slots {slots.dtype}"
    for name, pages, size in (("key_pages", key_pages, key_size), ("value_pages", value_pages, value_size)):
        expected = (key_pages.shape[0], kv_heads, key_pages.shape[2], size)
        assert tuple(pages.shape) == expected, f"rotary_cache: {name} {tuple(pages.shape)}, expected {expected}"
        assert pages.is_contiguous() and pages.dtype in DTYPES, f"rotary_cache: {name} is {pages.dtype}"
