"""Mixtures of experts: each expert has linears of its own, where transformers keeps all experts' weights in one tensor.

That is how most files have them, so every format reads them, every scheme applies to them, and their products are as
exact as those of any other linear: a token's result depends on its own row alone, in whatever company it is routed.
"""

from types import MethodType
from typing import Any, Literal

import torch
from torch import nn

from evalcard_engine.activations import sigmoid

Kind = Literal["gated", "clamped", "scaled"]
"""gated: down(act(gate(x)) * up(x)), weighted afterwards. clamped: gpt-oss's, with biases and bounds. scaled: gated, of
inputs that are weighted beforehand (Llama 4)."""


class GatedExpert(nn.Module):
    """down(act(gate(x)) * up(x)) of x [rows, hidden]."""

    def __init__(self, hidden: int, width: int, act_fn: nn.Module) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, width, bias=False)
        self.up_proj = nn.Linear(hidden, width, bias=False)
        self.down_proj = nn.Linear(width, hidden, bias=False)
        self.act_fn = act_fn

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class ClampedExpert(nn.Module):
    """down((up + 1) * gate * sigmoid(alpha gate)), gate at most ``limit`` and up within it; in one linear rows of gate
    and up take turns."""

    def __init__(self, hidden: int, width: int, alpha: float, limit: float) -> None:
        super().__init__()
        self.gate_up_proj = nn.Linear(hidden, 2 * width)
        self.down_proj = nn.Linear(width, hidden)
        self.alpha, self.limit = alpha, limit

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        both = self.gate_up_proj(x)
        gate = both[..., ::2].clamp(max=self.limit)
        up = both[..., 1::2].clamp(min=-self.limit, max=self.limit)
        return self.down_proj((up + 1) * (gate * sigmoid(gate * self.alpha)))


class Experts(nn.ModuleList):
    """All experts of a layer, called as transformers' own are."""

    def forward(
        self, hidden_states: torch.Tensor, top_k_index: torch.Tensor, top_k_weights: torch.Tensor
    ) -> torch.Tensor:
        """hidden_states [num_tokens, hidden], top_k_index int64 and top_k_weights [num_tokens, choices] -> the weighted
        sum of each token's experts, in the order of their numbers, [num_tokens, hidden]."""
        out, choices = torch.zeros_like(hidden_states), top_k_index.shape[1]
        chosen = top_k_index.flatten()
        counts = torch.bincount(chosen, minlength=len(self)).tolist()
        for expert, places in zip(self, chosen.argsort(stable=True).split(counts), strict=True):
            if len(places):
                tokens = places // choices
                found = expert(hidden_states[tokens]) * top_k_weights.flatten()[places, None]
                # A token has an expert once, so no place is written twice.
                out[tokens] += found.to(out.dtype)
        return out


def separate_experts(module: nn.Module, kind: Kind) -> None:
    """Give every expert of a model linears of its own, before weights are filled in; parameters are on meta."""
    for owner in list(module.modules()):
        if "experts" not in owner._modules:
            continue
        fused: Any = owner.experts
        with torch.device("meta"):
            owner.experts = Experts(_expert(fused, kind) for _ in range(fused.gate_up_proj.shape[0]))
        if kind == "scaled":
            # Of the object, not of its class, which another engine in the process may use otherwise.
            vars(owner)["forward"] = MethodType(_scaled_inputs, owner)


def _expert(fused: Any, kind: Kind) -> nn.Module:
    """One expert of transformers' module, whose tensors say the sizes and the dtype."""
    _, first, second = fused.gate_up_proj.shape
    if kind == "clamped":
        expert: nn.Module = ClampedExpert(first, second // 2, fused.alpha, fused.limit)
    else:
        both, hidden = (first, second) if kind == "gated" else (second, first)
        expert = GatedExpert(hidden, both // 2, fused.act_fn)
    return expert.to(fused.gate_up_proj.dtype)


def _scaled_inputs(self: Any, hidden_states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Llama 4's layer of experts: a shared one, and the chosen ones of inputs times their score. Those that are not
    chosen would get zeros, which give zeros, so they are left out."""
    rows = hidden_states.reshape(-1, self.hidden_dim)
    scores, logits = self.router(rows)
    index = logits.topk(self.top_k, dim=1).indices
    out = torch.zeros_like(rows)
    for number in index.unique().tolist():
        tokens = (index == number).any(dim=1).nonzero()[:, 0]
        out[tokens] += self.experts[number](rows[tokens] * scores[tokens, number, None])
    return self.shared_expert(rows) + out, logits
