"""What a kernel is handed: checked, and a quantized weight in the plainest of its equal forms."""

from collections.abc import Collection
from dataclasses import replace

import torch

from evalcard_engine.quant.weight import QuantizedWeight

FLAT, INDEXED, LOOKED_UP = -2, -1, 0
"""How a kernel finds the group of a column where the groups do not line up with its tiles."""

_LOADABLE = (torch.float16, torch.bfloat16, torch.float32, torch.int8)


def check_operands(
    kernel: str, x: torch.Tensor, weight: QuantizedWeight, bias: torch.Tensor | None, dtypes: Collection[torch.dtype]
) -> None:
    """Assert that x [rows, in] and bias [out] go with the weight, on one device, x without gaps along ``in``."""
    shape = (weight.out_features, weight.in_features)
    assert x.dim() == 2 and x.shape[1] == weight.in_features, f"{kernel}: x {tuple(x.shape)}, weight {shape}"
    assert x.dtype in dtypes, f"{kernel}: x is {x.dtype}, not one of {dtypes}"
    assert x.shape[1] == 1 or x.stride(1) == 1, f"{kernel}: x has strides {x.stride()}"
    assert weight.codes.is_contiguous(), f"{kernel}: codes have strides {weight.codes.stride()}"
    assert weight.codes.device == x.device, f"{kernel}: x on {x.device}, codes on {weight.codes.device}"
    if bias is not None:
        assert tuple(bias.shape) == (weight.out_features,), f"{kernel}: bias {tuple(bias.shape)}, weight {shape}"
        assert bias.device == x.device and bias.is_contiguous(), f"{kernel}: bias on {bias.device}"


def loadable(part: torch.Tensor | None) -> torch.Tensor | None:
    """Scales, zero points or offsets, contiguous, of a dtype that every target loads; one-byte floats are widened."""
    if part is None:
        return None
    return (part if part.dtype in _LOADABLE else part.float()).contiguous()


def regular(weight: QuantizedWeight) -> QuantizedWeight:
    """The same weight, not flat where its line's groups begin and end with its rows; nothing is copied."""
    if not weight.is_flat or weight.in_features % weight.group_size:
        return weight
    shape = (weight.out_features, weight.in_features // weight.group_size)
    parts = {name: part.reshape(shape) for name in ("scales", "zero_points", "offsets")
             if (part := getattr(weight, name)) is not None}  # fmt: skip
    return replace(weight, is_flat=False, **parts)


def grouping(weight: QuantizedWeight, inner: int) -> int:
    """How many groups a tile of ``inner`` columns holds, where whole groups or one part of a group fill it;
    LOOKED_UP, INDEXED or FLAT otherwise. ``inner`` is a power of two."""
    if weight.is_flat:
        return FLAT
    if weight.group_index is not None:
        return INDEXED
    if weight.group_size >= weight.in_features or weight.group_size % inner == 0:
        return 1
    return inner // weight.group_size if inner % weight.group_size == 0 else LOOKED_UP


def sort_columns(weight: QuantizedWeight) -> tuple[QuantizedWeight, torch.Tensor | None]:
    """The weight with its columns in the order of their groups, and that order as int64 [in] (None: it was so already).

    For a weight whose group_index fills every group but the last with group_size columns, as act-order does; any other
    is returned as it is. With y, order = sort_columns(w): x @ w^T = x[:, order] @ y^T.
    """
    from evalcard_engine.quant.elements import pack_nibbles, unpack_nibbles

    index = weight.group_index
    if index is None:
        return weight, None
    order = torch.argsort(index, stable=True)
    even = torch.arange(weight.in_features, device=index.device) // weight.group_size
    if not torch.equal(index[order], even):
        return weight, None
    if torch.equal(index, even):
        return replace(weight, group_index=None), None
    if weight.element.storage == "nibbles":
        codes = pack_nibbles(unpack_nibbles(weight.codes, weight.in_features)[:, order])
    else:
        # Indexing by bytes: not every device indexes one-byte floats.
        codes = weight.codes.view(torch.uint8)[:, order].contiguous().view(weight.codes.dtype)
    return replace(weight, codes=codes, group_index=None), order
