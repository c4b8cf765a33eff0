"""GPTQ: what AutoGPTQ, GPTQModel and AutoRound's GPTQ export write.

A linear [out, in] of b bits and g groups (AutoGPTQ 0.7, GPTQModel 7.7): ``qweight`` int32 [in * b / 32, out], each
column one stream of codes from the low end of its words (3-bit codes straddle words: 32 of them in 3 words);
``qzeros`` int32 [g, out * b / 32], packed likewise along the row; ``scales`` float [g, out]; ``g_idx`` int32 [in], the
group of each column. value = (code - zero point) * scale. The checkpoint_format gptq stores zero points minus 1 and
lets them wrap: 0 is stored as 2^b - 1; gptq_v2 stores them as they are.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from evalcard_engine.checkpoint.expected import Part, not_finite, refuse, refuse_values
from evalcard_engine.checkpoint.gptq_config import read_settings
from evalcard_engine.checkpoint.packing import dense_words, signed, unpack_dense, unpack_padded
from evalcard_engine.checkpoint.plain import PLAIN_DTYPES
from evalcard_engine.checkpoint.source import Checkpoint
from evalcard_engine.checkpoint.words import (
    Layer,
    Layout,
    WordFormat,
    symmetric_faults,
    turned,
    without_tensors,
)
from evalcard_engine.quant.elements import INT2, INT3, INT4, INT8, pack_integers
from evalcard_engine.quant.weight import QuantizedWeight

_ELEMENTS = {2: INT2, 3: INT3, 4: INT4, 8: INT8}


def open_format(checkpoint: Checkpoint, config: Mapping[str, Any]) -> WordFormat:
    """Raises EngineError listing every setting that cannot be honoured."""
    settings, faults = read_settings(config, checkpoint.path)
    refuse(checkpoint.name, "GPTQ", faults + without_tensors(checkpoint))
    assert settings is not None, config
    return WordFormat("gptq", settings, LAYOUT)


def _expected(shape: tuple[int, int], layer: Layer) -> Mapping[str, Part]:
    """Without g_idx columns are grouped as they stand; where act-order has moved them it must be there."""
    out, width = shape
    groups = width // layer.size(width)
    is_moved = layer.desc_act is True and groups > 1
    return {
        "qweight": Part(("I32",), ((dense_words(layer.bits, width), out),)),
        "qzeros": Part(("I32",), ((groups, dense_words(layer.bits, out)),)),
        "scales": Part(PLAIN_DTYPES, ((groups, out),)),
        "g_idx": Part(("I32", "I64"), ((width,),), is_optional=not is_moved),
    }


def read_weight(
    name: str, shape: tuple[int, int], layer: Layer, tensors: Mapping[str, torch.Tensor]
) -> QuantizedWeight:
    """The weight; raises EngineError naming the layer for scales, zero points or groups that cannot be right."""
    refuse_values(value_faults(name, shape, layer, tensors))
    width, element = shape[1], _ELEMENTS[layer.bits]
    scales = turned(tensors["scales"])
    zero_points = _zero_points(layer, tensors["qzeros"], shape[0])
    group_index = _group_index(layer, tensors.get("g_idx"), width)
    codes = signed(_unpack(tensors["qweight"].t().contiguous(), layer.bits, width), layer.bits)
    return QuantizedWeight(
        codes=pack_integers(codes) if element.storage == "nibbles" else codes,
        element=element,
        scales=scales,
        group_size=layer.size(width),
        in_features=width,
        zero_points=zero_points,
        group_index=group_index,
        scheme=scheme_words(layer),
    )


def _unpack(words: torch.Tensor, bits: int, count: int) -> torch.Tensor:
    return (unpack_dense if 32 % bits else unpack_padded)(words, bits, count)


def value_faults(name: str, shape: tuple[int, int], layer: Layer, tensors: Mapping[str, torch.Tensor]) -> Iterator[str]:
    """What is wrong with everything but the codes."""
    yield from not_finite(name, ("scales",), tensors)
    if layer.sym:
        stored, middle = _unpack(tensors["qzeros"], layer.bits, shape[0]), 2 ** (layer.bits - 1)
        why = "the config says symmetric (sym, by default true)"
        yield from symmetric_faults(name, stored, (middle, middle - 1), why)
    index = tensors.get("g_idx")
    if index is not None:
        yield from _group_faults(name, layer, index, shape[1])


def _zero_points(layer: Layer, words: torch.Tensor, out: int) -> torch.Tensor | None:
    """int8 [out, groups], the middle of the range taken off as it is from the codes; None where symmetric.

    A symmetric weight's zero point is the middle of the range, whatever the format says of the stored one: files that
    say gptq and store it as it is are about, as are files that say gptq_v2 and store it minus 1. Either is read as the
    middle, as long as the whole layer has the same. An asymmetric weight's is read as the format says.
    """
    if layer.sym:
        return None
    stored = _unpack(words, layer.bits, out)
    if layer.zero_points == "gptq":
        stored = (stored + 1) & (2**layer.bits - 1)  # uint8 wraps at 8 bits by itself
    return turned(signed(stored, layer.bits))


def _group_index(layer: Layer, stored: torch.Tensor | None, width: int) -> torch.Tensor | None:
    """int64 [in], or None where columns are grouped as they stand."""
    is_ordered = stored is None or torch.equal(stored.long(), torch.arange(width) // layer.size(width))
    return None if is_ordered or stored is None else stored.long()


def _group_faults(name: str, layer: Layer, stored: torch.Tensor, width: int) -> list[str]:
    """What is wrong with a g_idx [in]."""
    size = layer.size(width)
    groups, index = width // size, stored.long()
    if int(index.min()) < 0 or int(index.max()) >= groups:
        return [
            f"{name}: g_idx names the groups {int(index.min())} to {int(index.max())}, but there are scales for 0 to "
            f"{groups - 1}"
        ]
    counts = torch.bincount(index, minlength=groups)
    if bool((counts != size).any()):
        odd = int((counts != size).nonzero()[0])
        return [
            f"{name}: g_idx puts {int(counts[odd])} columns in group {odd}, but groups have {size}; it was never set, "
            "or is damaged"
        ]
    if layer.desc_act is False and not torch.equal(index, torch.arange(width) // size):
        return [
            f"{name}: its columns are grouped in another order than they stand in (g_idx), but the config says "
            'desc_act: false, and tools differ on which of the two counts. Set "desc_act": true if g_idx is right'
        ]
    return []


def scheme_words(layer: Layer) -> str:
    """Such as ``w4a16 (int4, groups of 128, asymmetric, zero points stored minus 1, act-order)``."""
    parts = [f"int{layer.bits}", layer.shared]
    if layer.sym:
        parts.append(f"zero point {2 ** (layer.bits - 1)} whatever is stored")
    else:
        parts += ["asymmetric", "zero points stored " + ("minus 1" if layer.zero_points == "gptq" else "as they are")]
    parts += ["act-order"] if layer.desc_act else []
    return f"w{layer.bits}a16 ({', '.join(parts)})"


LAYOUT = Layout(frozenset({"qweight", "qzeros", "scales", "g_idx"}), _expected, read_weight, value_faults, scheme_words)
