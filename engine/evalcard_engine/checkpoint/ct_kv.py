"""Scales of a quantized KV cache, as compressed-tensors stores them beside an attention module's projections."""

from collections.abc import Collection, Mapping

import torch

from evalcard_engine.checkpoint.claims import ModuleClaim, Parts, Quantized
from evalcard_engine.checkpoint.ct_args import Args
from evalcard_engine.checkpoint.ct_inputs import FLOAT_SCALES
from evalcard_engine.errors import EngineError

NOT_RUN = "kv_cache_scheme: a quantized KV cache is not run yet"
_LAYOUTS = (("k_scale", "v_scale"), ("kv_scale",))
"""One scale each, or (older files) one for both."""
_ZERO_POINTS = ("k_zero_point", "v_zero_point")


def unreadable(args: Args | None) -> list[str]:
    """What of a kv_cache_scheme this engine does not read."""
    if args is None:
        return []
    kinds = (("float", 8, "tensor"), ("int", 8, "tensor"))
    if not args.symmetric or (args.type, args.num_bits, args.strategy) not in kinds:
        zeros = "" if args.symmetric else ", asymmetric"
        return [
            f"kv_cache_scheme of {args.type}{args.num_bits} by {args.strategy}{zeros}; fp8 and int8 by tensor are read"
        ]
    return []


def missing_scales(projection: str, args: Args | None, tensors: Collection[str]) -> list[str]:
    """A fault for the key projection of an attention module that has no scales though the scheme asks for them.

    The library itself finds attention modules by their ``k_proj``.
    """
    attention, _, leaf = projection.rpartition(".")
    if args is None or args.dynamic or leaf != "k_proj":
        return []
    if any(all(f"{attention}.{part}" in tensors for part in layout) for layout in _LAYOUTS):
        return []
    return [f"{projection}: its attention has no k_scale and v_scale, though there is a kv_cache_scheme"]


def claim_scales(attention: str, args: Args | None, parts: Parts) -> ModuleClaim:
    """The scales of one attention module; what is not theirs stays unclaimed. Read, they are float32 [2]: K, V."""
    layout = next((one for one in _LAYOUTS if all(leaf in parts for leaf in one)), None)
    if args is None or args.dynamic or layout is None:
        return ModuleClaim(None)
    leaves = frozenset({*layout, *(leaf for leaf in _ZERO_POINTS if leaf in parts)})
    places = {leaf: parts[leaf] for leaf in layout}
    faults = tuple(
        f"{attention}.{leaf} is {place.dtype} {list(place.shape)}, not one float"
        for leaf, place in places.items()
        if place.dtype not in FLOAT_SCALES or place.shape not in ((), (1,))
    )
    source = Quantized(
        {leaf: f"{attention}.{leaf}" for leaf in sorted(leaves)},
        f"kv {'fp8_e4m3' if args.type == 'float' else 'int8'} (one scale each for K and V)",
        lambda tensors: read_scales(attention, tensors),
    )
    return ModuleClaim(source, leaves, faults)


def scale_values(attention: str, tensors: Mapping[str, torch.Tensor]) -> list[str]:
    """What is wrong with the values."""
    faults = []
    for leaf, value in tensors.items():
        numbers = value.float()
        if leaf in _ZERO_POINTS and bool((numbers != 0).any()):
            faults.append(f"{attention}: the config says symmetric, but {leaf} is not 0")
        elif leaf not in _ZERO_POINTS and not bool((torch.isfinite(numbers) & (numbers > 0)).all()):
            faults.append(f"{attention}: {leaf} is {value.tolist()}; it must be a positive number")
    return faults


def read_scales(attention: str, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """float32 [2]: what keys and values are divided by before they are rounded. Raises EngineError naming the layer."""
    faults = scale_values(attention, tensors)
    if faults:
        raise EngineError(f"{'; '.join(faults)}. Fetch the model again, or compress it anew.")
    layout = _LAYOUTS[0] if "k_scale" in tensors else _LAYOUTS[1] * 2
    return torch.stack([tensors[leaf].float().reshape(()) for leaf in layout])
