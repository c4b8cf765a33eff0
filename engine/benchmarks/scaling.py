"""How cost grows with the number of items, with prompts and with concurrency, and what it takes to queue very many.

    python engine/benchmarks/scaling.py [--model DIR --items 20,60,200]

Without a model the engine runs one that takes no time, so that what is counted is the engine itself: seconds of the
CPU, which neighbours do not lengthen. With one, whole runs are timed. Exits with 1 where a bar is not met.
"""

import argparse
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from evalcard_engine.request import Request

sys.path.insert(0, str(Path(__file__).parent))
from instant_model import InstantModel, answer_requests, choice_requests, engine_of  # noqa: E402

ITEMS, PROMPTS, CONCURRENCY = (100, 1000, 10000), (256, 1024, 4096), (16, 64, 256)
TIME_BAR, MEMORY_BAR = 1.15, 1.10
"""What one item, or one token, may take at the largest size over the smallest; likewise the process's memory."""
QUEUED, QUEUE_SECONDS, QUEUE_BYTES = 100_000, 60.0, 4_000_000_000


class Cost(NamedTuple):
    """Of one run."""

    seconds: float
    loaded_bytes: int
    """The most that the process had held when the model and the requests were there, and the run had not begun."""
    peak_bytes: int
    """Likewise when the run was over."""


class Bars:
    """Lines of a table, and whether all that was asked of them is met."""

    def __init__(self) -> None:
        self.are_met = True

    def check(self, what: str, is_met: bool) -> None:
        print(f"  {what}: {'met' if is_met else 'NOT MET'}", flush=True)
        self.are_met &= is_met


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def cost(model: Any, requests: list[Request], rounds: int, clock: Callable[[], float], **config: int) -> Cost:
    """The median over rounds, each with an engine of its own."""
    seconds, loaded = [], peak_bytes()
    for _ in range(rounds):
        start = clock()
        assert sum(1 for _ in engine_of(model, **config).run(requests)) == len(requests)
        seconds.append(clock() - start)
    return Cost(statistics.median(seconds), loaded, peak_bytes())


def growth(
    bars: Bars, title: str, unit: str, sizes: Sequence[int], measure: Callable[[int], tuple[Cost, int]]
) -> list[Cost]:
    """A line for each size, smallest first; ``measure`` gives a run's cost and what to divide its time by."""
    print(f"\n{title}\n{'':9}{'s':>9}{'us / ' + unit:>14}{'peak MiB':>10}")
    each, costs = [], []
    for size in sizes:
        found, parts = measure(size)
        each.append(found.seconds / parts)
        costs.append(found)
        print(f"{size:9d}{found.seconds:9.3f}{1e6 * each[-1]:14.2f}{found.peak_bytes / 2**20:10.0f}", flush=True)
    bars.check(f"time per {unit} grows by {each[-1] / each[0] - 1:+.1%} (bar {TIME_BAR - 1:+.0%})",
               each[-1] <= TIME_BAR * each[0])  # fmt: skip
    return costs


def by_items(bars: Bars, model: Any, make: Callable[[int], list[Request]], args: argparse.Namespace) -> None:
    clock = time.process_time if args.model is None else time.perf_counter
    cost(model, make(min(args.items)), 1, clock)  # warms caches and loads libraries
    costs = growth(
        bars,
        f"items, {make.__doc__}",
        "item",
        args.items,
        lambda items: (cost(model, make(items), _rounds(items), clock), items),
    )
    ratio = max(one.peak_bytes / one.loaded_bytes for one in costs)
    said = f"a run adds at most {ratio - 1:.1%} to the memory of model and requests (bar {MEMORY_BAR - 1:.0%})"
    bars.check(said, ratio <= MEMORY_BAR)


def _rounds(items: int) -> int:
    return max(1, min(9, 3000 // items))


def queue(bars: Bars, model: Any, count: int, prompt_len: int) -> None:
    """Very many requests at once: from ``Engine.run`` to the first answer."""
    requests = answer_requests(count, model.info.vocab_size, prompt_len, 16)
    made, start = peak_bytes(), time.perf_counter()
    answers = engine_of(model).run(requests)
    accepted = time.perf_counter() - start
    next(answers)
    seconds = time.perf_counter() - start
    answers.close()
    print(f"\n{count} requests of {prompt_len} tokens: checked after {accepted:.1f} s, first answer {seconds:.1f} s")
    print(f"  {made / 2**20:.0f} MiB with the requests, {peak_bytes() / 2**20:.0f} MiB at most")
    bars.check(f"queued in under {QUEUE_SECONDS:.0f} s and {QUEUE_BYTES / 1e9:.0f} GB",
               seconds < QUEUE_SECONDS and peak_bytes() < QUEUE_BYTES)  # fmt: skip


def parse() -> argparse.Namespace:
    def numbers(text: str) -> list[int]:
        return sorted(int(one) for one in text.split(","))

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="time whole runs of this model by number of items, and nothing else")
    parser.add_argument("--items", type=numbers, default=list(ITEMS))
    parser.add_argument("--queued", type=int, default=QUEUED)
    parser.add_argument("--queued-tokens", type=int, default=700, help="of each prompt")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def main() -> None:
    args, bars = parse(), Bars()
    torch.set_num_threads(args.threads)
    if args.model is not None:
        from evalcard_engine.models import open_model

        model: Any = open_model(args.model, dtype="float32", device="cpu", scheme=None)
    else:
        model = InstantModel()
    vocab = model.info.vocab_size

    def choices(items: int) -> list[Request]:
        """few-shot choices"""
        return choice_requests(items, vocab)

    def answers(items: int) -> list[Request]:
        """answers of 16 tokens to prompts of 60"""
        return answer_requests(items, vocab, 60, 16)

    by_items(bars, model, choices, args)
    if args.model is None:
        by_items(bars, model, answers, args)
        by_length(bars, model)
        by_concurrency(bars, model)
        queue(bars, model, args.queued, args.queued_tokens)
    sys.exit(not bars.are_met)


def by_length(bars: Bars, model: Any) -> None:
    def measure(length: int) -> tuple[Cost, int]:
        requests = answer_requests(1 << 18 >> length.bit_length(), model.info.vocab_size, length, 1)
        return cost(model, requests, 3, time.process_time), length * len(requests)

    growth(bars, "tokens of a prompt", "token", PROMPTS, measure)


def by_concurrency(bars: Bars, model: Any) -> None:
    def measure(sequences: int) -> tuple[Cost, int]:
        requests = answer_requests(512, model.info.vocab_size, 60, 32)
        return cost(model, requests, 3, time.process_time, max_sequences=sequences), 32 * len(requests)

    growth(bars, "answers at one time", "token", CONCURRENCY, measure)


if __name__ == "__main__":
    main()
