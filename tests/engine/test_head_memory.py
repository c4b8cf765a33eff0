"""The head of a large vocabulary: logits only of rows that are asked for, and never more of them than their budget."""

import random
from pathlib import Path

import pytest
import torch

from evalcard_engine.config import EngineConfig
from evalcard_engine.engine import Engine
from evalcard_engine.models import PreparedModel, open_model
from evalcard_engine.request import Score

VOCAB, PROMPT, BUDGET = 152_064, 2048, 256 << 20
"""Qwen's vocabulary; float32 logits of one such prompt alone would take 1.2 GB."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> PreparedModel:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(2)
    config = Qwen2Config(
        vocab_size=VOCAB, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=PROMPT + 8, tie_word_embeddings=True,
    )  # fmt: skip
    where: Path = tmp_path_factory.mktemp("qwen")
    Qwen2ForCausalLM(config).save_pretrained(where)
    return open_model(str(where), dtype="float32", device="cpu", scheme=None)


@pytest.fixture
def rows(model: PreparedModel, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows of logits each forward gave."""
    found: list[int] = []
    forward = PreparedModel.forward

    def counted(self: PreparedModel, *args: object) -> torch.Tensor:
        logits = forward(self, *args)
        assert logits.shape[1] == VOCAB
        found.append(logits.shape[0])
        return logits

    monkeypatch.setattr(PreparedModel, "forward", counted)
    return found


def tokens(seed: int, count: int) -> tuple[int, ...]:
    return tuple(random.Random(seed).choices(range(VOCAB), k=count))


def engine_of(model: PreparedModel, **given: int) -> Engine:
    return Engine(model, EngineConfig(dtype="float32", device="cpu", kv_memory=64 << 20, **given).resolve("cpu", 1024))


def test_long_items_give_one_row_each(model: PreparedModel, rows: list[int]):
    requests = [
        Score(f"{item}.{choice}", tokens(item, PROMPT - 1), (choice,)) for item in range(2) for choice in (1, 2)
    ]
    assert len(list(engine_of(model).run(requests))) == 4
    assert sum(rows) == 2


def test_a_whole_text_is_scored_in_chunks_of_rows(model: PreparedModel, rows: list[int]):
    text = tokens(7, PROMPT)
    (answer,) = engine_of(model).run([Score("text", text[:1], text[1:])])
    assert sum(rows) == len(answer.logprobs) == PROMPT - 1
    assert max(rows) * VOCAB * 4 <= BUDGET and len(rows) == -(-(PROMPT - 1) // max(rows))


def test_cutting_the_rows_changes_no_bit(model: PreparedModel, rows: list[int]):
    text = tokens(8, 200)
    answers = []
    for step_tokens in (1024, 64):
        (answer,) = engine_of(model, step_tokens=step_tokens).run([Score("text", text[:1], text[1:])])
        answers.append(answer.logprobs)
    assert answers[0] == answers[1] and max(rows) > 64 and rows[-1] <= 64
