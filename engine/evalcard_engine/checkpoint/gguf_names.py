"""A GGUF's tensors under the names that transformers gives them, and what llama.cpp's converter did to their values."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evalcard_engine.checkpoint.gguf_file import GGUFFile, GGUFTensor
from evalcard_engine.checkpoint.gguf_rope import ROPE_FREQS

_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
_GEMMA_NAMES = {
    "ffn_norm": "pre_feedforward_layernorm", "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}  # fmt: skip
_LAYER_TENSOR = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor of the file, and what its values need to be those of transformers' parameter."""

    place: GGUFTensor
    heads: int = 0
    """Rows are stored with the two halves of each of so many heads interleaved; 0 leaves them as they are."""
    shift: float = 0.0
    """Added to the values in float32."""


def renamed(file: GGUFFile, arch: str, config: Mapping[str, Any]) -> list[tuple[str, Stored]]:
    """(parameter, tensor) of all that is a weight; a tensor of no known name keeps its own, so that it is missed by
    none. ``config`` is that of the model, in transformers' words."""
    layer_names = _LAYER_NAMES | (_GEMMA_NAMES if arch == "gemma3" else {})
    # llama.cpp rotates neighbours where transformers rotates halves, so its converter reorders the rows of each head;
    # the other architectures rotate halves there too.
    interleaved = {
        "attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"],
    } if arch == "llama" else {}  # fmt: skip
    found = []
    for name, place in file.tensors.items():
        if name == ROPE_FREQS:  # part of the config by now
            continue
        layer = _LAYER_TENSOR.fullmatch(name)
        base, _, leaf = name.rpartition(".")
        kind = layer[2] if layer else base
        known = (layer_names if layer else _NAMES).get(kind)
        target = name if known is None else f"model.layers.{layer[1]}.{known}.{leaf}" if layer else f"{known}.{leaf}"
        # Gemma's norms multiply by 1 + weight; its converter stores the sum.
        shift = -1.0 if arch == "gemma3" and kind.endswith("norm") else 0.0
        found.append((target, Stored(place, interleaved.get(kind, 0), shift)))
    return found
