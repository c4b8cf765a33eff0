"""Draws of many rows at a time are those of one row at a time."""

import pytest
import torch

from evalcard_engine import rows as row_math
from evalcard_engine.draws import Draw, draw, keep_mask
from evalcard_engine.request import Sampling
from evalcard_engine.sampler import keep, sample


def logits_of(rows: int, vocab: int, spread: float = 3.0) -> torch.Tensor:
    made = torch.randn(rows, vocab, generator=torch.Generator().manual_seed(vocab)) * spread
    made[0] = (made[0] * 2).round() / 2  # ties
    return made


@pytest.mark.parametrize("top_k", [0, 1, 5, 300])
@pytest.mark.parametrize("top_p", [1.0, 0.9, 0.3, 1e-9])
@pytest.mark.parametrize("min_p", [0.0, 0.1, 1.0])
def test_masks_keep_what_the_filters_keep(top_k: int, top_p: float, min_p: float) -> None:
    how = Sampling(1.0, 0, 0, top_p=top_p, top_k=top_k, min_p=min_p)
    scaled = logits_of(5, 257)
    masks = keep_mask(scaled, how)
    for row, mask in zip(scaled, masks, strict=True):
        assert mask.nonzero().flatten().tolist() == keep(row, how).tolist()


@pytest.mark.parametrize("vocab", [1, 3, 50, 1025])
@pytest.mark.parametrize("at_once", [1, 4, 100])
def test_every_draw_is_the_one_of_its_row_alone(vocab: int, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several settings in one step, in any order, some rows drawn from twice, others never."""
    monkeypatch.setattr(row_math, "_CHUNK_BYTES", at_once * 8 * vocab)
    logits = logits_of(9, vocab)
    ways = [Sampling(0.7, seed=-3, item_key=2**63, repeat=1), Sampling(1.3, 5, 6, top_p=0.8, min_p=0.01)]
    ways += [Sampling(0.7, seed=4, item_key=77), Sampling(1.0, 1, 2, top_k=4, top_p=0.9), ways[0]]
    picked = [8, 2, 2, 5, 0, 7, 1, 1, 3, 6]
    draws = [Draw(ways[place % len(ways)], 1000 * place) for place in range(len(picked))]
    found = draw(logits, torch.tensor(picked), draws).tolist()
    assert found == [sample(logits[row], *one) for row, one in zip(picked, draws, strict=True)]
    assert vocab < 50 or len(set(found)) > 3
