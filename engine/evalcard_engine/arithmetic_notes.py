"""What the numerics string says of quantized linears and of kernels: other arithmetic gives other answers."""

import torch

from evalcard_engine.arithmetic.products import fused_serves
from evalcard_engine.attention import compiled
from evalcard_engine.checkpoint.claims import Claims
from evalcard_engine.kernels import dispatch
from evalcard_engine.native import rowwise
from evalcard_engine.quant.linear import LINEARS_VERSION
from evalcard_engine.quant.scheme import Scheme


def attention_note(dtype: torch.dtype, kv_heads: int, head_sizes: tuple[int, int], is_compiled: bool) -> str:
    """How blocks of keys held as ``dtype`` are met on the CPU; where nothing is compiled, soft-capped scores are met by
    products anywhere."""
    if is_compiled:
        return f"attention by {compiled.words(dtype)}"
    return f"attention {'fused' if fused_serves(dtype, kv_heads, head_sizes) else 'by products'}"


def rows_note(hooked: tuple[str, ...]) -> tuple[str, ...]:
    """What compiled code does between the linears, ``hooked`` being its words."""
    return (f"{', '.join(hooked)} by {rowwise.words()}",) if hooked else ()


def linear_notes(scheme: Scheme | None, claims: Claims, kernels: bool) -> tuple[str, ...]:
    """How quantized linears are computed: by a scheme on the fly, or as a compressed checkpoint says."""
    if scheme is not None and scheme.changes_weights:
        if kernels and _makes_codes(scheme):
            return (f"{scheme.name} by kernels",)
        return (f"{scheme.name} as {'int8 product' if scheme.activations == 'int8' else 'dequantized'}",)
    return (f"quantized linears {LINEARS_VERSION}",) if claims.schemes and not kernels else ()


def kernel_notes(hooked: tuple[str, ...], scheme: Scheme | None, claims: Claims) -> str:
    """Which Triton kernels compute what, ``hooked`` being layer_modules' words. What is not named is torch's: the
    embedding, every linear without codes."""
    linears = ("quantized linears in exact tiles",) if claims.schemes or _makes_codes(scheme) else ()
    return f"{dispatch.versions()} for {', '.join(('attention', *hooked, *linears))}"


def _makes_codes(scheme: Scheme | None) -> bool:
    """2:4 sparsity alone leaves plain weights."""
    return scheme is not None and bool(scheme.element or scheme.head_bits)
