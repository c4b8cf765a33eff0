"""Interleaved A/B rounds: evalcard and a peer take turns, and a round in which the machine was not ours is void.

Every script of this folder that compares whole commands does it by this module: evalcard first in even rounds, the peer
first in odd ones, so that neither always meets warm file caches; the ratio is peer seconds by evalcard seconds of the
same round, and the figure that counts is the median over rounds. A void round is printed, kept as a row that says why,
and measured again a few times.
"""

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from machine_load import OwnLoad, Usage  # beside this file


@dataclass(frozen=True)
class Scores:
    """What a side's answers were worth."""

    values: Mapping[str, float] = field(default_factory=dict)
    """Fractions by ``task metric,filter``."""
    items: Mapping[str, int] = field(default_factory=dict)
    """Items by task."""


@dataclass(frozen=True)
class Measured:
    """One whole command of one side."""

    usage: Usage
    scores: Scores = Scores()
    output_tokens: int | None = None
    """Generated tokens; None where nothing is generated or the side does not tell."""
    is_cut: bool = False
    """Whether it was ended by its cap, so that its seconds are a lower bound."""

    @property
    def seconds(self) -> float:
        return self.usage.seconds


Side = Callable[[], Measured]


@dataclass(frozen=True)
class Limits:
    """From where on a round is void."""

    load: float = 0.5
    """Load average before the round, beyond what our own commands left in it."""
    others_share: float = 0.05
    """CPU time of others during any command of the round, as a share of all there was."""
    retries: int = 2
    """How often a void round is measured again."""
    wait_s: float = 60.0
    """How long at most a round waits for a load average within its limit."""


@dataclass(frozen=True)
class Round:
    """One turn of every side."""

    number: int
    load_before: float
    ours: Mapping[str, Measured]
    """evalcard's sides by name."""
    peer: Measured
    void: str = ""
    """Why the round does not count; empty where it does."""

    def ratio(self, name: str) -> float:
        return self.peer.seconds / self.ours[name].seconds

    @property
    def others_share(self) -> float | None:
        """The largest of its commands'."""
        shares = [one.usage.others_share for one in (*self.ours.values(), self.peer)]
        known = [share for share in shares if share is not None]
        return max(known) if known else None


@dataclass(frozen=True)
class Summary:
    """The ratio of one of evalcard's sides, over rounds."""

    median: float
    low: float
    high: float
    counted: int
    """Rounds behind the figures."""
    is_at_least: bool
    """Whether the peer was cut in any of them, so that the true ratio is larger."""
    is_void: bool
    """Whether there was no round but void ones; the figures are theirs."""

    def __str__(self) -> str:
        at_least = "at least " if self.is_at_least else ""
        of = "1 round" if self.counted == 1 else f"{self.counted} rounds, {self.low:.2f} to {self.high:.2f}"
        text = f"{at_least}{self.median:.2f} times as fast (median of {of})"
        return f"{text}; EVERY ROUND WAS VOID: not a figure to keep" if self.is_void else text


def summarize(rounds: Sequence[Round], name: str) -> Summary:
    """Median, least and largest ratio over the rounds that count, or over all where none does."""
    counted = [one for one in rounds if not one.void]
    is_void = not counted
    counted = counted or list(rounds)
    ratios = [one.ratio(name) for one in counted]
    assert ratios, ("no rounds", name)
    is_cut = any(one.peer.is_cut for one in counted)
    return Summary(statistics.median(ratios), min(ratios), max(ratios), len(ratios), is_cut, is_void)


class Referee:
    """Lets the sides take turns and says whether a round counts. One for a whole comparison: it remembers our load."""

    def __init__(
        self,
        limits: Limits,
        say: Callable[[str], None],
        load: Callable[[], float] = lambda: os.getloadavg()[0],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.limits, self._say = limits, say
        self._load, self._clock, self._sleep = load, clock, sleep
        self._own = OwnLoad()

    def run(self, side: Side) -> Measured:
        """One command outside any round, such as a probe, whose load is remembered as ours."""
        measured = side()
        self._own.add(measured.usage, self._clock())
        return measured

    def rounds(
        self,
        ours: Mapping[str, Side],
        peer_name: str,
        peer: Side,
        count: int,
        keep: Callable[[Round], None] = lambda turn: None,
    ) -> list[Round]:
        """``count`` rounds and the void ones before them, in the order in which they ran; each is given to ``keep`` as
        soon as it is over, so that what ends a comparison early costs no finished round."""
        done: list[Round] = []
        for number in range(count):
            for attempt in range(self.limits.retries + 1):
                done.append(self._round(number, ours, peer))
                keep(done[-1])
                self._say(_line(done[-1], peer_name))
                if not done[-1].void:
                    break
                left = self.limits.retries - attempt
                self._say(f"  measured again, {left} more tries" if left else "  no try is left; the row says void")
        return done

    def _round(self, number: int, ours: Mapping[str, Side], peer: Side) -> Round:
        load, foreign = self._wait()
        order: list[tuple[str | None, Side]] = [*ours.items(), (None, peer)]
        found = {name: self.run(side) for name, side in (order if number % 2 == 0 else reversed(order))}
        their = found.pop(None)
        measured = {name: found[name] for name in ours}
        turn = Round(number, load, measured, their)
        return Round(number, load, measured, their, void=self._void(foreign, turn.others_share))

    def _wait(self) -> tuple[float, float]:
        """The load average, and the part of it that is not ours, once that is small or the patience is over."""
        end = self._clock() + self.limits.wait_s
        while True:
            load = self._load()
            foreign = load - self._own.at(self._clock())
            if foreign <= self.limits.load or self._clock() >= end:
                return load, foreign
            self._sleep(min(5.0, self.limits.wait_s))

    def _void(self, foreign_load: float, others_share: float | None) -> str:
        reasons = []
        if foreign_load > self.limits.load:
            reasons.append(f"load of others before {foreign_load:.2f}")
        if others_share is not None and others_share > self.limits.others_share:
            reasons.append(f"others used {others_share:.0%} of the CPU time")
        return "; ".join(reasons)


def _line(turn: Round, peer_name: str) -> str:
    parts = [
        f"{name} {one.seconds:.1f} s, ratio {'at least ' if turn.peer.is_cut else ''}{turn.ratio(name):.2f}"
        for name, one in turn.ours.items()
    ]
    share = "not known" if turn.others_share is None else f"{turn.others_share:.1%}"
    state = f" VOID: {turn.void}" if turn.void else ""
    cut = " (cut)" if turn.peer.is_cut else ""
    head = f"round {turn.number} (load {turn.load_before:.2f}, others {share})"
    return f"{head}: {peer_name} {turn.peer.seconds:.1f} s{cut}; {'; '.join(parts)}{state}"
