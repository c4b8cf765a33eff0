"""The sequential test with a look after every batch: how often it errs at the limit, how soon it ends elsewhere."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from evalcard.compare.sequential import SequentialTest
from simulate.report import Part, percent

CONFIDENCE, ALPHA = 0.95, 0.025
BATCH = 32
LIMIT = Fraction(95, 100)
GSM8K = 1319
"""Items of the benchmark that the bars are set for."""


@dataclass(frozen=True)
class Items:
    """A full set, not yet in random order; its recovery is what it is, nothing is drawn."""

    baseline: list[Fraction]
    compressed: list[Fraction]

    @property
    def recovery(self) -> Fraction:
        return sum(self.compressed, Fraction(0)) / sum(self.baseline, Fraction(0))


@dataclass(frozen=True)
class Speed:
    """One row on how soon it ends."""

    score: float
    flips: float
    recovery: float
    bar: float | None
    """Greatest median share of the items; None where it is only told."""


SPEEDS = (
    Speed(0.9, 0.05, 1.0, 0.25),
    Speed(0.9, 0.10, 1.0, 0.35),
    Speed(0.6, 0.05, 1.0, 0.50),
    Speed(0.3, 0.05, 1.0, None),
    Speed(0.9, 0.10, 0.85, 0.15),
    Speed(0.6, 0.09, 0.85, 0.15),
    Speed(0.6, 0.10, 0.85, 0.15),
)


def binary(n: int, score: float, flips: float, recovery: float) -> Items:
    """Right and wrong answers; flips as a share of all items, more where the drop alone takes more."""
    drop = score * (1 - recovery)
    gained = round(n * max((flips - drop) / 2, 0.0))
    lost = gained + round(n * drop)
    both = round(n * score) - lost
    rest = n - both - lost - gained
    baseline = [1] * (both + lost) + [0] * (gained + rest)
    compressed = [1] * both + [0] * lost + [1] * gained + [0] * rest
    return Items([Fraction(one) for one in baseline], [Fraction(one) for one in compressed])


def graded(n: int, recovery: float, rng: np.random.Generator) -> Items:
    """Means of four answers, three quarters of which draw the same noise in both models."""
    chances, noise = rng.beta(1.4, 0.6, size=(n, 1)), rng.random((n, 4))
    other = np.where(rng.random((n, 4)) < 0.75, noise, rng.random((n, 4)))
    baseline, compressed = (noise < chances).sum(1), (other < recovery * chances).sum(1)
    return Items([Fraction(int(b), 4) for b in baseline], [Fraction(int(c), 4) for c in compressed])


def peek(items: Items, limit: Fraction, rng: np.random.Generator) -> SequentialTest:
    """Run a random order until a decision, with a look after every batch."""
    order = rng.permutation(len(items.baseline)).tolist()
    test = SequentialTest(len(order), limit, CONFIDENCE)
    for start in range(0, len(order), BATCH):
        batch = order[start : start + BATCH]
        if test.update([items.baseline[i] for i in batch], [items.compressed[i] for i in batch]):
            break
    return test


def errors(runs: int, seed: int, sizes: tuple[int, int] = (GSM8K, 300)) -> Part:
    """At the limit itself the set passes, so FAIL is an error; just below it PASS is."""
    part = Part(
        f"Sequential, a look every {BATCH} items: {runs} runs a case, 2.5 % a side",
        ("set", "items", "false PASS, just below the limit", "false FAIL, at the limit"),
    )
    rng = np.random.default_rng(seed)
    for name, items in _sets(sizes, rng):
        wrong = []
        for answer, limit in (("PASS", items.recovery + Fraction(1, 10**9)), ("FAIL", items.recovery)):
            share = sum(peek(items, limit, rng).decision == answer for _ in range(runs)) / runs
            part.at_most(f"{name}, false {answer}", share, ALPHA, runs)
            wrong.append(percent(share))
        part.rows.append([name, str(len(items.baseline)), *wrong])
    return part


def speeds(runs: int, seed: int) -> Part:
    """Median share of the items that a decision takes."""
    part = Part(
        f"Sequential, {GSM8K} items, limit {percent(float(LIMIT))}: {runs} runs a case",
        ("score", "flips", "true recovery", "ends in", "median share of items", "90 % of runs within", "bar"),
    )
    rng = np.random.default_rng(seed)
    for speed in SPEEDS:
        items = binary(GSM8K, speed.score, speed.flips, speed.recovery)
        tests = [peek(items, LIMIT, rng) for _ in range(runs)]
        wanted = "PASS" if items.recovery >= LIMIT else "FAIL"
        used = np.array([test.num_used if test.decision == wanted else GSM8K for test in tests]) / GSM8K
        median = float(np.median(used))
        where = f"score {speed.score:g}, flips {percent(speed.flips)}, recovery {percent(speed.recovery)}"
        if speed.bar is not None and median > speed.bar:
            part.misses.append(f"{part.title}, {where}: median {percent(median)}, bar {percent(speed.bar)}")
        right = sum(test.decision == wanted for test in tests) / runs
        flipped = sum(b != c for b, c in zip(items.baseline, items.compressed, strict=True)) / GSM8K
        part.rows.append(
            [f"{speed.score:g}", percent(flipped), percent(float(items.recovery)), f"{wanted} ({percent(right)})",
             percent(median), percent(float(np.quantile(used, 0.9))), percent(speed.bar) if speed.bar else "–"]
        )  # fmt: skip
    return part


def _sets(sizes: tuple[int, int], rng: np.random.Generator) -> Iterator[tuple[str, Items]]:
    large, small = sizes
    yield "score 0.9, 5 % flips", binary(large, 0.9, 0.05, 0.95)
    yield "score 0.6, 10 % flips", binary(large, 0.6, 0.10, 0.95)
    yield "score 0.9, 10 % flips", binary(small, 0.9, 0.10, 0.95)
    yield "score 0.3, 5 % flips", binary(small, 0.3, 0.05, 0.95)
    yield "four answers an item", graded(small, 0.95, rng)
