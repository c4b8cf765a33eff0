"""What the price of exactness is measured against: the same model on torch's own modules, nearly the same numbers."""

from pathlib import Path

import pytest
import torch
from exactness_price import TILED, few_rows, loosen

from evalcard_engine.arithmetic import products
from evalcard_engine.config import EngineConfig
from evalcard_engine.engine import Engine
from evalcard_engine.models import PreparedModel, open_model
from evalcard_engine.quant.linear import ExactLinear
from evalcard_engine.request import Score


def scored(model: PreparedModel) -> torch.Tensor:
    config = EngineConfig(dtype=model.info.dtype, device="cpu", kv_memory=64 << 20)
    requests = [Score(str(n), tuple(range(n, 40 + n)), (5, 6, 7 + n)) for n in range(6)]
    answers = {answer.id: answer.logprobs for answer in Engine(model, config.resolve("cpu", 128)).run(requests)}
    return torch.tensor([answers[request.id] for request in requests])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_other_side_gives_the_same_answers_by_other_modules(tmp_path: Path, dtype: str) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=97, hidden_size=48, intermediate_size=100, num_hidden_layers=2, num_attention_heads=3,
        num_key_value_heads=1, max_position_embeddings=256,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    exact, loose = (open_model(str(tmp_path), dtype=dtype, device="cpu", scheme=None) for _ in range(2))
    loosen(loose, "silu")
    assert not any(isinstance(module, ExactLinear) for module in loose._module.modules())
    with few_rows():
        assert all(vars(module)["ROW_TILE"] == 1 for module in TILED)
        found = scored(loose)
    assert products.ROW_TILE == 8
    torch.testing.assert_close(found, scored(exact), rtol=0, atol=1e-4 if dtype == "float32" else 0.05)
