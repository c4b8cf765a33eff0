"""The pool's slots: what is written where, and what a copy takes along."""

import mmap
from pathlib import Path

import pytest
import torch

from evalcard_engine.cache.kv_codes import KVCodes, decode, encode
from evalcard_engine.cache.pool import KVPool, KVShape, token_bytes


def filled(page_size: int = 4) -> KVPool:
    """Two layers with heads of different sizes; slot s of head h holds 100 s + h in its first place."""
    pool = KVPool([KVShape(2, 3, 5), KVShape(2, 4, 4)], 3, page_size, torch.float32, "cpu")
    slots = torch.arange(3 * page_size)
    for layer, (keys, values) in enumerate(zip(pool.keys, pool.values, strict=True)):
        names = (100 * slots[:, None] + torch.arange(2)).float()[..., None]
        pool.write(
            layer, pool.slot_rows(slots), names.repeat(1, 1, keys.shape[-1]), names.repeat(1, 1, values.shape[-1])
        )
    return pool


def test_a_slot_is_page_times_size_plus_offset() -> None:
    pool = filled()
    for tensor in (*pool.keys, *pool.values):
        for page in range(3):
            for head in range(2):
                for offset in range(4):
                    assert bool((tensor[page, head, offset] == 100 * (4 * page + offset) + head).all())


def test_write_leaves_other_slots_alone() -> None:
    pool = filled()
    before = pool.keys[0].clone()
    pool.write(0, pool.slot_rows(torch.tensor([6, 1])), torch.full((2, 2, 3), -1.0), torch.zeros(2, 2, 5))
    changed = (pool.keys[0] != before).any(dim=-1)
    assert changed.nonzero().tolist() == [[0, 0, 1], [0, 1, 1], [1, 0, 2], [1, 1, 2]]


def test_copy_takes_the_first_slots_in_every_layer() -> None:
    pool = filled()
    before = [tensor.clone() for tensor in (*pool.keys, *pool.values)]
    pool.copy_tokens(0, 2, 3)
    for tensor, old in zip((*pool.keys, *pool.values), before, strict=True):
        assert torch.equal(tensor[2, :, :3], old[0, :, :3])
        assert torch.equal(tensor[2, :, 3:], old[2, :, 3:])
        assert torch.equal(tensor[:2], old[:2])


def test_a_pool_remembers_that_it_held_nan() -> None:
    pool = filled()
    assert not pool.tainted
    rows = pool.slot_rows(torch.tensor([0]))
    pool.write(1, rows, torch.full((1, 2, 4), torch.inf), torch.zeros(1, 2, 4))
    pool.write(1, rows, torch.zeros(1, 2, 4), torch.zeros(1, 2, 4))
    assert pool.tainted


def test_bytes_follow_the_shapes() -> None:
    assert filled().num_bytes == 4 * 3 * 4 * (2 * 8 + 2 * 8)
    assert KVShape(2, 3, 5).elements_per_token == 16


CODED = [KVCodes("fp8_e4m3", 0.5, 0.25), KVCodes("int8", 0.5, 0.25), KVCodes("int8")]


def coded(codes: KVCodes) -> tuple[KVPool, torch.Tensor, torch.Tensor]:
    """Two layers with keys and values of different sizes, the second one written: (pool, keys, values by slot)."""
    pool = KVPool([KVShape(2, 3, 5)] * 2, 3, 4, torch.float32, "cpu", [codes] * 2)
    generator = torch.Generator().manual_seed(3)
    keys, values = torch.randn(12, 2, 3, generator=generator), torch.randn(12, 2, 5, generator=generator)
    order = torch.randperm(12, generator=generator)
    pool.write(1, pool.slot_rows(order), keys[order], values[order])
    return pool, keys, values


@pytest.mark.parametrize("codes", CODED, ids=str)
def test_codes_are_read_back_from_their_slots(codes: KVCodes) -> None:
    pool, keys, values = coded(codes)
    for fresh, read, scale in ((keys, pool.read_keys, codes.key_scale), (values, pool.read_values, codes.value_scale)):
        held = None if scale is None else torch.tensor([scale])
        stored, scales = encode(fresh, codes.element, held)
        expected = decode(stored, held if scales is None else scales).view(3, 4, 2, -1).transpose(1, 2)
        assert torch.equal(read(1, torch.tensor([2, 0])), expected[[2, 0]])
        assert torch.equal(read(1, 1), expected[1])
        assert not read(0, 1).any()


@pytest.mark.parametrize("codes", CODED, ids=str)
def test_a_copy_takes_the_scales_of_its_codes_along(codes: KVCodes) -> None:
    pool, _, _ = coded(codes)
    everything = torch.arange(3)
    before = pool.read_keys(1, everything), pool.read_values(1, everything)
    pool.copy_tokens(0, 2, 3)
    for old, new in zip(before, (pool.read_keys(1, everything), pool.read_values(1, everything)), strict=True):
        assert torch.equal(new[2, :, :3], old[0, :, :3]) and torch.equal(new[2, :, 3:], old[2, :, 3:])
        assert torch.equal(new[:2], old[:2])


@pytest.mark.parametrize("codes", CODED, ids=str)
def test_bytes_of_codes_are_counted_with_their_scales(codes: KVCodes) -> None:
    pool, _, _ = coded(codes)
    expected = 2 * (3 + 5) + (2 * 2 * 4 if codes.element == "int8" else 0)
    assert token_bytes([KVShape(2, 3, 5)] * 2, torch.float32, [codes] * 2) == 2 * expected
    assert pool.num_bytes == 2 * 3 * 4 * expected


@pytest.mark.parametrize("codes", CODED, ids=str)
def test_codes_keep_what_is_not_finite(codes: KVCodes) -> None:
    pool, _, _ = coded(codes)
    bad = torch.zeros(1, 2, 3)
    bad[0, 1, 2] = torch.inf
    pool.write(1, pool.slot_rows(torch.tensor([5])), bad, torch.zeros(1, 2, 5))
    assert pool.tainted
    assert bool(pool.read_keys(1, 1)[1, 1, 2].isnan()) and int(pool.read_keys(1, torch.arange(3)).isnan().sum()) <= 3


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's account of memory")
@pytest.mark.parametrize("codes", [None, KVCodes("int8"), KVCodes("fp8_e4m3", 1.0, 1.0)], ids=str)
def test_pages_take_memory_when_they_are_written(codes: KVCodes | None) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

    before = resident()
    pool = KVPool([KVShape(4, 64, 64)] * 2, 4096, 16, torch.float32, "cpu", None if codes is None else [codes] * 2)
    assert pool.num_bytes > 32 << 20
    assert resident() - before < pool.num_bytes // 8
    assert not pool.keys[1].view(torch.uint8).any() and pool.keys[0].is_contiguous()
