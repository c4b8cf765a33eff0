"""The engine's promise on real arithmetic: company, cache, chunks and threads change no bit of an answer."""

import os
import random
from dataclasses import replace
from shutil import copytree

import pytest
import torch

from evalcard_engine.attention import compiled
from evalcard_engine.config import EngineConfig
from evalcard_engine.engine import Engine
from evalcard_engine.models import open_model
from evalcard_engine.quant.scheme import parse_scheme
from evalcard_engine.request import Generate, Sampling, Score

VOCAB = 211


@pytest.fixture(scope="module", params=["float32", "bfloat16", "float32 by torch", "bfloat16 by torch"])
def tiny_llama(tmp_path_factory, request):
    """A Llama with random weights, large enough in its logits to be decided by the last bits now and then; with
    attention and rows by compiled code, if there is a compiler, and by torch."""
    dtype, *by_torch = request.param.split(" by ")
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=96,
        intermediate_size=160,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=1,
        max_position_embeddings=1024,
        initializer_range=0.15,
    )
    folder = tmp_path_factory.mktemp("tiny_llama")
    LlamaForCausalLM(config).save_pretrained(folder)
    with pytest.MonkeyPatch.context() as patch:
        if by_torch:
            patch.setattr(compiled, "serves", lambda dtype: False)
        model = open_model(str(folder), dtype=dtype, device="cpu", scheme=None)
    assert ("attention by" in model.numerics.replace("attention by products", "")) == (
        not by_torch and compiled.serves(model._kv_dtype)
    )
    return model


@pytest.fixture(scope="module", params=["kv=fp8", "kv=int8"])
def coded_llama(tiny_llama, request):
    """The same model with a KV cache in eight bits."""
    scheme = parse_scheme(request.param)
    return open_model(str(tiny_llama.info.path), dtype=tiny_llama.info.dtype, device="cpu", scheme=scheme)


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def real_model(request):
    folder = os.environ.get("EVALCARD_TEST_MODEL")
    if not folder:
        pytest.skip("EVALCARD_TEST_MODEL names no model folder")
    return open_model(folder, dtype=request.param, device="cpu", scheme=None)


def requests_for(vocab: int, count: int, new_tokens: int) -> list:
    """Prompts out of three stems, some longer than an attention block: greedy, sampled and scored."""
    rng = random.Random(1)
    stems = [tuple(rng.randrange(vocab) for _ in range(length)) for length in (3, 70, 251)]
    made = []
    for index in range(count):
        prompt = stems[(0, 1, 0, 2, 1, 0)[index % 6]] + tuple(rng.randrange(vocab) for _ in range(rng.randrange(1, 40)))
        made.append(Generate(f"greedy {index}", prompt, new_tokens))
        made.append(Score(f"score {index}", prompt, tuple(rng.randrange(vocab) for _ in range(rng.randrange(1, 6)))))
        if index % 4 == 0:
            sampling = Sampling(0.9, 1, index, top_p=0.95)
            made.append(Generate(f"sampled {index}", prompt, new_tokens, sampling=sampling))
    return made


def answers(model, requests, threads: int = 1, must_preempt: bool = False, **config) -> dict:
    """Every answer by id, without what depends on the cache."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        engine = Engine(model, EngineConfig(device="cpu", **{"step_tokens": 512, "kv_memory": 1 << 30, **config}))
        found = {answer.id: replace(answer, cached_tokens=0) for answer in engine.run(requests)}
        assert found.keys() == {request.id for request in requests}
        assert bool(engine.stats.preemptions) == must_preempt
        return found
    finally:
        torch.set_num_threads(before)


SETTINGS = [
    {"max_sequences": 1},
    {"max_sequences": 7},
    {"max_sequences": 7, "prefix_cache": False},
    # Two threads only where the steps are few: waiting for each other is slow on a machine that others use too.
    {"max_sequences": 64, "threads": 2, "step_tokens": 4096},
    {"max_sequences": 64, "threads": 2, "step_tokens": 4096, "prefix_cache": False},
    {"max_sequences": 64, "prefix_cache": False},
    {"max_sequences": 64, "page_size": 16},
    {"max_sequences": 5, "step_tokens": 37},
    {"max_sequences": 5, "page_size": 64, "prefix_cache": False},
    {"max_sequences": 9, "drafts": False},
]


@pytest.fixture(scope="module")
def tiny_expected(tiny_llama):
    return answers(tiny_llama, requests_for(VOCAB, 64, 6), max_sequences=1, prefix_cache=False)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_every_setting_gives_the_answers_of_one_sequence_at_a_time(tiny_llama, tiny_expected, setting):
    assert answers(tiny_llama, requests_for(VOCAB, 64, 6), **setting) == tiny_expected


def test_the_answers_vary_enough_for_equality_to_mean_something(tiny_expected):
    generated = [answer.token_ids for key, answer in tiny_expected.items() if key.startswith("greedy")]
    assert len(set(generated)) > 50 and len({token for tokens in generated for token in tokens}) > 40


def test_the_order_of_requests_does_not_matter(tiny_llama, tiny_expected):
    shuffled = requests_for(VOCAB, 64, 6)
    random.Random(3).shuffle(shuffled)
    assert answers(tiny_llama, shuffled, max_sequences=9) == tiny_expected


@pytest.fixture(scope="module")
def circling_llama(tiny_llama, tmp_path_factory):
    """The same model with little attention, whose answers soon go in circles."""
    from safetensors.torch import load_file, save_file

    folder = tmp_path_factory.mktemp("circling_llama")
    copytree(tiny_llama.info.path, folder, dirs_exist_ok=True)
    tensors = load_file(folder / "model.safetensors")
    for name in tensors:
        if name.endswith("o_proj.weight"):
            tensors[name] *= 0.02
    save_file(tensors, folder / "model.safetensors")
    return open_model(str(folder), dtype=tiny_llama.info.dtype, device="cpu", scheme=None)


def test_drafts_save_steps_and_change_no_bit(circling_llama):
    every, found = requests_for(VOCAB, 24, 150), {}
    requests = [request for request in every if not isinstance(request, Generate) or request.sampling is None]
    for drafts in (False, True):
        config = EngineConfig(device="cpu", step_tokens=512, kv_memory=1 << 30, max_sequences=16, drafts=drafts)
        engine = Engine(circling_llama, config)
        answered = {answer.id: replace(answer, cached_tokens=0) for answer in engine.run(requests)}
        found[drafts] = answered, engine.stats
    assert found[True][0] == found[False][0]
    without, stats = found[False][1], found[True][1]
    assert stats.accepted_tokens > 100 and stats.steps < 0.8 * without.steps
    assert without.accepted_tokens == without.rejected_tokens == 0
    assert stats.computed_tokens + stats.cached_tokens == without.computed_tokens + without.cached_tokens


def test_preemption_does_not_change_an_answer(tiny_llama):
    requests = requests_for(VOCAB, 12, 100)
    roomy = answers(tiny_llama, requests, max_sequences=12, prefix_cache=False)
    tight = {"max_sequences": 6, "step_tokens": 64, "page_size": 16, "kv_memory": tiny_llama.page_bytes(16) * 32}
    assert answers(tiny_llama, requests, must_preempt=True, **tight) == roomy


@pytest.fixture(scope="module")
def coded_expected(coded_llama):
    return answers(coded_llama, requests_for(VOCAB, 24, 6), max_sequences=1, prefix_cache=False)


@pytest.mark.parametrize("setting", [*SETTINGS[:1], *SETTINGS[3:]], ids=str)
def test_a_cache_of_codes_keeps_the_promise_too(coded_llama, coded_expected, setting):
    assert answers(coded_llama, requests_for(VOCAB, 24, 6), **setting) == coded_expected


def test_a_cache_of_codes_gives_other_answers(tiny_llama, coded_expected):
    plain = answers(tiny_llama, requests_for(VOCAB, 24, 6), max_sequences=24)
    scored = [key for key in plain if key.startswith("score")]
    assert all(plain[key].logprobs != coded_expected[key].logprobs for key in scored)


def test_preemption_does_not_change_an_answer_over_codes(coded_llama):
    requests = requests_for(VOCAB, 12, 60)
    roomy = answers(coded_llama, requests, max_sequences=12, prefix_cache=False)
    tight = {"max_sequences": 6, "step_tokens": 64, "page_size": 16, "kv_memory": coded_llama.page_bytes(16) * 30}
    assert answers(coded_llama, requests, must_preempt=True, **tight) == roomy


@pytest.fixture(scope="module")
def real_expected(real_model):
    return answers(real_model, requests_for(real_model.info.vocab_size, 6, 3), max_sequences=1, prefix_cache=False)


@pytest.mark.parametrize("setting", SETTINGS[3:7], ids=str)
def test_the_real_model_keeps_the_promise_too(real_model, real_expected, setting):
    assert answers(real_model, requests_for(real_model.info.vocab_size, 6, 3), **setting) == real_expected


def test_the_real_model_keeps_the_promise_over_codes(real_model):
    coded = open_model(str(real_model.info.path), dtype="float32", device="cpu", scheme=parse_scheme("kv=fp8"))
    requests = requests_for(coded.info.vocab_size, 6, 3)
    alone = answers(coded, requests, max_sequences=1, prefix_cache=False)
    assert answers(coded, requests, max_sequences=64, page_size=16) == alone


def test_log_probabilities_and_greedy_tokens_agree_with_transformers(tmp_path):
    """Against the library's own forward pass, each prompt alone and without a cache."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    sizes = {"hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 3}
    config = LlamaConfig(vocab_size=VOCAB, num_key_value_heads=1, initializer_range=0.15, **sizes)
    plain = LlamaForCausalLM(config).eval()
    plain.save_pretrained(tmp_path)
    model = open_model(str(tmp_path), dtype="float32", device="cpu", scheme=None)
    requests = [request for request in requests_for(VOCAB, 12, 5) if not request.id.startswith("sampled")]
    found = answers(model, requests, max_sequences=8)
    for request in requests:
        start = request.prompt if isinstance(request, Generate) else request.context
        rest = found[request.id].token_ids if isinstance(request, Generate) else request.continuation
        with torch.no_grad():
            logits = plain(torch.tensor([start + rest])).logits[0, len(start) - 1 : -1].double()
        if isinstance(request, Generate):
            chosen = logits[range(len(rest)), list(rest)]
            assert torch.all(logits.max(-1).values - chosen < 1e-4)
        else:
            expected = logits.log_softmax(-1)[range(len(rest)), list(rest)]
            assert found[request.id].logprobs == pytest.approx(expected.tolist(), abs=1e-4)
