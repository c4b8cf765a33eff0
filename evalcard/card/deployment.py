"""What it takes to deploy a model, for its card: weights, KV cache, cards and requests, formatted, without prose."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evalcard.card import numbers
from evalcard.errors import UserError
from evalcard.footprint.cache import kv_dtype
from evalcard.footprint.footprint import Footprint, footprint_of
from evalcard.footprint.gpus import GPUS, Room, fit
from evalcard.footprint.report import CONTEXTS, KV_DTYPES
from evalcard.footprint.sizes import gib_and_gb, memory
from evalcard.footprint.stored import stored_as
from evalcard.footprint.weights import PLAIN_BYTES, scheme_of

SHARE = 0.9
"""Of each card's memory; what engines use by default."""
_LEAST_SAID = 0.01
"""Of the counted bytes: a smaller difference is scales and the like."""


@dataclass(frozen=True, slots=True)
class CacheLine:
    """The cache of one request."""

    tokens: str
    cells: tuple[str, ...]
    """By KV dtype, GiB and GB."""


@dataclass(frozen=True, slots=True)
class GpuLine:
    """The fewest cards of one kind that hold the weights and one request of the longest length."""

    name: str
    memory: str
    gpus: str
    requests: tuple[str, ...]
    """At once on so many cards, by length."""


@dataclass(frozen=True, slots=True)
class DeploymentView:
    """A model's footprint."""

    parameters: str
    active: str | None
    """Of a mixture of experts, those that one token uses."""
    weights: str
    is_measured: bool
    expected: str | None
    """What the config lets expect, where it is something else than what was measured."""
    kv_dtype: str
    """That the GPUs are counted with."""
    token_bytes: str
    windows: tuple[tuple[str, str], ...]
    """(layers, tokens that they hold at most)"""
    num_layers: str
    expanded: str | None
    """Bytes of a token where an engine stores every head's keys and values instead of MLA's latent vector."""
    kv_dtypes: tuple[str, ...]
    cache: tuple[CacheLine, ...]
    contexts: tuple[str, ...]
    gpus: tuple[GpuLine, ...]
    share: str
    """Of each card's memory, in percent."""


def deployment_view(
    config: Mapping[str, Any] | None, weight_bytes: int | None, scheme: str | None, kv_scheme: str | None
) -> DeploymentView | None:
    """config: the model's parsed config.json; weight_bytes: measured, as ModelRecord has them; scheme: applied on the
    fly, None for the model as it is; kv_scheme: what its KV cache is stored as, None as scheme or config say.

    None where the family is not known, or the config does not tell the sizes.
    """
    if config is None:
        return None
    try:
        found = footprint_of(config)
        counted = _counted_bytes(found, config, scheme)
        dtype = _kv_dtype(config, scheme, kv_scheme)
    except UserError:
        return None
    weights = counted if weight_bytes is None else weight_bytes
    if not weights:
        return None
    contexts = _contexts(found)
    dtypes = tuple(dict.fromkeys((dtype, *KV_DTYPES)))
    return DeploymentView(
        parameters=numbers.parameters(found.num_parameters),
        active=numbers.parameters(found.num_active) if found.has_experts else None,
        weights=memory(weights),
        is_measured=weight_bytes is not None,
        expected=memory(counted) if counted and _differs(found, weights, counted) else None,
        kv_dtype=dtype,
        token_bytes=f"{found.cache.token_bytes(dtype):,}",
        windows=tuple((f"{count:,}", f"{window:,}") for count, window in found.cache.windows),
        num_layers=f"{found.num_layers:,}",
        expanded=f"{found.expanded_cache.token_bytes(dtype):,}" if found.expanded_cache else None,
        kv_dtypes=dtypes,
        cache=tuple(_cache_line(found, tokens, dtypes) for tokens in contexts),
        contexts=tuple(f"{tokens:,}" for tokens in contexts),
        gpus=tuple(_gpu_line(name, found, weights, dtype, contexts) for name in GPUS),
        share=f"{100 * SHARE:g}",
    )


def _kv_dtype(config: Mapping[str, Any], scheme: str | None, kv_scheme: str | None) -> str:
    """As asked, as the scheme says, or as the checkpoint does."""
    applied, stored = scheme_of(scheme) if scheme else None, stored_as(config)
    return kv_dtype(kv_scheme or (applied and applied.kv_cache) or (stored and stored.kv_dtype) or KV_DTYPES[0])


def _counted_bytes(found: Footprint, config: Mapping[str, Any], scheme: str | None) -> int | None:
    stored = stored_as(config)
    if stored is not None and scheme is None:
        return found.weight_bytes(stored.scheme, stored.kinds) if stored.scheme else None
    return found.weight_bytes(scheme_of(scheme) if scheme else None)


def _differs(found: Footprint, measured: int, counted: int) -> bool:
    """A vision tower may or may not have been loaded."""
    beside = PLAIN_BYTES * found.by_kind.get("vision", 0)
    return min(abs(measured - counted), abs(measured - counted + beside)) > _LEAST_SAID * counted


def _contexts(found: Footprint) -> tuple[int, ...]:
    """The usual lengths that the model allows, or the longest it does."""
    most = found.max_positions
    return tuple(tokens for tokens in CONTEXTS if most is None or tokens <= most) or (most or CONTEXTS[0],)


def _cache_line(found: Footprint, tokens: int, dtypes: tuple[str, ...]) -> CacheLine:
    return CacheLine(f"{tokens:,}", tuple(gib_and_gb(found.cache.num_bytes(tokens, dtype)) for dtype in dtypes))


def _gpu_line(name: str, found: Footprint, weights: int, dtype: str, contexts: tuple[int, ...]) -> GpuLine:
    room = Room(GPUS[name], SHARE)
    sizes = [found.cache.num_bytes(tokens, dtype) for tokens in contexts]
    gpus = fit(weights, sizes[-1], room).gpus
    requests = tuple(f"{fit(weights, size, room, gpus).requests:,}" for size in sizes)
    return GpuLine(GPUS[name].title, memory(GPUS[name].num_bytes), f"{gpus:,}", requests)
