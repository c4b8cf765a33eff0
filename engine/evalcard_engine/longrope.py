"""longrope: other frequencies for sequences longer than a model was first trained on (arXiv 2402.13753).

transformers chooses by the longest position in a batch, so a sequence's numbers depend on its company, and on how far
an answer has come. Here each sequence has its own choice, made once by the most tokens that prompt and answer can come
to together; sequences of the two kinds share no prefix (cache/prefix.py).
"""

from dataclasses import dataclass
from types import MethodType
from typing import Any

import torch
from torch import nn

from evalcard_engine.attention.hook import STEP_ARGUMENT, Rotary
from evalcard_engine.batch import Batch
from evalcard_engine.building import decoder_layers
from evalcard_engine.families import is_longrope


@dataclass(frozen=True, slots=True)
class LongRope:
    """A model's two sets of frequencies."""

    short_positions: int
    """Tokens up to which a sequence is encoded by the short one."""
    frequencies: torch.Tensor
    """float32 [2, size / 2]: short, then long."""
    scaling: float
    """Of cosines and sines alike."""

    def tables(self, batch: Batch, dtype: torch.dtype) -> Rotary:
        """Of a step's tokens, each by the kind of its sequence: [1, num_tokens, size] in ``dtype``."""
        kinds = [kind for span in batch.spans for kind in [int(span.is_long)] * span.query_len]
        chosen = self.frequencies[torch.tensor(kinds, device=self.frequencies.device)]
        angles = batch.positions[:, None].float() * chosen
        both = torch.cat((angles, angles), dim=-1)[None]
        return (both.cos() * self.scaling).to(dtype), (both.sin() * self.scaling).to(dtype)


def take_over(module: nn.Module, config: Any, device: str) -> LongRope | None:
    """Let the layers of a model with longrope take their tables from the step; None where it has another encoding."""
    if not is_longrope(config):
        return None
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    short_positions = config.rope_parameters["original_max_position_embeddings"]
    make = ROPE_INIT_FUNCTIONS["longrope"]
    short, scaling = make(config, torch.device(device), seq_len=short_positions)
    long, _ = make(config, torch.device(device), seq_len=short_positions + 1)
    rotary = module.get_submodule("model.rotary_emb")
    # Of the object, not of its class, which another engine in the process may use otherwise.
    vars(rotary)["forward"] = MethodType(_nothing, rotary)
    for layer in decoder_layers(module):
        layer.register_forward_pre_hook(_hand_over, with_kwargs=True)
    return LongRope(short_positions, torch.stack((short, long)), scaling)


def _nothing(self: nn.Module, x: torch.Tensor, position_ids: torch.Tensor) -> None:
    """The model's own tables, which no layer is to see."""


def _hand_over(
    layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return args, {**kwargs, "position_embeddings": kwargs[STEP_ARGUMENT].rotary}
