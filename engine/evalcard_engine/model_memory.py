"""Whether a model's weights fit into memory, told from its headers before any of them is read."""

from collections.abc import Mapping

import torch
from torch import nn

from evalcard_engine.building import is_linear
from evalcard_engine.checkpoint.claims import Claims, Quantized
from evalcard_engine.checkpoint.tensor_files import TensorFile
from evalcard_engine.errors import OutOfMemory
from evalcard_engine.loading import HEAD, scheme_of
from evalcard_engine.quant.scheme import Scheme

INT8_PRODUCTS = "w8a8"
"""The scheme whose linears hold their codes in any form."""


def weights_need(
    module: nn.Module,
    claims: Claims,
    tensors: Mapping[str, TensorFile],
    scheme: Scheme | None,
    dtype: torch.dtype,
    is_packed: bool,
    head_dtype: torch.dtype | None = None,
) -> int:
    """Bytes that the weights of a model on meta come to in memory, of packed ones without the scales made on the way.

    tensors: the checkpoint's; scheme: what is done to linears on the way in; is_packed: whether quantized linears keep
    their compressed size; head_dtype: of the head, where it is not ``dtype``. A head that shares its weight with the
    embedding is held beside it.
    """
    total = 0
    for name, owner in module.named_modules():
        for leaf, made in owner._parameters.items():
            if made is None:
                continue
            is_weight = leaf == "weight" and is_linear(owner)
            codes = _code_bytes(f"{name}.{leaf}", made, claims, tensors, scheme, is_packed) if is_weight else None
            held = (head_dtype or dtype) if name == HEAD else dtype
            item_size = held.itemsize if is_linear(owner) else made.dtype.itemsize
            total += made.numel() * item_size if codes is None else codes
    return total


def _code_bytes(
    key: str,
    made: torch.Tensor,
    claims: Claims,
    tensors: Mapping[str, TensorFile],
    scheme: Scheme | None,
    is_packed: bool,
) -> int | None:
    """What a linear's weight takes where it is held as codes; None where it is held in the dtype computed in."""
    source = claims.sources.get(key)
    if isinstance(source, Quantized):
        is_held = is_packed or source.scheme.startswith(INT8_PRODUCTS)
        return sum(tensors[name].num_bytes for name in source.tensors.values()) if is_held else None
    applied = scheme_of(key.removesuffix(".weight"), scheme)
    if applied is None or applied.element is None:
        return None
    is_held = is_packed or applied.name.startswith(INT8_PRODUCTS)
    return made.numel() * applied.weight_bits // 8 if is_held else None


def check_memory(
    model: str, needed: int, available: int, device: str, dtype: torch.dtype, *, is_quantized: bool, is_packed: bool
) -> None:
    """Raises OutOfMemory where ``available`` bytes on ``device`` are less than the ``needed`` ones."""
    if needed <= available:
        return
    ways = []
    if is_quantized and not is_packed and device == "cpu":
        ways.append("hold its compressed weights packed (--weights packed)")
    if dtype == torch.float32 and needed // 2 <= available:
        ways.append("compute in half the bytes (--dtype bfloat16)")
    if not is_quantized:
        ways.append("compress it on the way in (such as :w4a16 with --weights packed)")
    ways.append("use a machine with more memory")
    advice = "; or ".join(ways)
    form = f"{'packed and ' if is_packed else ''}{str(dtype).removeprefix('torch.')}"
    raise OutOfMemory(
        f"the weights of {model} take {needed / 2**30:.2f} GiB of memory ({form}), and {available / 2**30:.2f} GiB are "
        f"available on this machine's {device}. {advice[0].upper()}{advice[1:]}."
    )
