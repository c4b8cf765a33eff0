"""The tensors of a text model, from its config and its family's rule."""

from collections.abc import Iterator

from evalcard.errors import UserError
from evalcard.footprint.families import Bias, Experts, Family
from evalcard.footprint.parts import Kind, Part, linear
from evalcard.footprint.settings import Settings

NUM_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
"""What configs call the number of experts in a layer."""


def text_parts(config: Settings, family: Family) -> Iterator[Part]:
    """Every tensor once for each time it is there; a head of its own is among them, one that shares the embedding's
    weight is not."""
    yield Part("embedding", config.count("vocab_size"), config.hidden)
    for at in range(config.layers):
        yield from _mla(config, family) if family.is_mla else _attention(config, family)
        yield from _mlp(config, family, at)
        yield Part("norms", config.hidden, count=family.norms)
    yield Part("norms", config.hidden)
    if not config.flag("tie_word_embeddings"):
        yield head(config)


def head(config: Settings) -> Part:
    """The output head, whether it is stored or shares the embedding's weight."""
    return Part("head", config.count("vocab_size"), config.hidden)


def _has(config: Settings, bias: Bias) -> bool:
    return config.flag(bias) if isinstance(bias, str) else bias


def _attention(config: Settings, family: Family) -> Iterator[Part]:
    queries, keys = config.heads * config.head_size, config.kv_heads * config.head_size
    has_bias = _has(config, family.qkv_bias)
    yield from linear("attention", queries, config.hidden, has_bias)
    yield from linear("attention", keys, config.hidden, has_bias, count=2)
    yield from linear("attention", config.hidden, queries, _has(config, family.o_bias))
    if family.has_sinks:
        yield Part("attention", config.heads)
    if family.qk_norm == "head":
        yield Part("norms", config.head_size, count=2)
    elif family.qk_norm == "width":
        yield from (Part("norms", queries), Part("norms", keys))


def _mla(config: Settings, family: Family) -> Iterator[Part]:
    """Queries through a narrow vector where q_lora_rank says one; keys and values through kv_lora_rank, beside one key
    of qk_rope_head_dim that all heads share and that carries the positions."""
    rope, plain, values = (config.count(name) for name in ("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"))
    latent, queries = config.count("kv_lora_rank"), config.heads * (rope + plain)
    has_bias, narrow = _has(config, family.qkv_bias), config.optional("q_lora_rank")
    if narrow is None:
        yield from linear("attention", queries, config.hidden)
    else:
        yield from linear("attention", narrow, config.hidden, has_bias)
        yield Part("norms", narrow)
        yield from linear("attention", queries, narrow)
    yield from linear("attention", latent + rope, config.hidden, has_bias)
    yield Part("norms", latent)
    yield from linear("attention", config.heads * (plain + values), latent)
    yield from linear("attention", config.hidden, config.heads * values, _has(config, family.o_bias))


def _mlp(config: Settings, family: Family, at: int) -> Iterator[Part]:
    experts = family.experts
    if experts is None:
        yield from _gated("mlp", config, config.count("intermediate_size"), _has(config, family.mlp_bias))
    elif config.count(*NUM_EXPERTS, least=0 if experts.may_be_none else 1) and experts.is_sparse(config, at):
        yield from _sparse(config, experts)
    else:
        yield from _gated("mlp", config, config.count(experts.dense_width))


def _gated(
    kind: Kind, config: Settings, width: int, has_bias: bool = False, count: int = 1, used: int | None = None
) -> Iterator[Part]:
    """Gate, up and down; whether a family joins gate and up in one matrix changes no count."""
    pairs = None if used is None else 2 * used
    yield from linear(kind, width, config.hidden, has_bias, 2 * count, pairs)
    yield from linear(kind, config.hidden, width, has_bias, count, used)


def _sparse(config: Settings, experts: Experts) -> Iterator[Part]:
    num = config.count(*NUM_EXPERTS)
    used = config.count("num_experts_per_tok")
    if used > num:
        raise UserError(
            f"the config says num_experts_per_tok = {used}, which must be at most its number of experts, {num}. "
            "Correct the file."
        )
    yield Part("router", num, config.hidden)
    if experts.has_biases or experts.has_correction:
        yield Part("router", num)
    yield from _gated("experts", config, config.count(experts.width), experts.has_biases, num, used)
    width = experts.shared_width(config)
    if width:
        yield from _gated("shared experts", config, width)
    if width and experts.has_shared_gate:
        yield Part("router", 1, config.hidden)
