"""How many tokens each layer's cache holds: all of them, or at most a window or a chunk."""

from collections.abc import Callable, Sequence

from evalcard.errors import UserError
from evalcard.footprint.settings import Settings

Windows = Sequence[int | None]
"""By layer, the tokens it holds at most; None is all."""
Rule = Callable[[Settings], Windows]
_SIZES = {
    "full_attention": None,
    "sliding_attention": "sliding_window",
    "chunked_attention": "attention_chunk_size",
}
"""Of an entry of layer_types, the name of its size."""
_PATTERN = "sliding_window_pattern"
"""Saved by transformers with an underscore before it."""


def windows_of(config: Settings, rule: Rule) -> Windows:
    """As the config's own layer_types say, else by the family's rule."""
    kinds = config.get("layer_types")
    if not isinstance(kinds, list):
        found = rule(config)
    else:
        unknown = sorted({str(kind) for kind in kinds if not isinstance(kind, str) or kind not in _SIZES})
        if unknown:
            raise UserError(
                f"the config has layers of type {', '.join(unknown)}, whose cache is not counted here; known are "
                f"{', '.join(_SIZES)}."
            )
        found = [_size(config, _SIZES[kind]) for kind in kinds]
    if len(found) != config.layers:
        raise UserError(
            f"the config says num_hidden_layers = {config.layers}, but lists {len(found)} layers. Correct one of them."
        )
    return found


def _size(config: Settings, name: str | None) -> int | None:
    """0 is none, as some configs write it."""
    return (config.optional(name) or None) if name else None


def _window(config: Settings) -> int | None:
    return _size(config, "sliding_window")


def none(config: Settings) -> Windows:
    return [None] * config.layers


def everywhere(config: Settings) -> Windows:
    return [_window(config)] * config.layers


def if_used(config: Settings) -> Windows:
    """In all layers, once use_sliding_window says so."""
    return everywhere(config) if config.flag("use_sliding_window") else none(config)


def but_every(period: int) -> Rule:
    """In all layers but every ``period``-th."""

    def rule(config: Settings) -> Windows:
        window = _window(config)
        return [window if (at + 1) % period else None for at in range(config.layers)]

    return rule


def by_pattern(period: int) -> Rule:
    """Likewise, unless sliding_window_pattern says otherwise: as a period, or spelled with L for local and G for
    global."""

    def rule(config: Settings) -> Windows:
        pattern = config.get(_PATTERN, f"_{_PATTERN}")
        if isinstance(pattern, str) and pattern:
            window = _window(config)
            return [window if pattern[at % len(pattern)] == "L" else None for at in range(config.layers)]
        return but_every(config.optional(_PATTERN, f"_{_PATTERN}", least=1) or period)(config)

    return rule


def after_layers(config: Settings) -> Windows:
    """From max_window_layers on."""
    first = config.optional("max_window_layers") or 0
    used = _window(config) if config.flag("use_sliding_window") else None
    return [used if at >= first else None for at in range(config.layers)]


def alternating_before(config: Settings) -> Windows:
    """In every other layer before max_window_layers."""
    last = config.optional("max_window_layers") or 0
    used = _window(config) if config.flag("use_sliding_window") else None
    return [used if at % 2 == 0 and at < last else None for at in range(config.layers)]


def without_positions(config: Settings) -> Windows:
    """In layers that have no rotary positions."""
    used = _window(config) if config.flag("use_sliding_window") else None
    return [None if has_positions else used for has_positions in _has_positions(config)]


def chunks(config: Settings) -> Windows:
    """Chunks in layers that have rotary positions, everything in the others."""
    size = _size(config, "attention_chunk_size")
    return [size if has_positions else None for has_positions in _has_positions(config)]


def _has_positions(config: Settings) -> Sequence[int]:
    """The config's no_rope_layers (1 where there *are* positions), else all but every no_rope_layer_interval-th."""
    listed = config.numbers("no_rope_layers")
    every = config.count("no_rope_layer_interval")
    return listed or [int((at + 1) % every != 0) for at in range(config.layers)]
