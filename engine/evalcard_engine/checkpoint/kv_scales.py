"""Calibrated scales of a quantized KV cache, wherever exporters put them: by layer one for keys and one for values.

Layouts: k_scale and v_scale of the attention module (compressed-tensors, AutoFP8's later files), kv_scale of it for
both (AutoFP8's earlier ones), or k_scale of its k_proj and v_scale of its v_proj (ModelOpt). All scales multiply codes.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from evalcard_engine.cache.kv_codes import KVCodes
from evalcard_engine.checkpoint.claims import Claims, ModuleClaim, Parts, Quantized
from evalcard_engine.checkpoint.plain import PLAIN_DTYPES
from evalcard_engine.checkpoint.reading import TensorReader
from evalcard_engine.errors import EngineError

Element = Literal["fp8_e4m3", "int8"]

_KEY, _VALUE = ("k_scale", "key"), ("v_scale", "value")
_LAYOUTS: tuple[tuple[tuple[str, str], ...], ...] = ((_KEY, _VALUE), (("kv_scale", "key"), ("kv_scale", "value")))
"""(tensor, what its scale is for) of an attention module."""
_OF_PROJECTIONS = {"k_proj": _KEY, "v_proj": _VALUE}
_ZERO_POINTS = ("k_zero_point", "v_zero_point")


@dataclass(frozen=True, slots=True)
class KVScales(Quantized):
    """Scales of an attention's keys and values, which are stored in eight bits; ``read`` gives them as float32 [n]."""

    element: Element
    """What keys and values are stored as."""
    holds: tuple[str, ...]
    """What each of the n is for, ``key`` or ``value``."""


def missing_scales(projection: str, tensors: Container[str]) -> list[str]:
    """A fault for the key projection of an attention module without scales, named by the tensors of the checkpoint.

    Attention modules are found by their ``k_proj``, as compressed-tensors itself finds them.
    """
    attention, _, leaf = projection.rpartition(".")
    if leaf != "k_proj":
        return []
    found = [{f"{attention}.{tensor}" for tensor, _ in layout} for layout in _LAYOUTS]
    found.append({f"{attention}.{child}.{tensor}" for child, (tensor, _) in _OF_PROJECTIONS.items()})
    if any(all(name in tensors for name in names) for names in found):
        return []
    return [f"{projection}: its attention has no k_scale and v_scale, though there is a kv_cache_scheme"]


def claim_scales(module: str, element: Element, parts: Parts, reader: TensorReader) -> ModuleClaim:
    """The scales among the parts of an attention module or of one of its projections; the rest stays unclaimed.

    reader: the checkpoint's tensors; the values are few and are checked here, with all other faults.
    """
    layout = _layout(module, parts)
    if not layout:
        return ModuleClaim(None)
    leaves = frozenset({*(tensor for tensor, _ in layout), *(leaf for leaf in _ZERO_POINTS if leaf in parts)})
    faults = [
        f"{module}.{leaf} is {parts[leaf].dtype} {list(parts[leaf].shape)}, not one float"
        for leaf in sorted(leaves - set(_ZERO_POINTS))
        if parts[leaf].dtype not in PLAIN_DTYPES or parts[leaf].shape not in ((), (1,))
    ]
    if not faults:
        faults = _wrong_values(module, {leaf: reader[f"{module}.{leaf}"] for leaf in leaves})
    holds = tuple(meaning for _, meaning in layout)
    whose = "one scale each for K and V" if len(holds) == 2 else f"one scale for {'K' if 'key' in holds else 'V'}"
    source = KVScales(
        {leaf: f"{module}.{leaf}" for leaf in sorted(leaves)},
        f"kv {element} ({whose})",
        lambda tensors: _read(module, [tensor for tensor, _ in layout], tensors),
        element,
        holds,
    )
    return ModuleClaim(source, leaves, tuple(faults))


def _layout(module: str, parts: Parts) -> tuple[tuple[str, str], ...]:
    """(tensor, meaning) of the scales that are there; empty where there are none, or not all of a layout."""
    alone = _OF_PROJECTIONS.get(module.rpartition(".")[2])
    if alone is not None:
        return (alone,) if alone[0] in parts else ()
    return next((one for one in _LAYOUTS if all(tensor in parts for tensor, _ in one)), ())


def _wrong_values(module: str, tensors: Mapping[str, torch.Tensor]) -> list[str]:
    faults = []
    for leaf, value in sorted(tensors.items()):
        numbers = value.float()
        if leaf in _ZERO_POINTS and bool((numbers != 0).any()):
            faults.append(f"{module}: the config says symmetric, but {leaf} is not 0")
        elif leaf not in _ZERO_POINTS and not bool((torch.isfinite(numbers) & (numbers > 0)).all()):
            faults.append(f"{module}: {leaf} is {value.tolist()}; it must be a positive number")
    return faults


def _read(module: str, order: Sequence[str], tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """float32 [len(order)]; raises EngineError naming the layer for values that cannot be right."""
    faults = _wrong_values(module, tensors)
    if faults:
        raise EngineError(f"{'; '.join(faults)}. Correct its config, fetch the model again, or compress it anew.")
    return torch.stack([tensors[leaf].float().reshape(()) for leaf in order])


def stored_codes(claims: Claims, reader: TensorReader, attentions: Sequence[str]) -> tuple[KVCodes, ...] | None:
    """How each layer's keys and values are to be stored, by its attention module; None where no scales were claimed.

    Raises EngineError naming the layers where some have scales and others have none, or two.
    """
    claimed = {module: source for module, source in claims.extras.items() if isinstance(source, KVScales)}
    if not claimed:
        return None
    element = next(iter(claimed.values())).element
    made, faults = [], []
    for attention in attentions:
        scales = _scales_of(attention, claimed, reader)
        keys, values = ([value for meaning, value in scales if meaning == one] for one in ("key", "value"))
        if len(keys) == len(values) == 1:
            made.append(KVCodes(element, keys[0], values[0]))
        else:
            faults.append(f"{attention} ({len(keys)} for keys, {len(values)} for values)")
    if faults:
        raise EngineError(
            f"the KV cache needs one scale for the keys and one for the values of each layer; not so: "
            f"{', '.join(faults)}. Correct its config, fetch the model again, or compress it anew."
        )
    return tuple(made)


def _scales_of(attention: str, claimed: Mapping[str, KVScales], reader: TensorReader) -> list[tuple[str, float]]:
    """(``key`` or ``value``, scale) of one attention module, from wherever it was claimed."""
    scales: list[tuple[str, float]] = []
    for module in (attention, *(f"{attention}.{child}" for child in _OF_PROJECTIONS)):
        source = claimed.get(module)
        if source is not None:
            found = source.read({part: reader[tensor] for part, tensor in source.tensors.items()})
            assert isinstance(found, torch.Tensor), module
            scales += zip(source.holds, found.tolist(), strict=True)
    return scales
