"""Philox against the published vectors and a scalar definition; the noise against its formula."""

import math

import pytest
import torch

from evalcard_engine.noise import (
    GUMBEL_MAX,
    GUMBEL_MIN,
    gumbel_noise,
    gumbel_noises,
    multiply_halves,
    noise_key,
    philox,
)

ONES = 0xFFFFFFFF


def scalar_philox(counter: tuple[int, int, int, int], key: int) -> tuple[int, int, int, int]:
    """Philox4x32-10 in Python integers, written from the paper's round function."""
    c, k = counter, (key & ONES, key >> 32)
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = ((second >> 32) ^ c[1] ^ k[0], second & ONES, (first >> 32) ^ c[3] ^ k[1], first & ONES)
        k = ((k[0] + 0x9E3779B9) & ONES, (k[1] + 0xBB67AE85) & ONES)
    return c


KNOWN = [
    ((0, 0, 0, 0), 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES,) * 4, 2**64 - 1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        0x299F31D0A4093822,
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_known_answers_of_random123(counter, key, words):
    assert scalar_philox(counter, key) == words
    assert tuple(philox(torch.tensor([counter[0]]), counter[1:], key)[:, 0].tolist()) == words


def test_the_vectorized_form_equals_the_scalar_one():
    key = noise_key(17, 0xABCDEF0123456789)
    blocks = torch.arange(0, 200_000, 977)
    words = philox(blocks, (5, 3, 0), key)
    for place, block in enumerate(blocks.tolist()):
        assert tuple(words[:, place].tolist()) == scalar_philox((block, 5, 3, 0), key)


def test_the_product_in_halves_equals_the_whole_one():
    """The form other devices use, on the values where a carry could be lost."""
    edges = [0, 1, 0xFFFF, 0x10000, 0x1FFFF, 0x7FFFFFFF, 0x80000000, 0xFFFF0000, ONES]
    for factor in (0xD2511F53, 0xCD9E8D57):
        high, low = multiply_halves(factor, torch.tensor(edges))
        assert high.tolist() == [factor * word >> 32 for word in edges]
        assert low.tolist() == [factor * word & ONES for word in edges]


def test_noise_follows_its_formula_token_by_token():
    key = noise_key(1, 2)
    tokens = torch.tensor([0, 1, 2, 3, 4, 7, 8, 50, 51, 49_151])
    noise = gumbel_noise(tokens, key=key, position=9, repeat=4)
    for token, value in zip(tokens.tolist(), noise.tolist(), strict=True):
        word = scalar_philox((token // 4, 9, 4, 0), key)[token % 4]
        uniform = ((word >> 9) + 0.5) * 2.0**-23
        assert value == torch.tensor(-math.log(-math.log(uniform))).float().item()


def test_noise_of_some_tokens_equals_noise_of_all():
    everything = gumbel_noise(torch.arange(5000), key=99, position=0, repeat=0)
    some = torch.tensor([3, 4, 5, 17, 1200, 4999])
    assert torch.equal(gumbel_noise(some, key=99, position=0, repeat=0), everything[some])
    assert torch.equal(gumbel_noise(torch.arange(1001), key=99, position=0, repeat=0), everything[:1001])


def test_every_part_of_the_address_matters():
    def noise(seed=1, item=2, position=3, repeat=4):
        return gumbel_noise(torch.arange(64), key=noise_key(seed, item), position=position, repeat=repeat)

    others = [noise(seed=9), noise(item=9), noise(position=9), noise(repeat=9), noise(seed=2, item=1)]
    assert all(not torch.equal(noise(), other) for other in others)
    assert torch.equal(noise(), noise())


def test_the_bounds_hold_at_both_ends_of_the_uniform():
    for word, bound in ((0, GUMBEL_MIN), (ONES, GUMBEL_MAX)):
        uniform = ((word >> 9) + 0.5) * 2.0**-23
        assert 0 < uniform < 1
        assert abs(-math.log(-math.log(uniform)) - bound) < 0.02
    assert -math.log(-math.log(0.5 * 2.0**-23)) > GUMBEL_MIN
    assert -math.log(-math.log(1 - 0.5 * 2.0**-23)) < GUMBEL_MAX


def test_the_noise_is_distributed_as_it_should_be():
    """Mean is Euler's constant and variance pi^2 / 6; four standard errors over 400 000 values."""
    noise = gumbel_noise(torch.arange(400_000), key=noise_key(0, 0), position=0, repeat=0).double()
    assert abs(noise.mean().item() - 0.5772157) < 4 * (math.pi**2 / 6 / 400_000) ** 0.5
    assert abs(noise.var().item() - math.pi**2 / 6) < 0.03


def test_noise_of_several_answers_is_that_of_each():
    ids = [torch.tensor([3, 4, 5, 900]), torch.arange(40), torch.tensor([900]), torch.tensor([900, 901])]
    keys, positions, repeats = [7, (1 << 63) + 5, 7, 8], [0, 3, (1 << 32) - 1, 0], [2, 0, 2, 2]
    alone = [
        gumbel_noise(one, key=key, position=position, repeat=repeat)
        for one, key, position, repeat in zip(ids, keys, positions, repeats, strict=True)
    ]
    assert torch.equal(gumbel_noises(ids, keys=keys, positions=positions, repeats=repeats), torch.cat(alone))
