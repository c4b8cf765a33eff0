"""Every family against transformers' own eager forward, and against itself, bit for bit."""

import pytest
import torch

from evalcard_engine.attention import compiled
from evalcard_engine.config import EngineConfig
from evalcard_engine.engine import Engine
from evalcard_engine.request import Completion, Generate, Score

TOLERANCE = 1e-4


def mixed(packed, model, tokens: list[torch.Tensor], page_size: int) -> list[tuple[int, int, torch.Tensor]]:
    """Steps in which prompts, chunks of prompts and single tokens stand side by side, on pages that are shared.

    Sequences 0 and 1 share their first 256 tokens. Returns (sequence, first position, logits).
    """
    run = packed(model, tokens, page_size)
    run.share(1, 0, 256)
    ends = [len(ids) for ids in tokens]
    steps = [
        [(0, 0, 256), (2, 0, ends[2] - 1)],
        [(2, ends[2] - 1, ends[2]), (1, 256, ends[1]), (3, 0, 7), (0, 256, 257)],
        [(3, 7, ends[3] - 2), (0, 257, 300)],
        [(3, ends[3] - 2, ends[3] - 1), (0, 300, 301), (4, 0, 1)],
        [(4, 1, ends[4]), (3, ends[3] - 1, ends[3]), (0, 301, ends[0])],
    ]
    return [
        (number, start, logits)
        for parts in steps
        for (number, start, _), logits in zip(parts, run.step(*parts), strict=True)
    ]


@pytest.fixture
def tokens(some_tokens) -> list[torch.Tensor]:
    """Beyond every window, chunk and block; the first two begin alike."""
    first, end, *others = some_tokens(330, 90, 17, 290, 3)
    return [first, torch.cat((first[:256], end)), *others]


@pytest.fixture(params=["compiled", "torch"])
def computed_by(request, monkeypatch) -> None:
    """What attends, and works on rows between linears: compiled code, where there is a compiler, or torch."""
    if request.param == "compiled" and not compiled.serves(torch.float32):
        pytest.skip(f"nothing compiled: {compiled.words(torch.float32)}")
    if request.param == "torch":
        monkeypatch.setattr(compiled, "serves", lambda dtype: False)


@pytest.mark.usefixtures("computed_by")
@pytest.mark.parametrize("page_size", [16, 256])
def test_mixed_steps_with_shared_prefixes_equal_eager(family, packed, tokens, page_size: int, record_property) -> None:
    expected = [family.logits(ids) for ids in tokens]
    worst = 0.0
    for number, start, logits in mixed(packed, family.open(), tokens, page_size):
        wanted = expected[number][start : start + len(logits)]
        worst = max(worst, float((logits - wanted).abs().max()))
        assert torch.equal(logits.argmax(-1), wanted.argmax(-1)), (number, start)
    record_property("largest difference", worst)
    print(f"{family.name}: largest difference of a logit {worst:.2e}")
    assert worst < TOLERANCE


def test_greedy_tokens_and_scores_of_the_whole_engine(family, some_tokens) -> None:
    """Requests with a common prefix, more of them than a step holds: prompts in chunks beside running answers."""
    prefix, *ends = some_tokens(280, 30, 5, 31)
    prompts = [tuple(torch.cat((prefix, end)).tolist()) for end in ends]
    requests = [Generate(f"g{number}", prompt, max_tokens=6) for number, prompt in enumerate(prompts)]
    scored = Score("s", prompts[0][:290], prompts[0][290:])
    config = EngineConfig(device="cpu", page_size=16, step_tokens=64, max_sequences=3, kv_memory=1 << 26)
    engine = Engine(family.open(), config)
    answers = {answer.id: answer for answer in engine.run([*requests, scored])}
    assert sum(answer.cached_tokens for answer in answers.values()) >= 2 * 256
    for request in requests:
        ids = list(request.prompt)
        for _ in range(request.max_tokens):
            ids.append(int(family.logits(torch.tensor(ids))[-1].argmax()))
        found = answers[request.id]
        assert isinstance(found, Completion)
        assert list(found.token_ids) == ids[len(request.prompt) :]
    logprobs = family.logits(torch.tensor(prompts[0])).log_softmax(-1)
    wanted = logprobs[range(289, len(prompts[0]) - 1), torch.tensor(scored.continuation)]
    torch.testing.assert_close(torch.tensor(answers["s"].logprobs), wanted, rtol=0, atol=TOLERANCE)


def test_no_bit_depends_on_order_company_or_pages(family, packed, tokens) -> None:
    model = family.open()
    assert "rows exact" in model.numerics
    run = packed(model, tokens, 256)
    whole = run.step(*((number, 0, len(ids)) for number, ids in enumerate(tokens)))
    for page_size in (16, 256):
        for number, start, logits in mixed(packed, model, tokens, page_size):
            assert torch.equal(logits, whole[number][start : start + len(logits)]), (page_size, number, start)
    turned = packed(model, tokens[::-1], 4)
    found = turned.step(*((number, 0, len(ids)) for number, ids in enumerate(tokens[::-1])))
    assert all(torch.equal(one, other) for one, other in zip(found, whole[::-1], strict=True))


def test_transformers_hands_over_no_mask(family, packed, tokens, monkeypatch) -> None:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    from evalcard_engine.attention.hook import ATTENTION_NAME, packed_attention

    seen = []

    def spy(module, query, key, value, attention_mask, **kwargs):
        seen.append((module.layer_idx, attention_mask))
        return packed_attention(module, query, key, value, attention_mask, **kwargs)

    # Compiled rows come with attention modules of ours, which transformers hands nothing.
    monkeypatch.setattr(compiled, "serves", lambda dtype: False)
    model = family.open()
    ALL_ATTENTION_FUNCTIONS.register(ATTENTION_NAME, spy)
    try:
        packed(model, tokens[2:3], 16).step((0, 0, len(tokens[2])))
    finally:
        ALL_ATTENTION_FUNCTIONS.register(ATTENTION_NAME, packed_attention)
    assert seen == [(layer, None) for layer in range(len(seen))] and len(seen) >= 3
