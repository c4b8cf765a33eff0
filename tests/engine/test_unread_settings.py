"""Settings of other families in a config.json are refused where they would change numbers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalcard_engine.errors import UnsupportedModel
from evalcard_engine.inspection import inspect
from evalcard_engine.models import open_model

OPEN: dict[str, Any] = {"dtype": "float32", "device": "cpu", "scheme": None}


@pytest.fixture
def changed(tmp_path: Path) -> Callable[..., str]:
    """A tiny model whose config.json got other keys."""
    from transformers import AutoConfig, AutoModelForCausalLM

    def change(family: str = "llama", **keys: Any) -> str:
        config = AutoConfig.for_model(
            family, vocab_size=64, hidden_size=48, intermediate_size=80, num_hidden_layers=1, num_attention_heads=3,
            num_key_value_heads=1, head_dim=32, max_position_embeddings=64,
        )  # fmt: skip
        AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
        found = json.loads((tmp_path / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps(found | keys))
        return str(tmp_path)

    return change


def test_what_bends_the_numbers_of_another_family_is_refused(changed: Callable[..., str]) -> None:
    model = changed(final_logit_softcapping=30.0, logit_scale=0.5, embedding_multiplier=12, alibi=True)
    with pytest.raises(UnsupportedModel) as caught:
        open_model(model, **OPEN)
    said = str(caught.value)
    for words in ("final_logit_softcapping = 30.0", "logit_scale = 0.5", "embedding_multiplier = 12", "alibi = True"):
        assert words in said
    assert "'llama' does not read it" in said and inspect(model).faults


def test_an_activation_under_another_familys_name_is_not_taken(changed: Callable[..., str]) -> None:
    with pytest.raises(UnsupportedModel, match="hidden_activation = 'gelu_pytorch_tanh'"):
        open_model(changed(hidden_activation="gelu_pytorch_tanh"), **OPEN)


@pytest.mark.parametrize("keys", [{"is_causal": False}, {"use_bidirectional_attention": True}])
def test_tokens_that_see_later_ones_are_refused(changed: Callable[..., str], keys: dict[str, bool]) -> None:
    with pytest.raises(UnsupportedModel, match=f"looks at later tokens .{next(iter(keys))}"):
        open_model(changed(**keys), **OPEN)


@pytest.mark.parametrize(
    "keys",
    [
        {"final_logit_softcapping": None, "logit_scale": 1.0, "alibi": False, "residual_multiplier": 1},
        {"sliding_window": 4096, "use_sliding_window": False},
        {"trained_on": "twelve tokens", "attention_bias": False},
    ],
)
def test_what_changes_nothing_may_stay(changed: Callable[..., str], keys: dict[str, Any]) -> None:
    assert not inspect(changed(**keys)).faults


def test_a_family_that_reads_a_setting_keeps_it(changed: Callable[..., str]) -> None:
    assert not inspect(changed("gemma3_text", query_pre_attn_scalar=20)).faults
