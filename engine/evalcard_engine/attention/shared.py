"""Which sequences of a step hold the same pages, and how far. No torch: pages are numbers."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple


class Shared(NamedTuple):
    """Chains that run together: ``members`` by number, ascending, have the same links [start, stop)."""

    members: tuple[int, ...]
    start: int
    stop: int


def shared_stretches(chains: Sequence[Sequence[Hashable]]) -> list[Shared]:
    """Where two or more chains are equal from their start on, cut wherever one of them leaves the others.

    Every chain is covered from link 0 to the last link that it shares with any other, each link once. A chain's
    stretches come in order; stretches of longer company come before those of the shorter that follows it.
    """
    found: list[Shared] = []
    open_ends = [(list(range(len(chains))), 0)]
    while open_ends:
        members, start = open_ends.pop()
        by_link: dict[Hashable, list[int]] = {}
        for member in members:
            if len(chains[member]) > start:
                by_link.setdefault(chains[member][start], []).append(member)
        for together in by_link.values():
            if len(together) > 1:
                stop = _common_stop([chains[member] for member in together], start + 1)
                found.append(Shared(tuple(together), start, stop))
                open_ends.append((together, stop))
    return sorted(found, key=lambda one: (one.start, one.members))


def _common_stop(chains: Sequence[Sequence[Hashable]], start: int) -> int:
    """The first link from ``start`` on at which these chains are not all equal; before it they are."""
    stop = start
    shortest = min(map(len, chains))
    while stop < shortest and all(chain[stop] == chains[0][stop] for chain in chains):
        stop += 1
    return stop
