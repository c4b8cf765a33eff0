"""What it costs that no answer depends on its batch: the engine as it is beside the same engine on torch's own modules.

    python engine/benchmarks/exactness_price.py --model DIR [--dtype auto|float32|bfloat16] [--rounds N]

The other engine has torch's plain linears and activations. Compiled attention is the same on both sides, as it gives
nothing up for being exact; where torch attends, the other engine meets its keys in as many rows as there are, not in
tiles of eight. Both answer the same requests, taking turns; the price is the median of the ratios of their times, less
one. Exits with 1 where it is more than a tenth.
"""

import argparse
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.nn import functional as F

from evalcard_engine.activations import ACTIVATIONS, ExactActivation
from evalcard_engine.arithmetic import products
from evalcard_engine.arithmetic.cpu_plans import cpu_plan
from evalcard_engine.attention import cpu, plan, strips, tiles
from evalcard_engine.config import DTYPES, EngineConfig
from evalcard_engine.engine import Engine
from evalcard_engine.models import PreparedModel, open_model
from evalcard_engine.quant.linear import DenseLinear, ExactLinear, WideHead
from evalcard_engine.quant.workspace import Workspace
from evalcard_engine.request import Generate, Request

BAR = 0.10
TORCHS = {"silu": F.silu, "gelu": F.gelu}
"""By the names of ACTIVATIONS."""
TILED = (products, tiles, strips, plan, cpu)
"""Modules that know how many rows a tile has."""
KINDS = {"prompts": (32, 600, 1), "answers": (32, 64, 48)}
"""How many requests, their prompts' tokens, and the tokens of an answer."""


class TorchActivation(ExactActivation):
    """torch's own function, which rounds an element by its place in memory, where the engine expects an exact one."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._function = TORCHS[name]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._function(x)

    def gate(self, gate: torch.Tensor, up: torch.Tensor, workspace: Workspace) -> torch.Tensor:
        return self._function(gate).mul_(up)


def loosen(model: PreparedModel, name: str) -> None:
    """Put torch's modules in the place of the exact ones; ``name``: of the activation function. What else the engine
    does to a model, blocks of an MLP's rows and the last layer for asked rows only, stays."""
    for owner in list(model._module.modules()):
        for leaf, child in list(owner._modules.items()):
            if isinstance(child, ExactLinear):
                weight = child.weight.weight.contiguous()
                # torch has no product of bfloat16 that gives float32, as logits are.
                weight = weight.float() if isinstance(owner, WideHead) else weight
                setattr(owner, leaf, DenseLinear(weight, child.bias))
            elif isinstance(child, ExactActivation):
                setattr(owner, leaf, TorchActivation(name))


@contextmanager
def few_rows() -> Iterator[None]:
    """Attention meets blocks in single rows, unpadded, meanwhile."""
    before = products.ROW_TILE
    for module in TILED:
        vars(module)["ROW_TILE"] = 1
    try:
        yield
    finally:
        for module in TILED:
            vars(module)["ROW_TILE"] = before


def seconds(model: PreparedModel, requests: list[Request], threads: int) -> float:
    config = EngineConfig(dtype=model.info.dtype, device="cpu", kv_memory=2 << 30, threads=threads)
    engine = Engine(model, config.resolve("cpu", cpu_plan().step_tokens))
    start = time.perf_counter()
    assert sum(1 for _ in engine.run(requests)) == len(requests)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", choices=DTYPES, default="auto")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    exact, loose = (open_model(args.model, dtype=args.dtype, device="cpu", scheme=None) for _ in range(2))
    activation = next(part for part in exact._module.modules() if isinstance(part, ExactActivation))
    name = next((name for name in TORCHS if ACTIVATIONS[name] is activation._function), None)
    if name is None:
        raise SystemExit(f"--model {args.model} has none of the activations {', '.join(TORCHS)}; give another model.")
    loosen(loose, name)
    print(f"{exact.info.dtype}, {args.threads} threads, load {os.getloadavg()[0]:.2f}")
    rng, is_met = random.Random(1), True
    for kind, (count, prompt_len, new_tokens) in KINDS.items():
        vocab = range(exact.info.vocab_size)
        requests: list[Request] = [
            Generate(str(number), tuple(rng.choices(vocab, k=prompt_len)), new_tokens) for number in range(count)
        ]
        ratios = []
        for _ in range(args.rounds):
            ours = seconds(exact, requests, args.threads)
            with few_rows():
                theirs = seconds(loose, requests, args.threads)
            ratios.append(ours / theirs)
            print(f"{kind:8} exact {ours:7.2f} s   torch's own {theirs:7.2f} s   ratio {ratios[-1]:.3f}", flush=True)
        price = statistics.median(ratios) - 1
        print(f"{kind:8} price of exactness {price:+.1%}", flush=True)
        is_met &= price <= BAR
    print(f"bar: at most {BAR:.0%} of the throughput: {'met' if is_met else 'not met'}")
    sys.exit(not is_met)


if __name__ == "__main__":
    main()
