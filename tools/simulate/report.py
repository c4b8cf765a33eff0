"""A simulated part: its table in Markdown and the bars that it missed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

ERRORS_ALLOWED = 3
"""Standard errors of the simulation by which a figure may lie beyond its bar: a hundred figures lie close to theirs."""


@dataclass
class Part:
    """One table."""

    title: str
    header: Sequence[str]
    rows: list[list[str]] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)

    def at_least(self, what: str, share: float, bar: float, runs: int) -> None:
        self._hold(what, share, bar, share >= bar - allowance(bar, runs), "at least")

    def at_most(self, what: str, share: float, bar: float, runs: int) -> None:
        self._hold(what, share, bar, share <= bar + allowance(bar, runs), "at most")

    def _hold(self, what: str, share: float, bar: float, is_held: bool, words: str) -> None:
        if not is_held:
            self.misses.append(f"{self.title}, {what}: {percent(share)}, must be {words} {percent(bar)}")

    def markdown(self) -> str:
        rule = ["---:"] * len(self.header)
        lines = [f"| {' | '.join(cells)} |" for cells in (self.header, rule, *self.rows)]
        return "\n".join([f"### {self.title}", "", *lines])


def allowance(share: float, runs: int) -> float:
    """What simulating ``runs`` times only may add to a share."""
    return ERRORS_ALLOWED * math.sqrt(share * (1 - share) / runs)


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def spread(shares: Sequence[float]) -> str:
    """Least to greatest, or a dash."""
    return f"{100 * min(shares):.1f}–{100 * max(shares):.1f} %" if shares else "–"


def greatest(shares: Sequence[float]) -> str:
    return percent(max(shares)) if shares else "–"
