"""Compiled searches over a row of logits and compiled random bits against their definitions: the same numbers."""

import math

import pytest
import torch

from evalcard_engine.native import sampling
from evalcard_engine.noise import philox
from evalcard_engine.rows import WEIGHT_BITS, exponentials, in_units

pytestmark = pytest.mark.skipif(not sampling.serves(), reason="nothing compiled")


def normal(count: int, spread: float, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(seed)) * spread


def likely(values: torch.Tensor, powers: torch.Tensor, share: float, least_mass: int, least: float) -> list[int]:
    top = float(values.max())
    found = sampling.likely_places(
        values, powers, WEIGHT_BITS, top=top, share=share, least_mass=least_mass, least_value=least
    )
    return found.tolist()


def by_definition(values: torch.Tensor, powers: torch.Tensor, share: float, least_mass: int, least: float) -> list[int]:
    """All values in order, in whole numbers of any size."""
    mass = in_units(powers).tolist()
    order = sorted(range(len(mass)), key=lambda place: (-values[place].item(), place))
    wanted, before, kept = max(1, math.ceil(share * sum(mass))), 0, []
    for place in order:
        if share < 1 and before >= wanted:
            break
        before += mass[place]
        kept.append(place)
    return sorted(place for place in kept if mass[place] >= least_mass and values[place] >= least)


@pytest.mark.parametrize("count", [1, 7, 16, 17, 1000, 9001])
@pytest.mark.parametrize("spread", [0.0, 1e-3, 2.0, 60.0])
@pytest.mark.parametrize("share", [1.0, 0.999, 0.95, 0.3, 1e-9])
def test_likely_places_are_those_of_the_definition(count: int, spread: float, share: float) -> None:
    values = normal(count, spread)
    powers = exponentials(values)
    for least_mass in (0, 1, 1 << 40, 1 << WEIGHT_BITS):
        for least in (-math.inf, float(values.median()), float(values.max())):
            asked = (share, least_mass, least)
            assert likely(values, powers, *asked) == by_definition(values, powers, *asked), asked


def test_equal_values_go_in_the_order_of_their_places() -> None:
    values = torch.tensor([0.0, 2.0, 1.0, 1.0, 2.0, 1.0] * 40)
    powers = exponentials(values)
    for share in (0.1, 0.5, 0.6, 0.77, 0.9):
        assert likely(values, powers, share, 0, -math.inf) == by_definition(values, powers, share, 0, -math.inf)


def test_numbers_too_small_to_weigh_anything_and_subnormal_ones() -> None:
    powers = torch.tensor([1.0, 0.0, 2.0**-44, 2.0**-45, 1e-40, 1.5 * 2.0**-44])
    values = powers.log().clamp(min=-200)
    assert likely(values, powers, 1.0, 1, -math.inf) == [0, 2, 5]
    assert likely(values, powers, 1.0, 0, -math.inf) == [0, 1, 2, 3, 4, 5]


def test_a_sum_beyond_what_doubles_hold() -> None:
    """About 2^62 units: the share is taken of the nearest double, as Python takes it."""
    values = torch.zeros(1 << 18)
    values[5] = -(2.0**-20)
    powers = exponentials(values)
    for share in (0.5, 1 - 2.0**-20):
        assert likely(values, powers, share, 0, -math.inf) == by_definition(values, powers, share, 0, -math.inf)


def test_random_words_are_philox() -> None:
    tokens = torch.cat([torch.arange(50), torch.tensor([1001, 49151, (1 << 18) - 1])])
    for key, position, repeat in [(0, 0, 0), (0x123456789ABCDEF0, 7, 3), (2**64 - 1, 2**32 - 1, 2**32 - 1)]:
        found = sampling.philox_words(tokens, key & 0xFFFFFFFF, key >> 32, position, repeat)
        words = philox(tokens >> 2, (position, repeat, 0), key)
        assert torch.equal(found, words[tokens & 3, torch.arange(len(tokens))])
