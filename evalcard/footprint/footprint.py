"""What a parsed config.json says of a model's size."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from evalcard.errors import UserError
from evalcard.footprint.cache import Cache, cache_of, expanded_cache_of
from evalcard.footprint.decoder import head, text_parts
from evalcard.footprint.families import FAMILIES
from evalcard.footprint.parts import KINDS, Kind, Part, collected
from evalcard.footprint.settings import Settings
from evalcard.footprint.vision import TOWERS, vision_parts
from evalcard.footprint.weights import weight_bytes
from evalcard_engine.quant.scheme import Scheme

SIZES = frozenset({
    "vocab_size", "intermediate_size", "intermediate_size_mlp", "moe_intermediate_size", "num_attention_heads",
    "num_key_value_heads", "head_dim", "num_experts", "num_local_experts", "n_routed_experts",
    "shared_expert_intermediate_size", "kv_lora_rank", "q_lora_rank",
})  # fmt: skip
"""Settings that decide how large a model is. Configs leave out what is transformers' default, so that one is taken."""
_TEXT_OF = {"gemma3": "gemma3_text", "llama4": "llama4_text"}
"""model_type of a model with a text model inside -> that of the text model."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Tensors and cache of a model; sizes follow."""

    model_type: str
    """Of the text model."""
    parts: tuple[Part, ...]
    tied_head: Part | None
    """The head where it shares the embedding's weight, so that it is not among the parts."""
    cache: Cache
    expanded_cache: Cache | None
    """Of MLA, in an engine that does not cache its latent vector."""
    num_layers: int
    num_heads: int
    num_kv_heads: int
    """Into so many parts a cache can be divided by heads; the latent vector of MLA is one."""
    max_positions: int | None
    """Tokens of the longest request that the config allows."""
    dtype: str | None
    """As the config names the stored dtype of the weights."""
    assumed: Mapping[str, int]
    """Sizes that the config does not say -> transformers' default for the family, which was counted with."""
    num_uncounted_layers: int
    """Layers that predict further tokens (num_nextn_predict_layers): in the files, but not run as part of the model."""

    @property
    def num_parameters(self) -> int:
        """All weights, one stored for two uses once."""
        return sum(part.num_weights for part in self.parts)

    @property
    def num_active(self) -> int:
        """Parameters of the text model without the experts that a token is not sent to; the embedding is counted
        whole, as model makers count it."""
        return sum(part.num_active for part in self.parts if part.kind != "vision")

    @property
    def has_experts(self) -> bool:
        return any(part.used is not None for part in self.parts)

    @property
    def by_kind(self) -> dict[Kind, int]:
        """Parameters of each kind there is."""
        sums = {kind: sum(part.num_weights for part in self.parts if part.kind == kind) for kind in KINDS}
        return {kind: num for kind, num in sums.items() if num}

    def weight_bytes(self, scheme: Scheme | None, kinds: Collection[Kind] = KINDS) -> int:
        """As footprint/weights.py counts them; None is 16 bits."""
        return weight_bytes(self.parts, scheme, self.tied_head, kinds)


def footprint_of(config: Mapping[str, Any]) -> Footprint:
    """The footprint of the model whose parsed config.json this is.

    Raises UserError for a family that is not known, and for a config that lacks or contradicts what its sizes need; it
    calls the config "the config", so who knows where that is from says so before.
    """
    outer = str(config.get("model_type") or "")
    model_type = _TEXT_OF.get(outer, outer)
    if model_type not in FAMILIES:
        known = ", ".join(sorted({*FAMILIES, *_TEXT_OF}))
        if not outer:
            raise UserError(
                f"the config names no model_type, so that its tensors are not counted here. Known are {known}. "
                "Give the config.json that lies beside a model's weights."
            )
        raise UserError(f"the config says model_type {outer!r}, which is not counted here. Known are {known}.")
    text = _text_config(config, outer)
    family, found = FAMILIES[model_type], Settings(model_type, text, FAMILIES[model_type].defaults)
    _check(found, has_heads=not family.is_mla)
    parts = [*text_parts(found, family)]
    if outer in TOWERS:
        parts += vision_parts(outer, config, found.hidden)
    tied_head = head(found) if found.flag("tie_word_embeddings") else None
    cache = cache_of(found, family)
    return Footprint(
        model_type=model_type,
        parts=collected(parts),
        tied_head=tied_head,
        cache=cache,
        assumed={name: value for name, value in found.assumed.items() if name in SIZES},
        expanded_cache=expanded_cache_of(found, family),
        num_layers=found.layers,
        num_heads=found.heads,
        num_kv_heads=1 if family.is_mla else found.kv_heads,
        max_positions=found.optional("max_position_embeddings"),
        dtype=_dtype(config) or _dtype(text),
        num_uncounted_layers=found.optional("num_nextn_predict_layers") or 0,
    )


def _text_config(config: Mapping[str, Any], outer: str) -> Mapping[str, Any]:
    """What concerns the text model. Whether head and embedding are one is said outside, where it is said at all."""
    if outer not in _TEXT_OF:
        return config
    inner = config.get("text_config")
    if not isinstance(inner, Mapping):
        raise UserError(f"the config of this {outer} model has no text_config, so its tensors cannot be counted.")
    outside = {"tie_word_embeddings": config["tie_word_embeddings"]} if "tie_word_embeddings" in config else {}
    return {**inner, **outside}


def _check(found: Settings, has_heads: bool) -> None:
    """Catch what would give absurd sizes. has_heads: whether keys and values are made for heads of one size."""
    if found.layers > 10_000:
        raise UserError(f"the config says num_hidden_layers = {found.layers}; no model has as many. Correct the file.")
    if has_heads and not found.head_size:
        raise UserError(
            f"the config says num_attention_heads = {found.heads}, more than hidden_size = {found.hidden}. Correct it."
        )
    if has_heads and found.heads % found.kv_heads:
        raise UserError(
            f"the config says num_key_value_heads = {found.kv_heads}, which must divide num_attention_heads = "
            f"{found.heads}. Correct the file."
        )


def _dtype(config: Mapping[str, Any]) -> str | None:
    named = config.get("dtype") or config.get("torch_dtype")
    return named.removeprefix("torch.") if isinstance(named, str) else None
