"""Whether quantized weights stay packed in memory or are expanded when they are loaded: the user's word, or a table.

On the CPU both give the same answers, bit by bit (quant/packed_linear.py), so the choice is no part of any key and may
look at the memory at hand.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from evalcard_engine.arithmetic.cpu_plans import cpu_features
from evalcard_engine.building import is_linear
from evalcard_engine.checkpoint.claims import Claims
from evalcard_engine.errors import EngineError
from evalcard_engine.loading import Tally, scheme_of
from evalcard_engine.memory import available_memory
from evalcard_engine.quant.scheme import Scheme

Form = Literal["packed", "expanded"]

MEMORY_SHARE = 0.5
"""Of the available memory, what expanded linears may take before auto packs them; the KV cache wants its part too."""

AUTO: Mapping[str, Form] = {
    "amx": "expanded",
    "avx512_bf16+vnni": "expanded",
    "avx512+vnni": "expanded",
    "avx512": "expanded",
    "avx2": "expanded",
    "base": "expanded",
}
"""What is faster, by CPU feature set (arithmetic/cpu_plans.py), where memory allows it.

Measured on avx512_bf16+vnni only, weights of 576 to 5632 rows and columns, int4, int8, fp8, fp4 and NF4: a linear that
dequantizes anew takes 1.1 to 1.2 times as long at 1024 rows, 1.6 to 2.3 times at 32 and 1.6 to 7 times at one, in every
shape and scheme, so shapes have no entries of their own. A whole model whose weights exceed the caches decodes at 0.6
to 0.8 of the speed. The other sets have narrower vectors or the same, and no measurement that says otherwise.
"""


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen, and why."""

    form: Form
    reason: str
    """One clause for a line of progress."""


def choose_form(asked: str, features: str, expanded_bytes: int, available: int) -> Choice:
    """asked: packed, expanded or auto. features: the CPU's. expanded_bytes: what the quantized linears take expanded.
    available: bytes of memory that may still be had."""
    if asked != "auto":
        forms: dict[str, Form] = {"packed": "packed", "expanded": "expanded"}
        return Choice(forms[asked], "as asked")
    if expanded_bytes > MEMORY_SHARE * available:
        sizes = f"{expanded_bytes / 2**30:.1f} of {available / 2**30:.1f} GiB available"
        return Choice("packed", f"expanded they would take {sizes}")
    return Choice(AUTO[features], "faster on this CPU")


def choose_for(
    module: nn.Module, claims: Claims, scheme: Scheme | None, dtype: torch.dtype, device: str, asked: str
) -> Choice | None:
    """The form of a model's quantized linears on the CPU, before it is filled; None where it is to have none, and on
    other devices. ``dtype``: what it is computed in."""
    if device != "cpu":
        return None
    weights = [
        owner.weight.numel()
        for name, owner in module.named_modules()
        if is_linear(owner) and (name in claims.schemes or _is_covered(name, scheme))
    ]
    if not weights:
        return None
    return choose_form(asked, cpu_features(), dtype.itemsize * sum(weights), available_memory())


def _is_covered(name: str, scheme: Scheme | None) -> bool:
    """Whether the scheme makes codes of this linear that are to be dequantized; int8 products need no such choice."""
    found = scheme_of(name, scheme)
    return found is not None and found.element is not None and found.activations != "int8"


def form_words(choice: Choice | None, kernels: bool, tally: Tally) -> str:
    """How the quantized linears of a filled model are held, such as ``packed (as asked)``; empty where it has none."""
    if not tally.num_quantized:
        return ""
    if kernels:
        return "packed (read by kernels)"
    if tally.num_int8 == tally.num_quantized:
        return "packed (int8 products)"
    found = "expanded" if choice is None else f"{choice.form} ({choice.reason})"
    return f"{found}, {tally.num_int8} of {tally.num_quantized} as int8 products" if tally.num_int8 else found


def check_on_gpu(asked: str, has_kernels: bool) -> None:
    """Raises EngineError for a choice there is not on a GPU, where kernels read packed weights or there are none."""
    has = "packed" if has_kernels else "expanded"
    if asked not in ("auto", has):
        why = "kernels read packed weights" if has_kernels else "no kernel runs packed weights in this dtype here"
        raise EngineError(f"weights is {asked!r}, and on this GPU {why}; leave it at auto, or use device='cpu'.")
