"""The model and how its weights move: Muon for the matrices, AdamW for embeddings and norms."""

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from demo.packing import END_ID, IGNORED, Batch

MAX_LEN = 512


def new_model(vocab_size: int, seed: int) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=-(-vocab_size // 64) * 64,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=5,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=MAX_LEN,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=END_ID,
        pad_token_id=END_ID,
        attn_implementation="sdpa",
    )
    return LlamaForCausalLM(config)


def loss_of(model: LlamaForCausalLM, body: nn.Module, batch: Batch) -> Tensor:
    """Mean cross-entropy of the answer tokens; `body` is model.model, compiled or not."""
    with torch.autocast("cpu", torch.bfloat16):
        hidden = body(
            input_ids=batch.ids, attention_mask=batch.visible, position_ids=batch.positions, use_cache=False
        ).last_hidden_state
        wanted = batch.labels != IGNORED
        logits = model.lm_head(hidden[wanted])
    return nn.functional.cross_entropy(logits.float(), batch.labels[wanted])


class Optimizers:
    """Both optimizers with one schedule: a share of their peak learning rates."""

    def __init__(self, model: LlamaForCausalLM, muon_rate: float = 0.02, adam_rate: float = 0.004) -> None:
        blocks = [weight for weight in model.model.layers.parameters() if weight.ndim == 2]
        others = [model.model.embed_tokens.weight, *(weight for weight in model.parameters() if weight.ndim == 1)]
        self.both = (
            torch.optim.Muon(blocks, lr=muon_rate, weight_decay=0.05, momentum=0.95),
            torch.optim.AdamW(others, lr=adam_rate, betas=(0.9, 0.97), weight_decay=0.0),
        )
        self.peaks = (muon_rate, adam_rate)

    def step(self, share: float) -> None:
        for optimizer, peak in zip(self.both, self.peaks, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = peak * share
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def state_dict(self) -> list[dict]:
        return [optimizer.state_dict() for optimizer in self.both]

    def load_state_dict(self, states: list[dict]) -> None:
        for optimizer, state in zip(self.both, states, strict=True):
            optimizer.load_state_dict(state)
