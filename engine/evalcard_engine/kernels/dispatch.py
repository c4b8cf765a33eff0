"""Which kernel runs a quantized linear; importing this loads no Triton."""

import importlib.util
from dataclasses import dataclass, replace
from functools import cache

import torch

from evalcard_engine.quant.activations import round_activations
from evalcard_engine.quant.weight import QuantizedWeight

KERNELS_VERSION = "gpu3"
"""Counts up when a change to the kernels may change a bit of an answer; part of every journal key made with them."""

LEAST_CAPABILITY = 80
"""bfloat16 products and asynchronous copies begin here."""


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A weight as its kernel reads it best: made once by `prepare`, used by every `linear`."""

    weight: QuantizedWeight
    column_order: torch.Tensor | None
    """int64 [in]: the order in which the kernel wants the columns of x; None as they are."""


def prepare(weight: QuantizedWeight) -> Prepared:
    """Sort act-order's columns by group, so that the product reads whole groups and x is permuted instead; inputs that
    are rounded in groups keep their order. A calibrated scale of inputs goes to the weight's device."""
    from evalcard_engine.kernels.operands import sort_columns

    acts = weight.activations
    if acts is not None and acts.scale is not None:
        weight = replace(weight, activations=replace(acts, scale=acts.scale.to(weight.codes.device)))
    if acts is not None and acts.per == "group":
        return Prepared(weight, None)
    return Prepared(*sort_columns(weight))


def versions() -> str:
    """What names the kernels' arithmetic in a journal key; Triton's version decides how they are compiled."""
    import triton

    return f"{KERNELS_VERSION} (triton {triton.__version__})"


def serves(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether kernels run here on inputs of this dtype: CUDA from sm_80, or Triton's interpreter."""
    if dtype not in (torch.float16, torch.bfloat16, torch.float32) or not _has_triton():
        return False
    from evalcard_engine.kernels.launch import capability, is_interpreted

    return is_interpreted() if device.type == "cpu" else capability(device) >= LEAST_CAPABILITY


def linear(
    x: torch.Tensor, weight: QuantizedWeight | Prepared, bias: torch.Tensor | None, *, exact: bool = True
) -> torch.Tensor | None:
    """x [..., in] -> [..., out] in x's dtype, the inputs rounded as weight.activations says; None where no kernel
    serves.

    int8 and fp8 inputs meet such weights in an integer or fp8 product; any other rounding of inputs is made first, in
    torch, and the weight is dequantized within the product. ``exact``: a row does not depend on the rows beside it.
    """
    if not serves(x.device, x.dtype):
        return None
    prepared = weight if isinstance(weight, Prepared) else Prepared(weight, None)
    held = prepared.weight
    rows = x.reshape(-1, x.shape[-1])
    if prepared.column_order is not None:
        rows = rows.index_select(1, prepared.column_order)
    return _rows(rows.contiguous(), held, bias, exact).view(*x.shape[:-1], held.out_features)


def _rows(x: torch.Tensor, weight: QuantizedWeight, bias: torch.Tensor | None, exact: bool) -> torch.Tensor:
    """`linear` of contiguous rows."""
    from evalcard_engine.kernels import fp8, int8, quantize_rows, weight_only

    acts = weight.activations
    if acts is None:
        return weight_only.weight_only(x, weight, bias, exact=exact)
    if int8.serves(weight):
        codes, scales = quantize_rows.quantize_rows(x, acts)
        return int8.int8(codes, scales, weight, bias, x.dtype)
    if fp8.serves(weight):
        codes, scales = quantize_rows.quantize_rows(x, acts)
        return fp8.fp8(codes, scales, weight, bias, x.dtype, exact=exact)
    rounded = round_activations(x, acts).to(x.dtype)
    return weight_only.weight_only(rounded, weight, bias, exact=exact)


@cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None
