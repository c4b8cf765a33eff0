"""The facade on a fake model whose logits are read back through the pages."""

import random
from dataclasses import replace

import pytest
import torch

from evalcard_engine.errors import EngineError, OutOfMemory
from evalcard_engine.request import Generate, Sampling, Score

SAMPLING = Sampling(temperature=0.8, seed=1, item_key=2)


def letters(token_ids) -> str:
    return "".join(chr(97 + token % 26) for token in token_ids)


def greedy_answer(law, prompt, count) -> tuple[int, ...]:
    tokens = tuple(prompt)
    for _ in range(count):
        tokens += (int(law(tokens).argmax()),)
    return tokens[len(prompt) :]


def prompts(count: int, seed: int = 0, shared: int = 9) -> list[tuple[int, ...]]:
    rng = random.Random(seed)
    stem = tuple(rng.randrange(29) for _ in range(shared))
    return [stem + tuple(rng.randrange(29) for _ in range(rng.randrange(1, 20))) for _ in range(count)]


def mixed(count: int = 24) -> list:
    """Greedy, sampled and scored requests over prompts with a common stem."""
    made = []
    for index, prompt in enumerate(prompts(count)):
        made.append(Generate(f"g{index}", prompt, 5))
        made.append(Generate(f"s{index}", prompt, 5, sampling=replace(SAMPLING, item_key=index)))
        made += [Score(f"c{index}.{choice}", prompt, (choice, *prompt[:choice])) for choice in range(3)]
    return made


def by_id(answers) -> dict:
    answers = list(answers)
    found = {answer.id: answer for answer in answers}
    assert len(found) == len(answers), "an id was answered twice"
    return found


def essence(answers) -> dict:
    """Answers without what depends on the cache."""
    return {key: replace(answer, cached_tokens=0) for key, answer in by_id(answers).items()}


def test_greedy_answers_are_those_of_the_law(open_fake, fake_law):
    requests = [Generate(str(i), prompt, 7) for i, prompt in enumerate(prompts(12))]
    answers = by_id(open_fake().run(requests))
    for request in requests:
        assert answers[request.id].token_ids == greedy_answer(fake_law, request.prompt, 7)


def test_log_probabilities_are_those_of_the_law(open_fake, fake_law):
    requests = [r for r in mixed() if isinstance(r, Score)]
    answers = by_id(open_fake().run(requests))
    assert answers.keys() == {r.id for r in requests}
    for request in requests:
        tokens = request.context + request.continuation
        rows = [fake_law(tokens[:stop]).double().log_softmax(-1) for stop in range(len(request.context), len(tokens))]
        expected = [row[token].item() for row, token in zip(rows, request.continuation, strict=True)]
        assert answers[request.id].logprobs == pytest.approx(expected, abs=2e-6)
        assert answers[request.id].is_greedy == all(
            int(row.argmax()) == token for row, token in zip(rows, request.continuation, strict=True)
        )


@pytest.mark.parametrize("page_size", [1, 4, 16, 256])
@pytest.mark.parametrize("max_sequences", [1, 3, 8])
@pytest.mark.parametrize("prefix_cache", [True, False])
def test_no_setting_changes_an_answer(open_fake, page_size, max_sequences, prefix_cache):
    expected = essence(open_fake(prefix_cache=False, max_sequences=1, step_tokens=512).run(mixed()))
    with open_fake(
        page_size=page_size,
        max_sequences=max_sequences,
        prefix_cache=prefix_cache,
        step_tokens=11,
        kv_memory=8 * max(60, 2 * page_size),
    ) as engine:
        assert essence(engine.run(mixed())) == expected


@pytest.mark.parametrize("length", [1, 3, 4, 5, 13, 16, 17, 31])
@pytest.mark.parametrize("step_tokens", [1, 4, 7])
def test_prompts_may_be_cut_anywhere(open_fake, fake_law, length, step_tokens):
    prompt = tuple((3 * i) % 29 for i in range(length))
    engine = open_fake(step_tokens=step_tokens, max_sequences=1)
    (answer,) = engine.run([Generate("a", prompt, 3)])
    assert answer.token_ids == greedy_answer(fake_law, prompt, 3)
    assert engine.stats.steps == -(-length // step_tokens) + 2


def test_a_pool_too_small_for_all_preempts_and_still_answers_the_same(open_fake):
    requests = [Generate(str(i), prompt, 30) for i, prompt in enumerate(prompts(9, shared=2))]
    expected = essence(open_fake(max_sequences=1, prefix_cache=False).run(requests))
    engine = open_fake(kv_memory=8 * 4 * 16)
    assert essence(engine.run(requests)) == expected
    assert engine.stats.preemptions > 0


def test_equal_inputs_are_computed_once(open_fake):
    engine = open_fake()
    context = tuple(range(20))
    answers = by_id(engine.run([Score(f"choice {i}", context, (i,)) for i in range(4)]))
    assert engine.stats.computed_tokens == 20 and engine.stats.merged_tokens == 60
    assert len({answer.logprobs for answer in answers.values()}) == 4


def test_shared_shots_are_computed_once(open_fake):
    shots = tuple(i % 29 for i in range(120))
    requests = [Score(f"{i}", (*shots, *prompt[:6]), (1,)) for i, prompt in enumerate(prompts(40, shared=0))]
    engine = open_fake(max_sequences=40, step_tokens=64, kv_memory=8 * 4 * 400)
    answers = by_id(engine.run(requests))
    own = sum(len(request.context) - 120 for request in requests)
    assert 120 + 40 <= engine.stats.computed_tokens <= 120 + own
    assert sum(answer.cached_tokens >= 120 for answer in answers.values()) == 39


def test_the_books_balance(open_fake):
    engine = open_fake(kv_memory=8 * 4 * 400)
    requests = mixed()
    answers = by_id(engine.run(requests))
    fed_back = sum(len(a.token_ids) - 1 for a in answers.values() if hasattr(a, "token_ids"))
    stats = engine.stats
    assert stats.preemptions == 0 and stats.generated_tokens == 5 * 48
    assert stats.computed_tokens + stats.cached_tokens + stats.merged_tokens == stats.prompt_tokens + fed_back
    assert stats.kv_bytes == engine.plan(requests).kv_bytes and 0 < stats.peak_pages <= stats.kv_bytes // 32


def test_a_plan_tells_what_a_run_then_does(open_fake):
    engine = open_fake(kv_memory=8 * 4 * 400)
    plan = engine.plan(mixed())
    list(engine.run(mixed()))
    assert plan.prompt_tokens == engine.stats.prompt_tokens and plan.requests == 24 * 5
    computed = engine.stats.computed_tokens - (engine.stats.generated_tokens - 48)
    assert plan.tokens_to_compute <= computed < plan.prompt_tokens / 2
    assert plan.max_new_tokens == 24 * 2 * 5 and plan.computations == 24 * 5


@pytest.mark.parametrize(("shots_len", "page_size", "step_tokens"), [(150, 16, 64), (333, 64, 100)])
def test_a_few_shot_task_computes_the_unique_tokens_of_its_tree(open_fake, shots_len, page_size, step_tokens):
    """Subjects share their shots, choices their item: what is computed is what is planned, within 2 %."""
    rng, requests = random.Random(5), []
    for subject in range(3):
        shots = tuple(rng.randrange(29) for _ in range(shots_len))
        for item in range(12):
            context = shots + tuple(rng.randrange(29) for _ in range(rng.randrange(20, 60)))
            requests += [Score(f"{subject} {item} {i}", context, (i,)) for i in range(4)]
    rng.shuffle(requests)
    engine = open_fake(page_size=page_size, step_tokens=step_tokens, kv_memory=8 * 30_000, max_sequences=16)
    plan = engine.plan(requests)
    prefixes = {request.context[:stop] for request in requests for stop in range(1, len(request.context) + 1)}
    assert plan.tokens_to_compute == len(prefixes) < plan.prompt_tokens / 10
    list(engine.run(requests))
    assert len(prefixes) <= engine.stats.computed_tokens <= 1.02 * len(prefixes)


def test_answers_stream_while_others_still_run(open_fake):
    engine = open_fake(max_sequences=2)
    stream = engine.run([Generate("long", (1, 2), 40), Generate("short", (3, 4), 2)])
    assert next(stream).id == "short"
    steps = engine.stats.steps
    assert next(stream).id == "long"
    assert steps <= 3 < engine.stats.steps


def test_stop_strings_cut_the_text(open_fake, fake_law):
    whole = letters(greedy_answer(fake_law, (1, 2, 3), 20))
    stop = whole[9:12]
    request = Generate("a", (1, 2, 3), 20, stop_strings=(stop,))
    (answer,) = open_fake().run([request], detokenize=letters)
    assert answer.text == whole[: whole.index(stop)] and answer.finish == "stop_string"


def test_stop_ids_end_an_answer(open_fake, fake_law):
    tokens = greedy_answer(fake_law, (1, 2, 3), 20)
    (answer,) = open_fake().run([Generate("a", (1, 2, 3), 20, frozenset({tokens[6]}))])
    assert answer.token_ids == tokens[: tokens.index(tokens[6])] and answer.finish == "stop"


def test_logits_that_are_not_finite_are_errors_and_never_numbers(open_fake, fake_model):
    model = fake_model()
    model.change = lambda history, logits: logits * float("nan") if history[0] == 5 else logits
    requests = [Generate("bad", (5, 1), 4), Generate("good", (6, 1), 4)]
    requests += [Score("worse", (5,), (1, 2)), Score("fine", (6,), (1,))]
    answers = by_id(open_fake(model).run(requests))
    finishes = {key: answer.finish for key, answer in answers.items()}
    assert finishes == {"bad": "error", "good": "length", "worse": "error", "fine": "stop"}
    assert answers["worse"].logprobs == ()


def test_repeats_differ_and_are_reproducible(open_fake):
    requests = [Generate(f"{i}", (1, 2, 3), 12, sampling=replace(SAMPLING, repeat=i)) for i in range(6)]
    first, second = essence(open_fake().run(requests)), essence(open_fake(max_sequences=1).run(requests[::-1]))
    assert first == second
    assert len({answer.token_ids for answer in first.values()}) == 6


def test_a_later_run_finds_the_prefixes_of_an_earlier_one(open_fake):
    engine = open_fake()
    list(engine.run([Generate("a", tuple(range(20)), 4)]))
    (answer,) = engine.run([Generate("a", tuple(range(20)), 4)])
    assert answer.cached_tokens == 19


def test_the_pool_is_as_large_as_the_requests_can_use_and_grows_between_runs(open_fake, fake_model):
    model = fake_model()
    engine = open_fake(model)
    list(engine.run([Generate("a", (1, 2, 3), 2)]))
    list(engine.run([Generate("b", (1, 2, 3), 1)]))
    assert [pool.tokens.shape[0] for pool in model.pools] == [1]
    list(engine.run([Generate("c", tuple(range(29)), 4)]))
    assert [pool.tokens.shape[0] for pool in model.pools] == [1, 8]


def test_a_request_that_can_never_fit_is_refused_with_numbers_before_anything_runs(open_fake, fake_model):
    model = fake_model()
    engine = open_fake(model, kv_memory=8 * 4 * 5)
    with pytest.raises(
        OutOfMemory, match="request 'big' needs 24 tokens of KV cache, 192 bytes; .*160 bytes, 20 tokens"
    ):
        engine.run([Generate("small", (1,), 2), Generate("big", tuple(range(20)), 5)])
    assert model.pools == []
    assert len(list(engine.run([Generate("small", (1,), 2)]))) == 1


def test_unsound_requests_are_refused_when_run_is_called(open_fake):
    with pytest.raises(EngineError, match="'a' is given twice"):
        open_fake().run([Generate("a", (1,), 2), Generate("a", (2,), 2)])
    with pytest.raises(EngineError, match="needs 600 positions, the model has 512"):
        open_fake().plan([Generate("a", (1,), 600)])


def test_no_requests_give_no_answers(open_fake, fake_model):
    model = fake_model()
    assert list(open_fake(model).run([])) == [] and model.pools == []


def test_a_closed_engine_says_so(open_fake):
    engine = open_fake()
    stream = engine.run([Generate("a", (1,), 5)])
    engine.close()
    engine.close()
    for act in (lambda: engine.run([Generate("a", (1,), 2)]), lambda: engine.plan([]), lambda: next(stream)):
        with pytest.raises(EngineError, match="closed"):
            act()
    assert engine.info.vocab_size == 29 and engine.stats.steps == 0


def test_closing_amid_a_run_ends_it(open_fake):
    engine = open_fake(max_sequences=1)
    stream = engine.run([Generate("a", (1,), 2), Generate("b", (2,), 2)])
    next(stream)
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        next(stream)


def test_two_runs_at_once_are_refused_and_an_abandoned_one_makes_way(open_fake):
    engine = open_fake(max_sequences=1)
    requests = [Generate("a", (1,), 2), Generate("b", (2,), 2)]
    first = engine.run(requests)
    next(first)
    with pytest.raises(EngineError, match="another run"):
        next(engine.run(requests))
    first.close()
    assert len(list(engine.run(requests))) == 2


@pytest.mark.parametrize("where", ["forward", "detokenize"])
def test_an_exception_in_the_middle_leaves_the_engine_usable(open_fake, fake_model, where):
    model, calls = fake_model(), []

    def fail_later(*_):
        calls.append(1)
        if len(calls) == 5:
            raise RuntimeError("in the middle")
        return ""

    requests = [Generate(str(i), prompt, 6, stop_strings=("zzz",)) for i, prompt in enumerate(prompts(8))]
    expected = essence(open_fake().run(requests, detokenize=letters))
    engine = open_fake(model)
    model.on_forward = fail_later if where == "forward" else model.on_forward
    with pytest.raises(RuntimeError, match="in the middle"):
        list(engine.run(requests, detokenize=fail_later if where == "detokenize" else letters))
    model.on_forward = lambda batch: None
    assert essence(engine.run(requests, detokenize=letters)) == expected


def test_two_engines_take_turns_without_touching_each_other(open_fake, fake_model):
    changed = fake_model()
    changed.change = lambda history, logits: -logits
    requests = [Generate(str(i), prompt, 5) for i, prompt in enumerate(prompts(6))]
    expected = [essence(open_fake(model).run(requests)) for model in (None, changed)]
    streams = [open_fake().run(requests), open_fake(changed).run(requests)]
    answers = [[], []]
    for _ in requests:
        for stream, kept in zip(streams, answers, strict=True):
            kept.append(next(stream))
    assert [essence(kept) for kept in answers] == expected and expected[0] != expected[1]


def test_numerics_name_the_model_and_every_choice_of_the_engine(open_fake):
    name = open_fake().numerics
    assert name.startswith("fake; ") and "philox4x32-10" in name and "exp32" in name


def test_asking_for_a_gpu_that_is_not_there_is_a_clear_error():
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    from evalcard_engine.config import EngineConfig
    from evalcard_engine.engine import Engine

    with pytest.raises(EngineError, match="no GPU here"):
        Engine.open("anything", EngineConfig(device="cuda"))
