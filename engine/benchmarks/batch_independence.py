"""The same 64 prompts at batch sizes 1, 7 and 64, prefix cache on and off, 1 and 2 threads: is any bit different?

    python engine/benchmarks/batch_independence.py --model DIR [--dtype auto|float32|bfloat16]

Every prompt is continued greedily and scored; tokens and log-probabilities are compared exactly. Exits with 1 where
any setting gives another answer than the first.
"""

import argparse
import itertools
import random
import sys
import time

from evalcard_engine.config import DTYPES, EngineConfig
from evalcard_engine.engine import Engine
from evalcard_engine.models import open_model
from evalcard_engine.request import Generate, Score


def requests_for(vocab: int, count: int, new_tokens: int) -> list[Generate | Score]:
    """Prompts of random tokens over three stems, one of them longer than an attention block."""
    rng = random.Random(7)
    stems = [tuple(rng.randrange(vocab) for _ in range(length)) for length in (5, 64, 260)]
    made: list[Generate | Score] = []
    for number in range(count):
        tail = tuple(rng.randrange(vocab) for _ in range(rng.randrange(1, 24)))
        prompt = stems[number % 3] + tail
        made.append(Generate(f"greedy {number}", prompt, new_tokens))
        made.append(Score(f"score {number}", prompt, tuple(rng.randrange(vocab) for _ in range(3))))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", choices=DTYPES, default="auto")
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--new-tokens", type=int, default=4)
    args = parser.parse_args()
    model = open_model(args.model, dtype=args.dtype, device="cpu", scheme=None)
    print(model.numerics, flush=True)
    requests = requests_for(model.info.vocab_size, args.prompts, args.new_tokens)
    first, differing = None, 0
    for size, cache, threads in itertools.product((1, 7, 64), (True, False), (1, 2)):
        found, seconds = answers(model, requests, size, cache, threads)
        first = first or found
        different = sum(found[name] != first[name] for name in first)
        differing += different > 0
        print(f"batch {size:2d}, prefix cache {'on ' if cache else 'off'}, {threads} threads: {different} of "
              f"{len(first)} answers differ ({seconds:.1f} s)", flush=True)  # fmt: skip
    sys.exit(differing > 0)


def answers(model, requests, size: int, cache: bool, threads: int) -> tuple[dict, float]:
    """Token ids of every generated answer and log-probabilities of every scored one, by request."""
    import torch

    torch.set_num_threads(threads)
    config = EngineConfig(
        dtype=model.info.dtype, device="cpu", max_sequences=size, prefix_cache=cache, kv_memory=2 << 30
    )
    start = time.perf_counter()
    engine = Engine(model, config.resolve("cpu", 512))
    found = {answer.id: getattr(answer, "token_ids", None) or answer.logprobs for answer in engine.run(requests)}
    return found, time.perf_counter() - start


if __name__ == "__main__":
    main()
