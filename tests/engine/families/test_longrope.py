"""longrope: each sequence is encoded by its own length, whatever runs beside it and whatever is in the cache."""

from dataclasses import replace

import pytest
import torch

from evalcard_engine.config import EngineConfig
from evalcard_engine.engine import Engine
from evalcard_engine.request import Generate, Score

ORIGINAL = 128
CONFIG = EngineConfig(device="cpu", page_size=16, step_tokens=200, max_sequences=4, kv_memory=1 << 26)


@pytest.fixture(scope="module")
def phi3(made):
    return made("phi3-longrope")


@pytest.fixture
def engine(phi3):
    return Engine(phi3.open(), CONFIG)


def scores(ids: torch.Tensor, lengths: tuple[int, ...]) -> list[Score]:
    """Of the first tokens of one sequence; the last token of a request is scored and not fed."""
    return [Score(f"{length}", tuple(ids[:1].tolist()), tuple(ids[1 : length + 1].tolist())) for length in lengths]


def logprobs(phi3, ids: torch.Tensor, is_long: bool) -> torch.Tensor:
    """[len(ids), vocab] by transformers, which goes by the whole length: what comes behind changes nothing else."""
    filler = torch.full((max(0, ORIGINAL + 1 - len(ids)),), 3)
    assert is_long or len(ids) <= ORIGINAL
    return phi3.logits(torch.cat((ids, filler)) if is_long else ids)[: len(ids)].log_softmax(-1)


def test_the_two_kinds_side_by_side_equal_eager(phi3, engine, some_tokens) -> None:
    (ids,) = some_tokens(400)
    requests = scores(ids, (20, 127, 128, 129, 330))
    answers = {answer.id: answer for answer in engine.run(requests)}
    for request in requests:
        fed = torch.tensor(request.context + request.continuation[:-1])
        expected = logprobs(phi3, fed, is_long=len(fed) > ORIGINAL)
        wanted = expected[range(len(fed)), torch.tensor(request.continuation)]
        torch.testing.assert_close(torch.tensor(answers[request.id].logprobs), wanted, rtol=0, atol=1e-4)
    apart = logprobs(phi3, ids[:20], is_long=True)[range(20), ids[1:21]] - torch.tensor(answers["20"].logprobs)
    assert apart.abs().max() > 0.01, "the two kinds differ, or nothing was tested"


def test_prefixes_are_shared_within_a_kind_only(engine, some_tokens) -> None:
    (ids,) = some_tokens(400)
    # The longest first, for a pool that has to grow forgets what it knew.
    for length, cached in ((300, 0), (200, 192), (120, 0), (100, 96)):
        (answer,) = engine.run([Score("s", tuple(ids[:length].tolist()), (5,))])
        assert cached <= answer.cached_tokens < cached + 16, length


def test_no_bit_depends_on_company(phi3, engine, some_tokens) -> None:
    (ids,) = some_tokens(400)
    requests = scores(ids, (90, 128, 129, 300))
    together = {answer.id: answer.logprobs for answer in engine.run(requests[::-1])}
    for request in requests:
        alone = Engine(phi3.open(), replace(CONFIG, page_size=256, prefix_cache=False))
        (answer,) = alone.run([request])
        assert answer.logprobs == together[request.id]


def test_an_answer_that_may_grow_long_is_long_from_its_first_token(phi3, engine, some_tokens) -> None:
    (ids,) = some_tokens(110)
    prompt = tuple(ids.tolist())
    fits, grows = Generate("fits", prompt, max_tokens=19), Generate("grows", prompt, max_tokens=20)
    answers = {answer.id: answer.token_ids for answer in engine.run([fits, grows])}
    for request, is_long in ((fits, False), (grows, True)):
        tokens = torch.cat((ids, torch.tensor(answers[request.id])))[:-1]
        expected = logprobs(phi3, tokens, is_long).argmax(-1)[len(ids) - 1 :]
        assert expected.tolist() == list(answers[request.id])
    assert answers["fits"] != answers["grows"][:19]


def test_the_plan_counts_what_is_shared(engine, some_tokens) -> None:
    (ids,) = some_tokens(400)
    requests = [Score(str(n), tuple(ids[:n].tolist()), (5,)) for n in (100, 120, 200, 300)]
    assert engine.plan(requests).tokens_to_compute == 120 + 300
