"""Bytes of a KV cache: what each layer stores of a token, and how many tokens it holds at most."""

from collections import Counter
from dataclasses import dataclass

from evalcard.errors import UserError
from evalcard.footprint.families import Family
from evalcard.footprint.settings import Settings
from evalcard.footprint.windows import windows_of

ELEMENTS = {"bf16": (2, 0), "fp16": (2, 0), "fp8": (1, 0), "int8": (1, 4)}
"""KV dtype -> (bytes of a value, bytes of the scale that each token and head has beside its key and its value)."""
_ALIASES = {"bfloat16": "bf16", "float16": "fp16", "fp8_e4m3": "fp8", "16": "bf16", "8": "fp8", "auto": "bf16"}


def kv_dtype(text: str) -> str:
    """The dtype's name in ELEMENTS; raises UserError naming the known ones."""
    name = _ALIASES.get(text.strip().lower(), text.strip().lower())
    if name not in ELEMENTS:
        raise UserError(f"unknown KV cache dtype {text!r}; known are {', '.join(ELEMENTS)}.")
    return name


@dataclass(frozen=True, slots=True)
class Layers:
    """Layers that store alike."""

    count: int
    values: int
    """Numbers stored for one token in one layer: 2 x KV heads x head size, or the latent vector of MLA."""
    vectors: int
    """Keys and values of heads among them, each of which has a scale where the dtype needs one."""
    window: int | None
    """Tokens held at most; None is all."""


@dataclass(frozen=True, slots=True)
class Cache:
    """The KV cache of one request."""

    layers: tuple[Layers, ...]

    def num_bytes(self, tokens: int, dtype: str = "bf16") -> int:
        """Of a request of so many tokens. A layer with a window is counted at its window, without the tokens of a step
        that an engine may hold beside it."""
        width, scale = ELEMENTS[dtype]
        return sum(
            one.count * (one.values * width + one.vectors * scale) * min(tokens, one.window or tokens)
            for one in self.layers
        )

    def token_bytes(self, dtype: str = "bf16") -> int:
        """Of one token while no window is full: all layers store it."""
        return self.num_bytes(1, dtype)

    def later_bytes(self, dtype: str = "bf16") -> int:
        """What one more token adds once all windows are full."""
        return Cache(tuple(one for one in self.layers if one.window is None)).num_bytes(1, dtype)

    @property
    def windows(self) -> tuple[tuple[int, int], ...]:
        """(layers, tokens that they hold at most)."""
        found: Counter[int] = Counter()
        for one in self.layers:
            if one.window is not None:
                found[one.window] += one.count
        return tuple((count, window) for window, count in found.items())


def cache_of(config: Settings, family: Family) -> Cache:
    """What an engine that knows the model stores. Layers that take keys and values from earlier ones
    (num_kv_shared_layers, the last ones) store none."""
    if family.is_mla:
        values, vectors = config.count("kv_lora_rank") + config.count("qk_rope_head_dim"), 1
    else:
        values, vectors = 2 * config.kv_heads * config.head_size, 2 * config.kv_heads
    return _cache(config, family, values, vectors)


def expanded_cache_of(config: Settings, family: Family) -> Cache | None:
    """What an engine stores that expands MLA's latent vector to every head's key and value; None without MLA."""
    if not family.is_mla:
        return None
    sizes = (config.count(name) for name in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    return _cache(config, family, config.heads * sum(sizes), 2 * config.heads)


def _cache(config: Settings, family: Family, values: int, vectors: int) -> Cache:
    shared = config.optional("num_kv_shared_layers") or 0
    if shared >= config.layers:
        raise UserError(
            f"the config says num_kv_shared_layers = {shared}, which must be less than its {config.layers} layers."
        )
    counts = Counter(windows_of(config, family.window_rule)[: config.layers - shared])
    return Cache(tuple(Layers(count, values, vectors, window) for window, count in counts.items()))
