"""Small random models of every family, and steps over parts of sequences that lie on scattered pages."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from evalcard_engine.batch import Batch, Span
from evalcard_engine.models import PreparedModel, open_model
from evalcard_engine.quant.scheme import parse_scheme

VOCAB = 97
COMMON: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 4, "num_attention_heads": 6,
    "num_key_value_heads": 2, "max_position_embeddings": 1024, "initializer_range": 0.2, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
WINDOWED = ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]
# With larger weights float32 itself, against float64, is off by as much as the tests allow.
DENSE: dict[str, dict[str, Any]] = {
    "llama": {"tie_word_embeddings": True},
    "mistral": {"sliding_window": 70, "head_dim": 16},
    "qwen2": {"use_sliding_window": True, "sliding_window": 9, "layer_types": WINDOWED},
    "qwen3": {"head_dim": 12},
    "gemma2": {
        "head_dim": 20, "sliding_window": 31, "query_pre_attn_scalar": 30, "attn_logit_softcapping": 5.0,
        "final_logit_softcapping": 7.0, "tie_word_embeddings": True,
    },
    "gemma3_text": {
        "head_dim": 20, "sliding_window": 300, "layer_types": WINDOWED, "query_pre_attn_scalar": 30,
        "initializer_range": 0.15,
    },
    "phi3": {"sliding_window": 40, "tie_word_embeddings": False},
    "granite": {
        "attention_multiplier": 0.3, "embedding_multiplier": 1.7, "residual_multiplier": 0.6, "logits_scaling": 2.5,
    },
    "olmo2": {},
    "olmo3": {"sliding_window": 33, "layer_types": WINDOWED},
    "smollm3": {"no_rope_layers": [1, 1, 0, 1], "use_sliding_window": False},
    "cohere2": {"sliding_window": 21, "layer_types": WINDOWED, "logit_scale": 0.4, "tie_word_embeddings": True},
    "glm": {"head_dim": 16, "attention_bias": True},
    "glm4": {"head_dim": 16, "attention_bias": True},
    "exaone4": {"sliding_window": 25, "sliding_window_pattern": 4, "head_dim": 12},
    "exaone4-full": {"sliding_window": None, "layer_types": ["full_attention"] * 4, "head_dim": 12},
    "llama-3": {
        "attention_bias": True,
        "rope_parameters": {
            "rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    },
    "olmo3-yarn": {
        "sliding_window": 33, "layer_types": WINDOWED,
        "rope_parameters": {
            "full_attention": {
                "rope_type": "yarn", "rope_theta": 1e4, "factor": 8.0, "original_max_position_embeddings": 128,
            },
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    },
    "phi3-partial": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
}  # fmt: skip
MIXTURES: dict[str, dict[str, Any]] = {
    "mixtral": {"num_local_experts": 5, "num_experts_per_tok": 2, "sliding_window": 60},
    "qwen2_moe": {
        "num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 40,
        "use_sliding_window": True, "sliding_window": 19, "layer_types": WINDOWED, "mlp_only_layers": [1],
    },
    "qwen3_moe": {
        "num_experts": 7, "num_experts_per_tok": 3, "moe_intermediate_size": 24, "head_dim": 12, "norm_topk_prob": True,
    },
    "granitemoe": {
        "num_local_experts": 5, "num_experts_per_tok": 2, "attention_multiplier": 0.3, "embedding_multiplier": 1.7,
        "residual_multiplier": 0.6, "logits_scaling": 2.5,
    },
    "gpt_oss": {
        "num_local_experts": 5, "num_experts_per_tok": 2, "sliding_window": 37, "head_dim": 12,
        "intermediate_size": 32, "hidden_size": 64, "num_attention_heads": 4, "initializer_range": 0.12,
    },
    "llama4_text": {
        "num_local_experts": 4, "num_experts_per_tok": 1, "intermediate_size_mlp": 72, "head_dim": 12,
        "interleave_moe_layer_step": 2, "no_rope_layer_interval": 2, "attention_chunk_size": 45, "floor_scale": 50,
        "attn_scale": 0.3,
    },
    "deepseek_v3": {
        "num_key_value_heads": 6, "q_lora_rank": 20, "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8,
        "v_head_dim": 16, "n_routed_experts": 8, "n_group": 4, "topk_group": 2, "num_experts_per_tok": 3,
        "moe_intermediate_size": 24, "first_k_dense_replace": 1, "routed_scaling_factor": 1.5,
    },
}  # fmt: skip
LONGROPE = {
    "rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 128,
    "short_factor": [1.0, 1.1, 1.3, 1.6], "long_factor": [1.5, 2.0, 5.0, 9.0],
}  # fmt: skip
MIXTURES["deepseek_v3-yarn"] = MIXTURES["deepseek_v3"] | {
    "q_lora_rank": None, "rope_interleave": False, "norm_topk_prob": False,
    "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 1e4, "factor": 8.0, "original_max_position_embeddings": 128, "mscale": 1.0,
        "mscale_all_dim": 1.0, "beta_fast": 32, "beta_slow": 1,
    },
}  # fmt: skip
MIXTURES["llama4_text-plain"] = MIXTURES["llama4_text"] | {
    "num_experts_per_tok": 2, "use_qk_norm": False, "attn_temperature_tuning": False, "attention_chunk_size": 300,
}  # fmt: skip
CONFIGS = DENSE | MIXTURES
OTHERS: dict[str, dict[str, Any]] = {
    "phi3-longrope": {"rope_parameters": LONGROPE, "original_max_position_embeddings": 128},
}
"""Not of the common tests: what they are equal to depends on more than the tokens."""


def build(name: str, **changes: Any) -> torch.nn.Module:
    """transformers' own model of a family, float32, with weights that matter everywhere."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(sum(name.encode()))
    config = AutoConfig.for_model(name.partition("-")[0], **COMMON | (CONFIGS | OTHERS)[name] | changes)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    for parameter_name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            # Gemma's norms add one to their weight.
            is_added = "bias" in parameter_name or "sinks" in parameter_name or name.startswith("gemma")
            torch.nn.init.normal_(parameter, mean=0.0 if is_added else 1.0, std=0.2)
    for buffer_name, buffer in model.named_buffers():
        if buffer_name.endswith("e_score_correction_bias"):
            buffer.normal_(std=0.1)
    return model


class Made:
    """A checkpoint folder and transformers' model of it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.eager = build(name)
        self.eager.save_pretrained(folder)

    @torch.no_grad()
    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        """float32 [len(ids), vocab] of one sequence by itself, by transformers' eager attention."""
        return self.eager(ids[None], use_cache=False).logits[0]

    def open(self, scheme: str | None = None, dtype: str = "float32") -> PreparedModel:
        return self.open_at(self.folder, scheme, dtype)

    @staticmethod
    def open_at(folder: Path, scheme: str | None = None, dtype: str = "float32") -> PreparedModel:
        parsed = parse_scheme(scheme) if scheme else None
        return open_model(str(folder), dtype=dtype, device="cpu", scheme=parsed)


class Packed:
    """Sequences on scattered pages of one pool."""

    def __init__(self, model: PreparedModel, tokens: list[torch.Tensor], page_size: int) -> None:
        self.model, self.tokens, self.page_size = model, tokens, page_size
        counts = [-(-len(ids) // page_size) for ids in tokens]
        order = torch.randperm(sum(counts), generator=torch.Generator().manual_seed(1)).tolist()
        self.pages = [tuple(order.pop() for _ in range(count)) for count in counts]
        self.pool = model.make_pool(sum(counts), page_size)

    def share(self, reader: int, owner: int, length: int) -> None:
        """The first tokens of ``reader`` are read from the pages of ``owner``: whole pages only."""
        count = length // self.page_size
        self.pages[reader] = (*self.pages[owner][:count], *self.pages[reader][count:])

    def step(self, *parts: tuple[int, int, int], asked: list[list[int]] | None = None) -> list[torch.Tensor]:
        """Run tokens [start, stop) of the sequences named in parts (number, start, stop): the logits of all, or of the
        positions ``asked`` of each part."""
        spans, ids, positions, slots = [], [], [], []
        for number, start, stop in parts:
            place, pages = torch.arange(start, stop), self.pages[number]
            used = pages[: -(-stop // self.page_size)]
            spans.append(Span(sum(map(len, ids)), stop - start, start, used))
            ids.append(self.tokens[number][start:stop])
            positions.append(place)
            slots.append(torch.tensor(pages)[place // self.page_size] * self.page_size + place % self.page_size)
        wanted = [list(range(start, stop)) for _, start, stop in parts] if asked is None else asked
        rows = [
            span.query_start + at - span.context_len for span, some in zip(spans, wanted, strict=True) for at in some
        ]
        batch = Batch(
            torch.cat(ids), torch.cat(positions), torch.cat(slots), torch.tensor(rows, dtype=torch.int64),
            tuple(spans), self.page_size,
        )  # fmt: skip
        return list(self.model.forward(batch, self.pool).split(list(map(len, wanted))))


def sequences(*lengths: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    return [torch.randint(3, VOCAB, (length,), generator=generator) for length in lengths]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Made]:
    """A family's checkpoint by name, made once."""
    known: dict[str, Made] = {}

    def make(name: str) -> Made:
        if name not in known:
            known[name] = Made(tmp_path_factory.mktemp(name), name)
        return known[name]

    return make


@pytest.fixture(params=CONFIGS)
def family(request: pytest.FixtureRequest, made: Callable[[str], Made]) -> Made:
    return made(request.param)


@pytest.fixture
def packed() -> type[Packed]:
    return Packed


@pytest.fixture
def some_tokens() -> Callable[..., list[torch.Tensor]]:
    return sequences
