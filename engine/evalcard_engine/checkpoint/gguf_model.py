"""What a GGUF file is as a transformers model: above all its config, from the metadata.

Key names and their meaning: the GGUF specification and llama.cpp's loader and converter. What the file says and this
module does not understand is a fault: a setting that is passed over would change every number in silence.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evalcard_engine.checkpoint.gguf_file import GGUFFile
from evalcard_engine.checkpoint.gguf_names import Stored, renamed
from evalcard_engine.checkpoint.gguf_rope import plain_rope, rope_parameters
from evalcard_engine.errors import EngineError, UnsupportedModel

QUANT_METHOD = "gguf"


@dataclass(frozen=True, slots=True)
class GGUFModel:
    """A file in transformers' words."""

    config: Mapping[str, Any]
    """As config.json would hold it."""
    tensors: Mapping[str, Stored]
    """By parameter; tensors of no known name keep their own."""


_SIZES = {
    "context_length": "max_position_embeddings", "embedding_length": "hidden_size", "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size", "attention.head_count": "num_attention_heads",
}  # fmt: skip
"""Keys that every file has."""
_UNDERSTOOD = frozenset({
    *_SIZES, "attention.head_count_kv", "attention.layer_norm_rms_epsilon", "attention.key_length",
    "attention.value_length", "rope.dimension_count", "rope.freq_base", "rope.scaling.type", "rope.scaling.factor",
    "rope.scale_linear", "rope.scaling.original_context_length", "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow", "rope.scaling.finetuned", "vocab_size",
})  # fmt: skip
_NEUTRAL: Mapping[str, Any] = {
    "attention.causal": True, "expert_count": 0, "expert_used_count": 0, "use_parallel_residual": False,
    "rope.scaling.attn_factor": 1.0, "rope.scaling.yarn_ext_factor": 1.0, "rope.scaling.yarn_attn_factor": 1.0,
    "rope.scaling.yarn_log_multiplier": 0.0, "attn_logit_softcapping": 0.0, "attention.clamp_kqv": 0.0,
    "attention.max_alibi_bias": 0.0, "logit_scale": 1.0,
}  # fmt: skip
"""Settings of llama.cpp that are run only where they change nothing."""
_GEMMA_KEYS = frozenset({
    "attention.sliding_window", "attention.sliding_window_pattern", "rope.freq_base_swa", "final_logit_softcapping",
})  # fmt: skip
_GEMMA_PERIOD = 6
"""Every sixth layer of Gemma 3 sees everything; llama.cpp has it so where the file says nothing."""
_GEMMA_27B_LAYERS = 62
"""By its number of layers llama.cpp knows the one Gemma 3 whose queries are scaled by hidden size / heads."""


@dataclass(slots=True)
class _Reading:
    """The metadata of one architecture, and the faults met on the way."""

    file: GGUFFile
    arch: str
    faults: list[str] = field(default_factory=list)

    def get(self, key: str, default: Any = None) -> Any:
        return self.file.metadata.get(f"{self.arch}.{key}", default)

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number from 1; where it is none, a fault and 1, so that reading goes on."""
        found = self.get(key, default)
        if isinstance(found, int) and not isinstance(found, bool) and found > 0:
            return found
        says = "is missing" if found is None else f"is {str(found)[:60]!r}"
        self.faults.append(f"{self.arch}.{key} {says}; it must be a whole number from 1")
        return 1

    def number(self, key: str, default: float | None = None) -> float:
        """A positive number, likewise."""
        found = self.get(key, default)
        if isinstance(found, int | float) and not isinstance(found, bool) and 0 < found < float("inf"):
            return found
        says = "is missing" if found is None else f"is {str(found)[:60]!r}"
        self.faults.append(f"{self.arch}.{key} {says}; it must be a number above 0")
        return 1.0


def describe(file: GGUFFile, model: str) -> GGUFModel:
    """The file in transformers' words.

    Raises UnsupportedModel for other architectures, parts of a split file and files that hold no language model,
    EngineError listing every setting that is missing or cannot be honoured.
    """
    arch = _architecture(file, model)
    make, more = _ARCHITECTURES[arch]
    reading = _Reading(file, arch)
    config = _common(reading) | {"quantization_config": {"quant_method": QUANT_METHOD}}
    config |= make(reading, config)
    _check_settings(reading, more)
    if reading.faults:
        listed = "; ".join(dict.fromkeys(reading.faults))
        raise EngineError(f"{model}: its GGUF metadata cannot be honoured: {listed}.")
    tensors = renamed(file, arch, config)
    twice = sorted(name for name, count in Counter(name for name, _ in tensors).items() if count > 1)
    if twice:
        raise EngineError(f"{model}: its GGUF holds two tensors for {', '.join(twice)}.")
    return GGUFModel(config, dict(tensors))


def end_ids(metadata: Mapping[str, Any]) -> tuple[int, ...]:
    """Ids that end an answer, as llama.cpp has it: end of text, of turn and of message; a turn's end that the metadata
    do not name is known by the token's text."""
    prefix = "tokenizer.ggml."
    found = [metadata.get(f"{prefix}{kind}_token_id") for kind in ("eos", "eot", "eom")]
    if found[1] is None:
        tokens = metadata.get(f"{prefix}tokens")
        found += [tokens.index(text) for text in TURN_ENDS if text in tokens] if isinstance(tokens, list) else []
    return tuple(sorted({one for one in found if isinstance(one, int)}))


TURN_ENDS = ("<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>")


def _architecture(file: GGUFFile, model: str) -> str:
    arch, kind = file.metadata.get("general.architecture"), file.metadata.get("general.type", "model")
    if kind != "model":
        raise UnsupportedModel(f"{model} is a GGUF file of the type {kind!r}; give the one that holds the model.")
    count, number = file.metadata.get("split.count", 1), file.metadata.get("split.no", 0)
    if count != 1:
        raise UnsupportedModel(
            f"{model} is part {number} (from 0) of the {count} parts of a split GGUF; "
            "join them first (llama-gguf-split --merge FIRST.gguf WHOLE.gguf)."
        )
    if not isinstance(arch, str) or arch not in _ARCHITECTURES:
        known = ", ".join(sorted(_ARCHITECTURES))
        raise UnsupportedModel(f"{model} is a GGUF of the architecture {arch!r}; this engine runs {known} from GGUF.")
    return arch


def _common(reading: _Reading) -> dict[str, Any]:
    """What all architectures share."""
    config: dict[str, Any] = {name: reading.whole(key) for key, name in _SIZES.items()}
    heads = config["num_attention_heads"]
    head_dim = reading.whole("attention.key_length", config["hidden_size"] // heads or None)
    for key in ("attention.value_length", "rope.dimension_count"):
        if reading.whole(key, head_dim) != head_dim:
            reading.faults.append(f"{reading.arch}.{key} is {reading.get(key)}, heads are {head_dim} wide")
    if head_dim % 2:
        reading.faults.append(f"heads are {head_dim} wide, which has no halves to rotate")
    tensors, tokens = reading.file.tensors, reading.file.metadata.get("tokenizer.ggml.tokens")
    if "token_embd.weight" not in tensors:
        reading.faults.append("the tensor token_embd.weight is missing")
    rows = tensors["token_embd.weight"].shape[0] if "token_embd.weight" in tensors else 1
    return config | {
        "num_key_value_heads": reading.whole("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "rms_norm_eps": reading.number("attention.layer_norm_rms_epsilon"),
        "vocab_size": len(tokens) if isinstance(tokens, list) else reading.whole("vocab_size", rows),
        "tie_word_embeddings": "output.weight" not in tensors,
        "bos_token_id": reading.file.metadata.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": reading.file.metadata.get("tokenizer.ggml.eos_token_id"),
    }


def _llama(reading: _Reading, config: Mapping[str, Any]) -> dict[str, Any]:
    """Llama and Mistral; llama.cpp knows no difference between them and runs neither with a window."""
    return {
        "model_type": "llama",
        "rope_parameters": rope_parameters(reading, config["head_dim"]),
        "attention_bias": "blk.0.attn_q.bias" in reading.file.tensors,
        "mlp_bias": "blk.0.ffn_gate.bias" in reading.file.tensors,
    }


def _qwen2(reading: _Reading, config: Mapping[str, Any]) -> dict[str, Any]:
    if config["head_dim"] * config["num_attention_heads"] != config["hidden_size"]:
        reading.faults.append(f"qwen2: {config['num_attention_heads']} heads of {config['head_dim']} are not as wide "
                              f"as the model, {config['hidden_size']}")  # fmt: skip
    return {"model_type": "qwen2", "rope_parameters": rope_parameters(reading, config["head_dim"])}


def _qwen3(reading: _Reading, config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "model_type": "qwen3",
        "rope_parameters": rope_parameters(reading, config["head_dim"]),
        "attention_bias": "blk.0.attn_q.bias" in reading.file.tensors,
    }


def _gemma3(reading: _Reading, config: Mapping[str, Any]) -> dict[str, Any]:
    layers, head_dim = config["num_hidden_layers"], config["head_dim"]
    has_cap = reading.get("final_logit_softcapping") not in (None, 0.0)
    is_27b = layers == _GEMMA_27B_LAYERS
    period = reading.get("attention.sliding_window_pattern", _GEMMA_PERIOD)
    kinds = ["full_attention" if (number + 1) % _GEMMA_PERIOD == 0 else "sliding_attention" for number in range(layers)]
    if period not in (_GEMMA_PERIOD, [kind == "sliding_attention" for kind in kinds]):
        reading.faults.append(f"gemma3.attention.sliding_window_pattern is {period}, not {_GEMMA_PERIOD}")
    return {
        "model_type": "gemma3_text",
        "layer_types": kinds,
        "sliding_window": reading.whole("attention.sliding_window"),
        "query_pre_attn_scalar": config["hidden_size"] // config["num_attention_heads"] if is_27b else head_dim,
        "final_logit_softcapping": reading.number("final_logit_softcapping") if has_cap else None,
        "rope_parameters": {
            "full_attention": rope_parameters(reading, head_dim),
            "sliding_attention": plain_rope(reading.number("rope.freq_base_swa", 10000.0)),
        },
    }


_Maker = Callable[[_Reading, Mapping[str, Any]], dict[str, Any]]
_ARCHITECTURES: Mapping[str, tuple[_Maker, frozenset[str]]] = {
    "llama": (_llama, frozenset()),
    "qwen2": (_qwen2, frozenset()),
    "qwen3": (_qwen3, frozenset()),
    "gemma3": (_gemma3, _GEMMA_KEYS),
}
"""Architecture -> (its own part of the config, settings that it alone has)."""


def _check_settings(reading: _Reading, more: frozenset[str]) -> None:
    for key, value in reading.file.metadata.items():
        setting = key.removeprefix(f"{reading.arch}.")
        if setting == key or setting in _UNDERSTOOD | more:
            continue
        if setting not in _NEUTRAL:
            reading.faults.append(f"{key} is {str(value)[:60]!r}, a setting that this engine does not know")
        elif value != _NEUTRAL[setting]:
            reading.faults.append(f"{key} is {value!r}; only {_NEUTRAL[setting]!r} is run")
