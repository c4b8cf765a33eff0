"""A small llama whose linears a test stores in some format, and what the engine makes of the folder."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from evalcard_engine.batch import Batch, Span
from evalcard_engine.models import PreparedModel, open_model

SETTINGS = {
    "vocab_size": 97, "hidden_size": 96, "intermediate_size": 208, "num_hidden_layers": 2, "num_attention_heads": 6,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "initializer_range": 0.15, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False,
}  # fmt: skip
TOKENS = torch.tensor([1, 17, 3, 96, 40, 40, 8, 55, 23, 71, 2])


@dataclass
class Stored:
    """A llama's tensors, some of which a test replaces by what its format stores, and the folder they are saved to."""

    folder: Path
    model: Any
    tensors: dict[str, torch.Tensor]
    config: dict[str, Any] = field(default_factory=dict)

    @property
    def linears(self) -> dict[str, torch.Tensor]:
        """Module -> float32 weight of the decoder's linears."""
        kinds = self.model.model.named_modules()
        return {f"model.{name}": one.weight.detach() for name, one in kinds if isinstance(one, nn.Linear)}

    def replace(self, module: str, parts: Mapping[str, torch.Tensor]) -> None:
        """Other parts for a module's weight, by what follows the module's name."""
        del self.tensors[f"{module}.weight"]
        self.tensors |= {f"{module}.{part}": tensor for part, tensor in parts.items()}

    def save(self, quantization: Mapping[str, Any] | None, metadata: dict[str, str] | None = None) -> Path:
        config = {**self.model.config.to_dict(), **self.config}
        config |= {"quantization_config": dict(quantization)} if quantization else {}
        (self.folder / "config.json").write_text(json.dumps(config))
        kept = {name: tensor.contiguous() for name, tensor in self.tensors.items()}
        save_file(kept, self.folder / "model.safetensors", metadata)
        return self.folder

    def reference(
        self,
        weights: Mapping[str, torch.Tensor],
        rounded: Callable[[str, torch.Tensor], torch.Tensor] | None = None,
        ran: "Ran | None" = None,
    ) -> torch.Tensor:
        """transformers' own logits with these weights in the linears named: float32 [tokens, vocab].

        rounded(linear, rows) is what enters its product. The rows are those that the engine had, once transformers' own
        are known to be as good as equal: a last bit may decide which way a value is rounded.
        """
        for module, weight in weights.items():
            linear = self.model.get_submodule(module)
            linear.weight.data = weight.float()
            if rounded is not None:
                assert ran is not None
                linear.register_forward_pre_hook(_enter(module, ran, rounded))
        with torch.inference_mode():
            logits: torch.Tensor = self.model(TOKENS[None]).logits[0]
        return logits


def _enter(
    name: str, ran: "Ran", rounded: Callable[[str, torch.Tensor], torch.Tensor]
) -> Callable[[nn.Module, tuple[torch.Tensor]], tuple[torch.Tensor]]:
    def enter(module: nn.Module, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
        rows = ran.calls[name][0]
        torch.testing.assert_close(inputs[0][0], rows, atol=1e-4, rtol=1e-4)
        return (rounded(name, rows)[None],)

    return enter


@dataclass
class Ran:
    """What the engine did with a folder."""

    logits: torch.Tensor
    """float32 [tokens, vocab]"""
    calls: dict[str, tuple[torch.Tensor, torch.Tensor]]
    """Linear -> (rows that came in, rows that went out)."""


@pytest.fixture
def make_llama(tmp_path: Path) -> Callable[..., Stored]:
    """A llama of SETTINGS, some of which are changed."""

    def make(**changes: Any) -> Stored:
        from transformers import LlamaConfig, LlamaForCausalLM

        torch.manual_seed(11)
        model = LlamaForCausalLM(LlamaConfig(**{**SETTINGS, **changes}, attn_implementation="eager")).eval()
        return Stored(tmp_path, model, {name: tensor.clone() for name, tensor in model.state_dict().items()})

    return make


@pytest.fixture
def stored_llama(make_llama: Callable[..., Stored]) -> Stored:
    return make_llama()


@pytest.fixture
def run_folder() -> Callable[[Path], Ran]:
    """Open a folder in float32 on the CPU and run TOKENS through it in one step."""

    def run(folder: Path) -> Ran:
        opened = open_model(str(folder), dtype="float32", device="cpu", scheme=None)
        calls: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        for name, module in opened._module.named_modules():
            if name.endswith("_proj"):
                module.register_forward_hook(_recorder(name, calls))
        return Ran(_forward(opened), calls)

    return run


def _recorder(name: str, calls: dict[str, tuple[torch.Tensor, torch.Tensor]]) -> Callable[..., None]:
    def record(module: nn.Module, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
        calls[name] = inputs[0].flatten(0, -2).clone(), output.flatten(0, -2).clone()

    return record


def _forward(opened: PreparedModel) -> torch.Tensor:
    count = len(TOKENS)
    places = torch.arange(count)
    batch = Batch(TOKENS, places, places, places, (Span(0, count, 0, (0,)),), page_size=16)
    return opened.forward(batch, opened.make_pool(1, 16))
