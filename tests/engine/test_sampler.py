"""Draws against the recipe written out plainly, the filters against their definitions."""

import math
from collections import Counter

import pytest
import torch

from evalcard_engine.draws import Draw
from evalcard_engine.noise import gumbel_noise, noise_key
from evalcard_engine.request import Sampling
from evalcard_engine.sampler import keep, sample, sample_rows


def logits_of(vocab: int, seed: int = 0, spread: float = 4.0) -> torch.Tensor:
    return torch.randn(vocab, generator=torch.Generator().manual_seed(seed)) * spread


def plain_keep(scaled: torch.Tensor, sampling: Sampling) -> list[int]:
    """top_k, top_p, min_p over a sorted list of (probability, id), one after the other."""
    order = sorted(range(len(scaled)), key=lambda token: (-scaled[token].item(), token))
    if sampling.top_k:
        order = order[: sampling.top_k]
    mass = [math.exp(scaled[token].item() - scaled[order[0]].item()) for token in order]
    kept, reached = [], 0.0
    for token, part in zip(order, mass, strict=True):
        if reached >= sampling.top_p * sum(mass) and sampling.top_p < 1:
            break
        reached += part
        if part >= sampling.min_p:
            kept.append(token)
    return sorted(kept)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("spread", [0.1, 4.0, 12.0])
def test_an_unfiltered_draw_is_the_arg_max_of_scaled_logits_plus_noise(seed, spread):
    """All tokens, none left out: the shortcut past hopeless tokens must change nothing."""
    logits = logits_of(3001, seed, spread)
    sampling = Sampling(temperature=0.7, seed=seed, item_key=123, repeat=2)
    noise = gumbel_noise(torch.arange(3001), key=noise_key(seed, 123), position=11, repeat=2)
    assert sample(logits, sampling, 11) == int((logits / 0.7 + noise).argmax())


@pytest.mark.parametrize("top_k", [0, 1, 5, 400])
@pytest.mark.parametrize("top_p", [1.0, 0.9, 0.3, 1e-9])
@pytest.mark.parametrize("min_p", [0.0, 0.1, 1.0])
def test_filters_equal_their_definition(top_k, top_p, min_p):
    sampling = Sampling(1.0, 0, 0, top_p=top_p, top_k=top_k, min_p=min_p)
    for seed in range(4):
        scaled = logits_of(301, seed, spread=2.0)
        assert keep(scaled, sampling).tolist() == plain_keep(scaled, sampling)


def test_ties_at_the_edge_go_to_the_lowest_ids():
    scaled = torch.tensor([0.0, 2.0, 1.0, 1.0, 2.0, 1.0])
    assert keep(scaled, Sampling(1.0, 0, 0, top_k=3)).tolist() == [1, 2, 4]
    assert keep(torch.zeros(8), Sampling(1.0, 0, 0, top_p=0.5)).tolist() == [0, 1, 2, 3]
    assert keep(torch.zeros(8), Sampling(1.0, 0, 0, top_p=0.51)).tolist() == [0, 1, 2, 3, 4]


def test_a_draw_only_takes_what_the_filters_keep():
    logits = logits_of(500, 3)
    sampling = Sampling(1.5, 7, 8, top_k=10, top_p=0.9)
    kept = set(keep(logits / 1.5, sampling).tolist())
    drawn = {sample(logits, sampling, position) for position in range(200)}
    assert drawn <= kept and len(drawn) > 1


def test_draws_follow_the_softmax():
    """Chi-square over 8 tokens and 4000 draws; 7 degrees of freedom, the 0.9999 quantile is 29.9."""
    logits = torch.tensor([0.0, 1.0, 2.0, -1.0, 0.5, 0.5, 1.5, -2.0])
    counts = Counter(sample(logits, Sampling(0.8, 5, item), 0) for item in range(4000))
    expected = (logits.double() / 0.8).softmax(-1) * 4000
    assert sum((counts[token] - expected[token].item()) ** 2 / expected[token].item() for token in range(8)) < 29.9


def test_close_logits_draw_nearly_the_same_tokens():
    """What couples a baseline's answers to those of its compressed twin."""
    logits = logits_of(2000, 1, spread=3.0)
    nearby = logits + 0.01 * logits_of(2000, 2, spread=1.0)
    draws = [tuple(sample(row, Sampling(1.0, 0, item), 0) for row in (logits, nearby)) for item in range(300)]
    assert sum(left == right for left, right in draws) >= 285
    assert len({left for left, _ in draws}) > 30, "the draws hardly vary, so their agreement says nothing"


def test_a_row_draws_the_same_token_from_a_batch_and_with_other_threads():
    batch = torch.stack([logits_of(4999, seed) for seed in range(6)])
    sampling = Sampling(0.9, 3, 4, top_p=0.95, min_p=0.001)
    before = torch.get_num_threads()
    drawn = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            drawn.append([sample(batch[row], sampling, row) for row in range(6)])
            drawn.append([sample(batch[row].clone(), sampling, row) for row in range(6)])
    finally:
        torch.set_num_threads(before)
    assert all(tokens == drawn[0] for tokens in drawn)


def test_rows_drawn_together_are_those_drawn_alone(monkeypatch: pytest.MonkeyPatch):
    """Of all kinds, in any order, however many share a call for their noise."""
    logits = torch.stack([logits_of(1003, seed, spread=3.0) for seed in range(12)])
    filters = [{}, {"top_p": 0.9}, {"top_k": 7}, {"min_p": 0.05}]
    draws = [Draw(Sampling(0.8, seed=1, item_key=n % 5, repeat=n % 3, **filters[n % 4]), n * 7) for n in range(30)]
    rows = [(5 * n) % 12 for n in range(30)]
    alone = [sample(logits[row], *draw) for row, draw in zip(rows, draws, strict=True)]
    for at_once in (1, 50, 1 << 20):
        monkeypatch.setattr("evalcard_engine.sampler._TOKENS_AT_ONCE", at_once)
        assert sample_rows(logits, rows, draws) == alone
    assert sample_rows(logits, [], []) == [] and len(set(alone)) > 10


@pytest.mark.parametrize("vocab", [13, 4096, 49152])
def test_compiled_filters_keep_what_torch_keeps(vocab: int, monkeypatch: pytest.MonkeyPatch):
    """Where nothing is compiled both are torch's."""
    settings = [{"top_p": 0.95}, {"top_p": 0.3, "min_p": 0.02}, {"min_p": 0.001}, {"top_k": 9, "top_p": 0.7}]
    cases = [
        (logits_of(vocab, seed, spread), Sampling(1.0, 0, 0, **how))
        for seed in range(3) for spread in (0.0, 2.0, 9.0) for how in settings
    ]  # fmt: skip
    kept = [keep(scaled, how) for scaled, how in cases]
    monkeypatch.setattr("evalcard_engine.native.sampling.serves", lambda: False)
    assert all(torch.equal(keep(scaled, how), found) for (scaled, how), found in zip(cases, kept, strict=True))
