"""Do the intervals, tests and the sequential test of evalcard.compare keep what they promise? Simulated.

    python tools/simulate_intervals.py [--quick] [--seed 6]

Prints the tables of docs/statistics.md in Markdown and exits 1 if any figure misses its bar by more than 3 standard
errors of the simulation itself. A few minutes on one core; --quick takes seconds, with fewer runs and wider errors.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from simulate import early, graded, pairs
from simulate.report import Part


@dataclass(frozen=True)
class Runs:
    """Simulated runs a case."""

    pairs: int = 100_000
    graded: int = 6_000
    errors: int = 2_000
    speeds: int = 400
    sizes: tuple[int, int] = (early.GSM8K, 300)
    """Items of the large and the small sets for the sequential test's errors."""


QUICK = Runs(pairs=400, graded=100, errors=60, speeds=15, sizes=(300, 100))


def simulate(runs: Runs, seed: int) -> Iterator[Part]:
    """Each part has a seed of its own, so one can be changed without moving the others."""
    yield pairs.coverage(runs.pairs, seed)
    yield pairs.widths()
    yield graded.coverage(runs.graded, seed + 1)
    yield early.errors(runs.errors, seed + 2, runs.sizes)
    yield early.speeds(runs.speeds, seed + 3)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few runs, for a test of this script")
    parser.add_argument("--seed", type=int, default=6)
    options = parser.parse_args(arguments)
    misses = []
    for part in simulate(QUICK if options.quick else Runs(), options.seed):
        print(part.markdown(), end="\n\n", flush=True)
        misses += part.misses
    for miss in misses:
        print(f"MISSED: {miss}")
    print("Every bar is met." if not misses else f"{len(misses)} bars are missed.")
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
