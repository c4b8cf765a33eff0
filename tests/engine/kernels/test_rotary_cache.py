"""Rotation and the write to pages, against transformers and against the engine's own pool, bit for bit."""

import pytest
import torch
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from evalcard_engine.cache.pool import KVPool, KVShape
from evalcard_engine.kernels.rotary_cache import rotary_cache, rotary_cache_reference

DTYPES = [torch.float16, torch.bfloat16, torch.float32]


def step(tokens: int, heads: int, kv_heads: int, sizes: tuple[int, int], dtype: torch.dtype, rotary: int):
    generator = torch.Generator().manual_seed(tokens)
    # Queries, keys and values side by side, as one fused projection leaves them: views with gaps.
    widths = [heads * sizes[0], kv_heads * sizes[0], kv_heads * sizes[1]]
    query, key, value = torch.randn(tokens, sum(widths), generator=generator).to(dtype).split(widths, dim=1)
    angles = torch.rand(tokens, rotary // 2, generator=generator).repeat(1, 2) * 50
    heads_of = (query.view(tokens, heads, -1), key.view(tokens, kv_heads, -1), value.view(tokens, kv_heads, -1))
    return *heads_of, angles.cos().to(dtype), angles.sin().to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("heads", "kv_heads", "sizes"), [(9, 3, (64, 64)), (4, 1, (80, 48)), (2, 2, (6, 16))])
@pytest.mark.parametrize("tokens", [1, 7])
def test_a_step(dtype: torch.dtype, heads: int, kv_heads: int, sizes: tuple[int, int], tokens: int) -> None:
    query, key, value, cos, sin = step(tokens, heads, kv_heads, sizes, dtype, sizes[0])
    pools = [KVPool([KVShape(kv_heads, *sizes)], 5, 4, dtype, "cpu") for _ in range(2)]
    slots = torch.randperm(20, generator=torch.Generator().manual_seed(1))[:tokens]
    found = rotary_cache(query, key, value, cos, sin, slots, pools[0].keys[0], pools[0].values[0])
    expected, rotated = apply_rotary_pos_emb(query, key, cos, sin)
    pools[1].write(0, pools[1].slot_rows(slots), rotated, value)
    assert found.is_contiguous() and torch.equal(found, expected)
    assert torch.equal(pools[0].keys[0], pools[1].keys[0]) and torch.equal(pools[0].values[0], pools[1].values[0])


@pytest.mark.parametrize("stored", DTYPES)
def test_only_a_part_is_rotated_and_pages_have_a_dtype_of_their_own(stored: torch.dtype) -> None:
    query, key, value, cos, sin = step(5, 3, 2, (20, 12), torch.float32, 8)
    slots = torch.tensor([3, 0, 9, 4, 7])
    pages = [[torch.zeros(3, 2, 4, size, dtype=stored) for size in (20, 12)] for _ in range(2)]
    found = rotary_cache(query, key, value, cos, sin, slots, *pages[0])
    assert torch.equal(found, rotary_cache_reference(query, key, value, cos, sin, slots, *pages[1]))
    assert torch.equal(found[..., 8:], query[..., 8:]) and not torch.equal(found[..., :8], query[..., :8])
    assert all(torch.equal(left, right) for left, right in zip(*pages, strict=True)) and bool(pages[0][0].any())


def test_no_tokens_and_bad_tensors() -> None:
    query, key, value, cos, sin = step(2, 2, 1, (8, 8), torch.float32, 8)
    pages = torch.zeros(2, 1, 4, 8)
    none = [part[:0] for part in (query, key, value, cos, sin)]
    assert rotary_cache(*none, torch.empty(0, dtype=torch.int64), pages, pages).shape == (0, 2, 8)
    for wrong, said in (
        ((query, key, value, cos[:, :7], sin, torch.arange(2), pages, pages), "cos"),
        ((query, key, value, cos, sin, torch.arange(2).int(), pages, pages), "slots"),
        ((query, key.half(), value, cos, sin, torch.arange(2), pages, pages), "key is torch.float16"),
        ((query, key, value, cos, sin, torch.arange(2), pages, pages[..., :4]), "value_pages"),
    ):
        with pytest.raises(AssertionError, match=said):
            rotary_cache(*wrong)
