"""What a decoding step spends outside the model's forward: scheduler, batch, plan of attention, readout, bookkeeping.

    python engine/benchmarks/overhead.py --model DIR

Random prompts are continued greedily and by sampling, on the CPU; steps in which every sequence decodes are counted,
and the median of each part is printed. Exits with 1 where the share outside the model reaches a tenth at 64 sequences.
"""

import argparse
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from evalcard_engine import engine as engine_module
from evalcard_engine import models, runner
from evalcard_engine.engine import Engine
from evalcard_engine.request import Generate, Request, Sampling
from evalcard_engine.scheduler import Scheduler

sys.path.insert(0, str(Path(__file__).parent))
from instant_model import answer_requests, engine_of  # noqa: E402

PARTS = ("schedule", "batch", "plan", "model", "readout")
"""Scheduler; building of the batch; plan of attention; the module's forward; tokens from logits. What is left are
answers and bookkeeping."""
CPU_TIME = "count seconds of the CPU, which neighbours do not lengthen; give --threads 1 with it"
COUNTS = [1, 16, 64, 256]
BAR_SEQUENCES, BAR_SHARE = 64, 0.10
SAMPLING = Sampling(temperature=0.6, seed=1, item_key=0, top_p=0.95)


class StepTimes:
    """Seconds of each part, by step; made by `recorded`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.steps: list[Counter[str]] = []

    def timed(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """``call``, its time added to the present step."""

        def wrapped(*args: Any, **keywords: Any) -> Any:
            start = self._clock()
            try:
                return call(*args, **keywords)
            finally:
                self.steps[-1][part] += self._clock() - start

        return wrapped

    def whole(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """``Engine._step``: everything of one step belongs to it."""

        def wrapped(*args: Any) -> list[Any]:
            self.steps.append(Counter())
            # A generator works when it is asked, so all of it is asked for at once.
            return self.timed("whole", lambda: list(step(*args)))()

        return wrapped


@contextmanager
def recorded(engine: Engine, model: models.PreparedModel, clock: Callable[[], float]) -> Iterator[StepTimes]:
    """Time the parts of every step of ``engine`` while this lasts."""
    times = StepTimes(clock)
    readout = engine_module.Readout
    places: list[tuple[object, str, Callable[..., Any]]] = [
        (engine, "_step", times.whole(engine._step)),
        (runner.Runner, "run", times.timed("launch", runner.Runner.run)),
        (models, "prepare_step", times.timed("plan", models.prepare_step)),
        (model._module, "forward", times.timed("model", model._module.forward)),
        (readout, "collect", times.timed("readout", readout.collect)),
    ]
    places += [
        (Scheduler, name, times.timed("schedule", getattr(Scheduler, name)))
        for name in ("next_step", "complete", "finish")
    ]
    before = [(owner, name, vars(owner).get(name)) for owner, name, _ in places]
    try:
        for owner, name, call in places:
            setattr(owner, name, call)
        yield times
    finally:
        for owner, name, call in before:
            delattr(owner, name) if call is None else setattr(owner, name, call)


def requests_for(vocab: int, count: int, prompt_len: int, new_tokens: int, is_sampled: bool) -> list[Request]:
    made = answer_requests(count, vocab, prompt_len, new_tokens)
    sampling = SAMPLING if is_sampled else None
    return [replace(one, sampling=sampling) for one in made if isinstance(one, Generate)]


def measure(
    model: models.PreparedModel, sequences: int, args: argparse.Namespace, is_sampled: bool
) -> dict[str, float]:
    """Median milliseconds of each part, of the rest and of the whole, over the steps in which all decode."""
    engine = engine_of(model, max_sequences=sequences)
    requests = requests_for(model.info.vocab_size, sequences, args.prompt_tokens, args.new_tokens, is_sampled)
    clock = time.process_time if args.cpu_time else time.perf_counter
    with recorded(engine, model, clock) as times:
        assert sum(1 for _ in engine.run(requests)) == sequences
    # The last prompts end in a step of their own; the first step after it, and the one that ends all, are left out.
    decoding = times.steps[-args.new_tokens + 2 : -1]
    for step in decoding:
        step["batch"] = step["launch"] - step["plan"] - step["model"]
    found = {part: 1e3 * statistics.median(step[part] for step in decoding) for part in (*PARTS, "whole")}
    outside = [(step["whole"] - step["model"]) / step["whole"] for step in decoding]
    rest = statistics.median(step["whole"] - sum(step[part] for part in PARTS) for step in decoding)
    return found | {"rest": 1e3 * rest, "share": statistics.median(outside)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--sequences", type=lambda text: [int(one) for one in text.split(",")], default=COUNTS)
    parser.add_argument("--prompt-tokens", type=int, default=100)
    parser.add_argument("--new-tokens", type=int, default=24, help="of each answer; at least 5")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--cpu-time", action="store_true", help=CPU_TIME)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = models.open_model(args.model, dtype="float32", device="cpu", scheme=None)
    columns = (*PARTS, "rest", "whole")
    print(f"milliseconds a step, {args.threads} threads, load {os.getloadavg()[0]:.2f}")
    print(f"{'sequences':>9}  {'answers':8}" + "".join(f"{name:>10}" for name in columns) + f"{'outside':>10}")
    is_met = True
    for sequences in args.sequences:
        for is_sampled in (False, True):
            found = measure(model, sequences, args, is_sampled)
            figures = "".join(f"{found[name]:10.2f}" for name in columns)
            print(
                f"{sequences:9d}  {'sampled' if is_sampled else 'greedy':8}{figures}{found['share']:10.1%}", flush=True
            )
            is_met &= sequences != BAR_SEQUENCES or found["share"] < BAR_SHARE
    is_measured = BAR_SEQUENCES in args.sequences
    verdict = ("met" if is_met else "not met") if is_measured else "not measured"
    print(f"bar: under {BAR_SHARE:.0%} of a step outside the model at {BAR_SEQUENCES} sequences: {verdict}")
    sys.exit(not is_met)


if __name__ == "__main__":
    main()
