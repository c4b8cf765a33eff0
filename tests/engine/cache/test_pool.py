"""The pool's slots: what is written where, and what a copy takes along."""

import torch

from evalcard_engine.cache.pool import KVPool, KVShape


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
