"""Our engine as a backend: requests out, answers in, whatever order they come in."""

import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evalcard.backends.backend import Decoding, GenerateRequest, Item, ScoreRequest
from evalcard.backends.embedded import EmbeddedBackend
from evalcard.errors import UserError
from evalcard.modelrecord import model_record
from evalcard.modelspec import ModelSpec
from evalcard.progress import Silent
from evalcard_engine.errors import EngineError
from evalcard_engine.plan import Plan
from evalcard_engine.request import Completion, Generate, Score, Scored

GREEDY = Decoding(8, ("Q:",))
SAMPLED = Decoding(8, ("Q:",), temperature=0.7, top_p=0.9, top_k=5, min_p=0.1, seed=3)


def score_item(item_id: int, choices: int) -> Item:
    requests = tuple(ScoreRequest("c", "x", (1, 2), (3 + i,) * (i + 1)) for i in range(choices))
    return Item("t", item_id, "ab" * 32, 0, "p", requests)


def generate_item(item_id: int, decoding: Decoding, repeat: int = 0) -> Item:
    return Item("t", item_id, "ab" * 32, repeat, "p", (GenerateRequest("q", (1, 2), (9,), decoding),))


FAULT = "layer 12, mlp.down_proj: output not finite"


class FakeEngine:
    """Answers a Score with -1 for each token of its continuation, a Generate with the text of its first token."""

    numerics = "n"
    info = SimpleNamespace(bits_per_weight=4.5, weight_bytes=10, num_parameters=20, dtype="float32", device="cpu")
    stats = SimpleNamespace(__slots__=("steps", "memory_halvings"), steps=3, memory_halvings=0, forward_tokens=8)

    def __init__(self, broken: str | None = None, drop: str | None = None) -> None:
        self.requests: list[Any] = []
        self.broken, self.drop, self.closed = broken, drop, 0

    def plan(self, requests: list[Any]) -> Plan:
        return Plan(len(requests), 1, 2000, 310, 0, 5, 3 << 20)

    def run(self, requests: list[Any], *, detokenize: Callable) -> Any:
        self.requests = list(requests)
        shuffled = [one for one in self.requests if one.id != self.drop]
        random.Random(1).shuffle(shuffled)
        for one in shuffled:
            finish = "error" if one.id == self.broken else "stop"
            fault = FAULT if one.id == self.broken else None
            if isinstance(one, Score):
                yield Scored(one.id, (-1.0,) * len(one.continuation), one.continuation[0] == 3, 5, 0, finish, fault)
            elif fault is not None:
                yield Completion(one.id, (), "", "error", 2, 0, fault)
            else:
                yield Completion(one.id, (7, 8), "seven", "length", 2, 0)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def backend(toy_spec: Callable) -> Callable[..., Any]:
    def make(engine: Any) -> EmbeddedBackend:
        spec = toy_spec("toy_sums")
        made = EmbeddedBackend(spec, spec.baseline)
        made._engine = engine
        return made

    return make


def answered(backend: EmbeddedBackend, items: list[Item]) -> dict[int, Any]:
    found: dict[int, Any] = {}

    def on_answer(item: Item, answer: Any) -> None:
        assert item.item_id not in found
        found[int(item.item_id)] = answer

    backend.answer(items, on_answer)
    return found


def test_answers_find_their_items(backend: Callable):
    engine = FakeEngine()
    items = [score_item(i, 4) if i % 2 else generate_item(i, GREEDY) for i in range(20)]
    found = answered(backend(engine), items)
    assert sorted(found) == list(range(20)) and len(engine.requests) == 10 * 5
    assert [(c.logprob, c.tokens, c.is_greedy) for c in found[1].choices] == [
        (-1.0, 1, True), (-2.0, 2, False), (-3.0, 3, False), (-4.0, 4, False)]  # fmt: skip
    assert (found[0].text, found[0].token_ids, found[0].finish) == ("seven", (7, 8), "length")
    assert found[0].output_tokens == 2


def test_one_call_for_everything_and_none_for_nothing(backend: Callable):
    engine = FakeEngine()
    made = backend(engine)
    made.answer([], lambda *_: None)
    assert engine.requests == [] and made.facts() == {}


def test_requests_say_what_the_item_says(backend: Callable):
    engine = FakeEngine()
    answered(backend(engine), [generate_item(0, SAMPLED, repeat=2), generate_item(1, GREEDY), score_item(2, 1)])
    sampled, greedy, score = engine.requests
    assert isinstance(sampled, Generate) and sampled.sampling is not None
    assert (sampled.sampling.temperature, sampled.sampling.seed, sampled.sampling.repeat) == (0.7, 3, 2)
    assert (sampled.sampling.top_p, sampled.sampling.top_k, sampled.sampling.min_p) == (0.9, 5, 0.1)
    assert sampled.sampling.item_key == int("ab" * 8, 16) < 2**64
    assert greedy.sampling is None and greedy.stop_ids == {9} and greedy.stop_strings == ("Q:",)
    assert greedy.max_tokens == 8 and greedy.prompt == (1, 2) and score.context == (1, 2)


def test_logits_that_were_not_finite(backend: Callable):
    found = answered(backend(FakeEngine(broken="0.2")), [score_item(0, 4), score_item(1, 4)])
    assert found[0].finish == "error" and [c.logprob is None for c in found[0].choices] == [False, False, True, False]
    assert found[1].finish == "stop"
    assert (found[0].fault, found[1].fault) == (FAULT, None)
    assert [choice.fault for choice in found[0].choices] == [None, None, FAULT, None]


def test_a_generation_that_was_not_finite(backend: Callable):
    found = answered(backend(FakeEngine(broken="1.0")), [generate_item(0, GREEDY), generate_item(1, GREEDY)])
    assert [(found[i].finish, found[i].fault) for i in range(2)] == [("length", None), ("error", FAULT)]


def test_an_answer_that_never_comes(backend: Callable):
    with pytest.raises(AssertionError):
        answered(backend(FakeEngine(drop="1.0")), [score_item(0, 2), score_item(1, 2)])


def test_facts_and_closing(backend: Callable):
    engine = FakeEngine()
    made = backend(engine)
    answered(made, [score_item(0, 1)])
    made.close()
    made.close()
    assert engine.closed == 1
    assert made.facts() == {"bits_per_weight": 4.5, "weight_bytes": 10, "num_parameters": 20, "dtype": "float32",
                            "device": "cpu", "steps": 3, "memory_halvings": 0, "planned_prompt_tokens": 2000,
                            "planned_tokens_to_compute": 310, "planned_max_new_tokens": 0,
                            "planned_pages": 5}  # fmt: skip


class Lines(Silent):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


def test_the_plan_is_said_once_and_added_up(toy_spec: Callable):
    spec, lines = toy_spec("toy_sums"), Lines()
    made = EmbeddedBackend(spec, spec.baseline, lines)
    made._engine = FakeEngine()
    for _ in range(2):
        answered(made, [score_item(0, 2)])
    label = spec.baseline.label
    assert lines.said == [f"{label}: 2,000 prompt tokens asked, 310 to compute (15.5%); 5 pages of KV cache, 3 MiB"]
    facts = made.facts()
    assert (facts["planned_prompt_tokens"], facts["planned_tokens_to_compute"], facts["planned_pages"]) == (
        4000,
        620,
        5,
    )


def test_memory_that_ran_out_is_said_once(toy_spec: Callable):
    spec, lines = toy_spec("toy_sums"), Lines()
    made = EmbeddedBackend(spec, spec.baseline, lines)
    engine = FakeEngine()
    engine.stats = SimpleNamespace(__slots__=("memory_halvings",), memory_halvings=3, forward_tokens=8)
    made._engine = engine
    answered(made, [score_item(item, 2) for item in range(3)])
    (said,) = [line for line in lines.said if "memory" in line]
    assert "ran out" in said and "8 tokens a step" in said and "--kv-memory" in said
    assert made.facts()["memory_halvings"] == 3


class TestUsersMistakes:
    def test_unknown_arguments(self, toy_spec: Callable):
        spec = toy_spec("toy_sums", model_args={"gpu": "1", "page_size": "16"})
        with pytest.raises(UserError, match="no model argument gpu; it knows tokenizer, max_sequences, page_size"):
            EmbeddedBackend(spec, spec.baseline)

    def test_numbers(self, toy_spec: Callable):
        spec = toy_spec("toy_sums", model_args={"page_size": "many"})
        with pytest.raises(UserError, match="many"):
            EmbeddedBackend(spec, spec.baseline)

    def test_what_the_engine_refuses(self, backend: Callable):
        engine = FakeEngine()
        engine.run = lambda requests, detokenize: (_ for _ in ()).throw(EngineError("too long"))
        with pytest.raises(UserError, match="too long"):
            answered(backend(engine), [score_item(0, 1)])

    def test_a_folder_without_weights(self, toy_spec: Callable):
        spec = toy_spec("toy_sums", device="cpu")
        with pytest.raises(UserError):
            EmbeddedBackend(spec, spec.baseline).identity()


@pytest.mark.parametrize("scheme", [None, "w8a8"])
def test_a_real_engine(tiny_model: Path, scheme: str | None, monkeypatch: pytest.MonkeyPatch):
    """Identity before anything is loaded, and the same once it is; a scheme is another model."""
    from evalcard.spec import make_spec

    model = f"{tiny_model}:{scheme}" if scheme else str(tiny_model)
    spec = make_spec({"baseline": model, "tasks": "t", "device": "cpu", "dtype": "float32"})
    backend = EmbeddedBackend(spec, spec.baseline)
    identity = backend.identity()
    assert backend._engine is None and identity.weights_digest and "float32" in str(identity.numerics)
    assert (scheme or "") in identity.weights_digest
    found = answered(backend, [score_item(0, 3), generate_item(1, GREEDY)])
    assert all(choice.logprob is not None and choice.logprob < 0 for choice in found[0].choices)
    assert len(found[1].token_ids) <= 8 and backend.facts()["num_parameters"] > 1000
    record = model_record(spec, spec.baseline, "m", "baseline", identity, backend.tokenizer, backend).engine
    assert record is not None and record.planned_max_new_tokens == 8 and record.memory_halvings == 0
    # Choices of one to three tokens, the last of which is never fed back, after a context of two; a prompt of two.
    assert record.planned_prompt_tokens == 2 + 3 + 4 + 2
    assert record.computed_tokens + record.cached_tokens + record.merged_tokens >= record.planned_prompt_tokens
    assert record.accepted_tokens == backend.facts()["accepted_tokens"] <= record.generated_tokens
    assert record.rejected_tokens == backend.facts()["rejected_tokens"]
    backend.close()
    assert backend._resolved() == ("cpu", "float32")


@pytest.mark.parametrize(
    ("weights", "said"), [("packed", "packed (as asked)"), ("auto", "expanded (faster on this CPU)")]
)
def test_how_linears_are_held_is_said_when_they_are_loaded(tiny_model: Path, weights: str, said: str):
    from evalcard.progress import Silent
    from evalcard.spec import make_spec

    lines: list[str] = []
    progress = Silent()
    progress.say = lines.append
    given = {"tasks": "t", "device": "cpu", "dtype": "float32", "weights": weights}
    spec = make_spec(given | {"baseline": str(tiny_model), "compressed": [f"{tiny_model}:w4a16"]})
    backends = [EmbeddedBackend(spec, model, progress) for model in spec.models]
    found = [answered(backend, [score_item(0, 3)])[0] for backend in backends]
    assert all(choice.logprob is not None for one in found for choice in one.choices)
    (line,) = [line for line in lines if "prompt tokens asked" not in line]
    assert len(lines) == 3, "each model says its plan"
    assert line.startswith(f"{spec.compressed[0].label}: compressed linears {said}, ") and line.endswith("in memory")


def test_a_real_layer_that_overflows_is_named_in_the_journal(tiny_model: Path, toy_spec: Callable, tmp_path: Path):
    """A weight of 1e38 is finite, and what it makes of activations is not: the sample names the layer."""
    import shutil

    from safetensors.torch import load_file, save_file

    from evalcard.evaluate import evaluate
    from evalcard.results.store import RunFolder
    from evalcard.tasks.prepare import prepare

    broken = tmp_path / "broken"
    shutil.copytree(tiny_model, broken)
    weights = load_file(broken / "model.safetensors")
    weights["model.layers.1.mlp.up_proj.weight"][7] = 3e38
    save_file(weights, broken / "model.safetensors", {"format": "pt"})
    spec = toy_spec("toy_shapes", "toy_sums", baseline=str(broken), device="cpu", dtype="float32")
    with RunFolder.open(tmp_path, "run") as folder:
        run = evaluate(spec, spec.baseline, "m", prepare(spec), EmbeddedBackend(spec, spec.baseline), folder)
        stored = [one for task in run.samples for one in folder.journal("m", task).read().values()]
    assert {one.finish for one in stored} == {"error"} and len(stored) == 21
    assert [one.fault for one in stored if one.fault] == ["layer 1, mlp.up_proj: output not finite"]
    assert {one.outcome for verdicts in run.verdicts.values() for one in verdicts} == {"error"}


@pytest.mark.parametrize("stored", ["bfloat16", "float32"])
def test_all_models_of_a_run_are_computed_as_the_baseline_is(
    tmp_path: Path, stored: str, toy_spec: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variant whose files hold another dtype, as compressed ones do: the difference would look like compression's."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from evalcard_engine import planning
    from evalcard_engine.arithmetic.cpu_plans import CpuPlan

    monkeypatch.setattr(planning, "cpu_plan", lambda: CpuPlan(512, torch.bfloat16))
    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64,
    )  # fmt: skip
    other = "float32" if stored == "bfloat16" else "bfloat16"
    for name in (stored, other):
        LlamaForCausalLM(config).to(getattr(torch, name)).save_pretrained(tmp_path / name)
    baseline, variant = (ModelSpec(source=str(tmp_path / name)) for name in (stored, other))
    spec = toy_spec("toy_sums").model_copy(update={"baseline": baseline, "variants": (variant,), "device": "cpu"})
    found = [EmbeddedBackend(spec, model).identity().numerics for model in (baseline, variant)]
    assert all(numerics.startswith(stored) for numerics in found), found
    asked = spec.model_copy(update={"dtype": other})
    assert EmbeddedBackend(asked, variant).identity().numerics.startswith(other)
