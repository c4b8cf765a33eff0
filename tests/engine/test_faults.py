"""Which module is blamed for a value that is not finite: known overflows, planted one by one."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from evalcard_engine.config import EngineConfig
from evalcard_engine.engine import Engine
from evalcard_engine.faults import FirstFault, place_of, watched
from evalcard_engine.quant.scheme import parse_scheme
from evalcard_engine.request import Generate, Score

BAD, VOCAB, HIDDEN = 40, 48, 16
"""BAD is the one token that switches the planted overflow on; no other token's embedding touches dimension 0."""
LARGE, HUGE = 1e25, 2e38
"""Finite in float32; LARGE overflows when squared, HUGE times the 4 that RMSNorm makes of a lone value among 16."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of three layers that keeps dimension 0 of the residual stream for BAD alone."""
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("sound")
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=256, tie_word_embeddings=False, initializer_range=0.2,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    embedding = weights["model.embed_tokens.weight"]
    embedding[:, 0] = 0
    embedding[BAD] = 0
    embedding[BAD, 0] = 1000
    for name, weight in weights.items():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            weight[0] = 0
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


@pytest.fixture
def damaged(sound: Path, tmp_path: Path) -> Callable[..., Engine]:
    """An engine on the model with changed weights: ``damaged({name: change}, **config)``."""

    def make(changes: dict[str, Callable[[torch.Tensor], None]], **config) -> Engine:
        weights = load_file(sound / "model.safetensors")
        for name, change in changes.items():
            change(weights[name])
        save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
        (tmp_path / "config.json").write_text(json.dumps(json.loads((sound / "config.json").read_text())))
        return Engine.open(
            str(tmp_path), EngineConfig(**{"device": "cpu", "dtype": "float32", "page_size": 4} | config)
        )

    return make


def plant(value: float) -> Callable[[torch.Tensor], None]:
    """One row of a weight sees dimension 0 alone, with this factor."""

    def change(weight: torch.Tensor) -> None:
        weight[5] = 0
        weight[5, 0] = value

    return change


def faults(engine: Engine, *requests: Generate | Score) -> dict[str, tuple[str, str | None]]:
    return {answer.id: (answer.finish, answer.fault) for answer in engine.run(requests)}


GOOD, BROKEN = Generate("good", (1, 2, 3), 3), Generate("bad", (1, BAD, 3), 3)


@pytest.mark.parametrize("config", [{}, {"step_tokens": 16, "max_sequences": 2}, {"prefix_cache": False}])
def test_the_module_that_overflows_is_named(damaged, config):
    engine = damaged({"model.layers.1.mlp.up_proj.weight": plant(HUGE)}, **config)
    told = faults(engine, GOOD, BROKEN)
    assert told == {"good": ("length", None), "bad": ("error", "layer 1, mlp.up_proj: output not finite")}


def test_a_product_between_modules_shows_at_the_next_one(damaged):
    """Gate and up projection are finite; what overflows is their product, before the last attention."""
    engine = damaged({f"model.layers.1.mlp.{name}_proj.weight": plant(LARGE) for name in ("gate", "up")})
    assert faults(engine, BROKEN) == {"bad": ("error", "layer 1, mlp.down_proj: input not finite")}


def test_keys_that_overflow_the_attention(damaged):
    changes = {f"model.layers.0.self_attn.{name}_proj.weight": plant(LARGE) for name in ("q", "k")}
    assert faults(damaged(changes), BROKEN)["bad"] == ("error", "layer 0, self_attn.o_proj: input not finite")


def test_the_head_is_named_by_its_own_name(damaged):
    told = faults(damaged({"lm_head.weight": plant(HUGE)}), Generate("bad", (1, 2, BAD), 3))
    assert told == {"bad": ("error", "lm_head: output not finite")}


def test_a_score_that_fails_before_its_last_position(damaged):
    """The logits after BAD overflow, those at the end do not: all that were asked for are looked at."""
    told = faults(
        damaged({"lm_head.weight": plant(HUGE)}), Score("bad", (1, BAD), (2, 3, 4, 5)), Score("good", (1,), (2,))
    )
    assert told["good"] == ("stop", None)
    assert told["bad"] == ("error", "lm_head: output not finite")


def test_a_fault_far_into_a_long_sequence_is_found_chunk_by_chunk(damaged):
    engine = damaged({"model.layers.1.mlp.up_proj.weight": plant(HUGE)}, step_tokens=16, max_sequences=2)
    long = Generate("bad", (*range(1, 39), BAD, 7), 2)
    assert faults(engine, long) == {"bad": ("error", "layer 1, mlp.up_proj: output not finite")}


def test_a_quantized_linear_is_named_too(damaged):
    engine = damaged({"model.layers.1.mlp.up_proj.weight": plant(HUGE)}, scheme=parse_scheme("w8a8"))
    assert faults(engine, BROKEN) == {"bad": ("error", "layer 1, mlp.up_proj: output not finite")}


def test_only_the_first_failure_of_a_run_is_looked_into(open_fake, fake_model):
    model = fake_model()
    model.change = lambda history, logits: logits * float("nan") if history[0] == 5 else logits
    model.fault = "layer 3, mlp.down_proj: output not finite"
    engine = open_fake(model)
    requests = [Generate(f"{i}", (5, i), 4) for i in range(6)] + [Generate("good", (6, 1), 4)]
    for _ in range(2):
        told = [answer.fault for answer in engine.run(requests)]
        assert sorted(told, key=str) == [None] * 6 + [model.fault]


def test_nothing_is_run_again_while_all_is_finite(open_fake, fake_model):
    model = fake_model()
    engine = open_fake(model)
    answers = list(engine.run([Generate("a", (1, 2), 4), Score("b", (3,), (4, 5))]))
    assert [answer.fault for answer in answers] == [None, None]
    assert len(model.batches) == engine.stats.steps and len(model.pools) == 1


def test_logits_that_only_the_batch_spoiled(open_fake, fake_model):
    """No module is to blame, and alone the sequence is sound: that is said, not guessed."""
    model = fake_model()
    spoiled: list[bool] = []

    def once(history, logits):
        spoiled.append(True)
        return logits * float("nan") if len(spoiled) == 1 else logits

    model.change = once
    (answer,) = open_fake(model).run([Generate("a", (1, 2), 4)])
    assert answer.finish == "error" and "only in the batch" in answer.fault


def test_logits_alone_that_are_not_finite(open_fake, fake_model):
    model = fake_model()
    model.change = lambda history, logits: logits * float("nan")
    (answer,) = open_fake(model).run([Score("a", (1, 2), (4, 5))])
    assert answer.fault == "logits not finite"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("model.layers.12.mlp.down_proj", "layer 12, mlp.down_proj"),
        ("model.norm", "model.norm"),
        ("lm_head", "lm_head"),
    ],
)
def test_places_in_words(name, said):
    assert place_of(name) == said


def test_watching_leaves_no_hook_behind():
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    module[1].weight.data[0, 0] = float("inf")
    with watched(module) as fault:
        module(torch.ones(1, 2))
    assert fault == FirstFault("1: output not finite")
    assert not any(inner._forward_hooks or inner._forward_pre_hooks for inner in module.modules())
    module(torch.full((1, 2), float("nan")))
    assert fault.found == "1: output not finite"
