"""The name of the arithmetic that answers rest on: what computes them, and whether rows were found apart here.

`self_test` checks the claim on the machine at hand; where it fails, the numerics string says so instead of promising.
"""

from functools import cache

import torch

from evalcard_engine.arithmetic.cpu_plans import cpu_features, cpu_vendor
from evalcard_engine.arithmetic.exact_linear import fallback_faults, linear_words, onednn_serves
from evalcard_engine.arithmetic.products import product_faults

KERNELS_VERSION = "cpu3"
"""Counts up when a change to the CPU kernels may change a bit of an answer; part of every journal key."""


@cache
def self_test(dtype: torch.dtype, kv_heads: int, head_sizes: tuple[int, int]) -> tuple[str, ...]:
    """What on this machine does *not* keep rows apart, in words; empty is the good answer. Takes about 0.1 s."""
    faults = [] if onednn_serves(dtype) else fallback_faults(dtype)
    return tuple(faults + product_faults(kv_heads, head_sizes))


def routing_faults(num_experts: int, choices: int) -> tuple[str, ...]:
    """Likewise of what routers do with their scores, softmax and the choice of experts: rows alone and among others."""
    scores = torch.randn(67, num_experts, generator=torch.Generator().manual_seed(0))

    def routed(rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        weights = torch.softmax(rows, dim=-1)
        best = torch.topk(weights, choices, dim=-1)
        return weights, *best, best.values / best.values.sum(dim=-1, keepdim=True)

    whole = routed(scores)
    for at, rows in ((0, 1), (3, 2), (5, 7), (9, 33)):
        parts = zip(routed(scores[at : at + rows]), whole, strict=True)
        if not all(torch.equal(part, all_rows[at : at + rows]) for part, all_rows in parts):
            return (f"routing to {num_experts} experts: rows depend on the row count",)
    return ()


def describe(device: str, dtype: torch.dtype, faults: tuple[str, ...], *notes: str, kernels: str = "") -> str:
    """The numerics string of a journal key: equal strings promise equal answers for equal tokens.

    kernels: whose kernels compute what, besides torch's.
    """
    parts = [str(dtype).removeprefix("torch."), f"torch {torch.__version__}"]
    if device == "cpu":
        parts += [f"{cpu_vendor()} {cpu_features()}", f"kernels {KERNELS_VERSION}", f"linear {linear_words(dtype)}"]
        parts += [f"kernels {kernels}"] if kernels else []
        parts.append("rows exact" if not faults else "rows inexact")
    else:
        parts += [torch.cuda.get_device_name(device), f"kernels {kernels or 'torch'}", "rows inexact"]
    return "; ".join((*parts, *notes))
