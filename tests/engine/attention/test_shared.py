"""Shared stretches against their definition: who is equal to whom, and how far, looked up link by link."""

from hypothesis import given
from hypothesis import strategies as st

from evalcard_engine.attention.shared import Shared, shared_stretches

CHAINS = st.lists(st.lists(st.integers(0, 2), max_size=6), max_size=7)


@given(CHAINS)
def test_every_link_that_is_shared_is_in_one_stretch_with_all_who_share_it(chains: list[list[int]]) -> None:
    found = shared_stretches(chains)
    for number, chain in enumerate(chains):
        for link in range(len(chain)):
            together = tuple(i for i, other in enumerate(chains) if other[: link + 1] == chain[: link + 1])
            here = [one.members for one in found if number in one.members and one.start <= link < one.stop]
            assert here == ([together] if len(together) > 1 else []), (number, link)
    for one in found:
        assert one.start < one.stop <= min(len(chains[member]) for member in one.members)


@given(CHAINS)
def test_stretches_are_as_long_as_they_can_be_and_in_order(chains: list[list[int]]) -> None:
    found = shared_stretches(chains)
    assert [one.start for one in found] == sorted(one.start for one in found)
    for one in found:
        assert list(one.members) == sorted(set(one.members))
        assert not any(other.members == one.members and other.start == one.stop for other in found)


def test_two_levels_by_hand() -> None:
    """Four sequences with one beginning; two of them go on together."""
    chains = ["abx", "abcd", "", "abcdz", "ab", "q"]
    assert shared_stretches(chains) == [Shared((0, 1, 3, 4), 0, 2), Shared((1, 3), 2, 4)]
