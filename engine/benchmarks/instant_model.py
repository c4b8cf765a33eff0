"""A model that takes no time, so that everything around it can be timed; and requests as evaluations make them."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import torch

from evalcard_engine.batch import Batch
from evalcard_engine.config import EngineConfig
from evalcard_engine.engine import Engine
from evalcard_engine.faults import FirstFault
from evalcard_engine.request import Generate, Request, Score


class _NoPool:
    """Pages without tensors."""

    def copy_tokens(self, source_page: int, target_page: int, count: int) -> None:
        """Nothing is stored."""


class InstantModel:
    """Every token's logits are a row of one small table: what is left is the time of the engine around a model."""

    numerics = "instant"

    def __init__(self, vocab_size: int = 512, max_positions: int = 8192) -> None:
        self.info = SimpleNamespace(
            vocab_size=vocab_size, max_positions=max_positions, short_positions=None, model_type="instant"
        )
        self._table = torch.randn(vocab_size, vocab_size, generator=torch.Generator().manual_seed(0))

    def page_bytes(self, page_size: int) -> int:
        return 1024 * page_size

    def make_pool(self, num_pages: int, page_size: int) -> _NoPool:
        return _NoPool()

    def forward(self, batch: Batch, pool: _NoPool) -> torch.Tensor:
        return self._table[batch.token_ids[batch.logits_rows]]

    @contextmanager
    def watched(self) -> Iterator[FirstFault]:
        yield FirstFault(None)


def engine_of(model: object, **config: int) -> Engine:
    """An engine on the CPU with the defaults of a run, but for ``config``."""
    given = {"dtype": "float32", "device": "cpu", "kv_memory": 1 << 30, **config}
    return Engine(model, EngineConfig(**given).resolve("cpu", 1024))


def choice_requests(items: int, vocab: int, *, shots_len: int = 600, choices: int = 4) -> list[Request]:
    """Few-shot multiple choice: every hundred items share their worked examples, every item's choices its prompt."""
    rng, tokens = random.Random(1), range(vocab)
    made: list[Request] = []
    for item in range(items):
        if item % 100 == 0:
            shots = tuple(rng.choices(tokens, k=shots_len))
        prompt = shots + tuple(rng.choices(tokens, k=rng.randrange(40, 120)))
        made += [Score(f"{item}.{choice}", prompt, (choice,)) for choice in range(choices)]
    return made


def answer_requests(items: int, vocab: int, prompt_len: int, new_tokens: int) -> list[Request]:
    """Generated answers to prompts that share nothing."""
    rng, tokens = random.Random(2), range(vocab)
    return [Generate(str(item), tuple(rng.choices(tokens, k=prompt_len)), new_tokens) for item in range(items)]
