"""Any model of the harness as a backend."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalcard.backends import harness
from evalcard.backends.backend import Decoding, GenerateRequest, Item, ScoreRequest
from evalcard.backends.harness import HarnessBackend, digest_folder, generation_arguments, model_arguments
from evalcard.errors import UserError

GREEDY = Decoding(8, ("Q:", "</s>"))


class FakeLM:
    """Scores by length of the continuation, answers with the prompt's last word, notes each call."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[Any]]] = []

    def _note(self, kind: str, requests: list[Any]) -> list[Any]:
        self.calls.append((kind, [one.args for one in requests]))
        return [one.args for one in requests]

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[Any]:
        return [(-float(len(text)), len(text) == 2) for _, text in self._note("score", requests)]

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[Any]:
        return [-float(len(text)) for (text,) in self._note("rolling", requests)]

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[Any]:
        return [prompt.split()[-1] for prompt, _ in self._note("generate", requests)]


def score(item_id: int, *texts: str) -> Item:
    return Item("t", item_id, "h", 0, "p", tuple(ScoreRequest("ctx", text, (1,), (2,) * len(text)) for text in texts))


def generate(item_id: int, prompt: str, decoding: Decoding = GREEDY) -> Item:
    return Item("t", item_id, "h", 0, "p", (GenerateRequest(prompt, (1,), (9,), decoding),))


@pytest.fixture
def backend(toy_spec: Callable) -> Callable[..., Any]:
    def make(lm: Any, **changes: Any) -> HarnessBackend:
        spec = toy_spec("toy_sums", backend="hf", **changes)
        made = HarnessBackend(spec, spec.baseline)
        made._lm = lm
        return made

    return make


def test_kinds_are_called_apart_and_answers_find_their_items(backend: Callable):
    lm, order, found = FakeLM(), [], {}
    items = [score(0, " A", "  B"), generate(1, "say yes"), score(2, " A", " B"), generate(3, "say no")]
    windows = (ScoreRequest("", "whole text", (0,), (1, 2)), ScoreRequest("", "", (2,), (3,)))
    items.append(Item("t", 4, "h", 0, "p", windows, is_rolling=True))

    def on_answer(item: Item, answer: Any) -> None:
        order.append(item.item_id)
        found[item.item_id] = answer

    backend(lm).answer(items, on_answer)
    assert [kind for kind, _ in lm.calls] == ["score", "generate", "rolling"] and sorted(order) == [0, 1, 2, 3, 4]
    assert [(c.logprob, c.tokens, c.is_greedy) for c in found[0].choices] == [(-2.0, 2, True), (-3.0, 3, False)]
    assert found[1].text == "yes" and found[3].text == "no" and found[1].finish == "stop"
    assert sum(c.logprob for c in found[4].choices) == -10.0 and [c.tokens for c in found[4].choices] == [2, 1]
    assert lm.calls[2][1] == [("whole text",)]


def test_finished_chunks_are_told_at_once(backend: Callable, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(harness, "_CHUNK_ITEMS", 2)
    lm, told = FakeLM(), []

    class Breaks(FakeLM):
        def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[Any]:
            if len(self.calls) == 2:
                raise KeyboardInterrupt
            return super().generate_until(requests)

    lm = Breaks()
    with pytest.raises(KeyboardInterrupt):
        backend(lm).answer([generate(i, f"say {i}") for i in range(6)], lambda item, answer: told.append(item.item_id))
    assert told == [0, 1, 2, 3]


def test_an_answer_as_long_as_it_may_be_was_cut(backend: Callable):
    found = []
    items = [generate(0, "say abcdefghijklmnop", Decoding(2, ())), generate(1, "say a", Decoding(2, ()))]
    backend(FakeLM()).answer(items, lambda item, answer: found.append((answer.finish, answer.output_tokens >= 2)))
    assert found == [("length", True), ("stop", False)]


def test_logits_that_were_not_finite(backend: Callable):
    class Broken(FakeLM):
        def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[Any]:
            return [(float("nan"), False)] * len(requests)

    found = []
    backend(Broken()).answer([score(0, " A")], lambda item, answer: found.append(answer))
    assert found[0].finish == "error" and found[0].choices[0].logprob is None


def test_answers_missing(backend: Callable):
    class Short(FakeLM):
        def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[Any]:
            return super().loglikelihood(requests)[1:]

    with pytest.raises(AssertionError, match="differ in number"):
        backend(Short()).answer([score(0, " A", " B")], lambda *_: None)


def test_greedy_is_said_outright():
    request = GenerateRequest("q", (1,), (9,), GREEDY)
    assert generation_arguments(request) == {
        "until": ["Q:", "</s>"], "max_gen_toks": 8, "do_sample": False, "temperature": 0.0}  # fmt: skip
    sampled = GenerateRequest("q", (1,), (9,), Decoding(8, (), 0.6, top_p=0.9, top_k=4))
    assert generation_arguments(sampled) == {
        "until": [], "max_gen_toks": 8, "do_sample": True, "temperature": 0.6, "top_p": 0.9, "top_k": 4}  # fmt: skip


class TestArguments:
    def test_a_folder(self, toy_spec: Callable, tokenizer_folder: Path):
        spec = toy_spec("toy_sums", backend="hf", dtype="float32", max_model_len=99, model_args={"batch_size": "4"})
        assert model_arguments(spec, spec.baseline) == {
            "pretrained": str(tokenizer_folder), "dtype": "float32", "max_length": 99, "batch_size": 4}  # fmt: skip

    def test_a_server(self, toy_spec: Callable):
        url = "http://localhost:8000/v1/completions"
        spec = toy_spec("toy_sums", backend="local-completions", baseline={"source": url, "args": {"model": "m"}})
        assert model_arguments(spec, spec.baseline) == {"base_url": url, "model": "m"}

    def test_given_arguments_win(self, toy_spec: Callable):
        spec = toy_spec("toy_sums", backend="vllm", model_args={"pretrained": "x/y", "enforce_eager": "true"})
        assert model_arguments(spec, spec.baseline) == {"pretrained": "x/y", "enforce_eager": True}


def test_what_is_refused(toy_spec: Callable, tokenizer_folder: Path):
    spec = toy_spec("toy_sums", backend="vllmm")
    with pytest.raises(UserError, match="unknown backend 'vllmm'. Known: evalcard, .*hf"):
        HarnessBackend(spec, spec.baseline)
    spec = toy_spec("toy_sums", backend="hf", compressed=[f"{tokenizer_folder}:w8a8"])
    with pytest.raises(UserError, match="own engine only"):
        HarnessBackend(spec, spec.compressed[0])


def test_digest_of_a_folder(tmp_path: Path):
    assert digest_folder(tmp_path) is None
    (tmp_path / "config.json").write_text("{}")
    assert digest_folder(tmp_path) is None
    (tmp_path / "model.safetensors").write_bytes(b"abc")
    first = digest_folder(tmp_path)
    (tmp_path / "README.md").write_text("words")
    assert digest_folder(tmp_path) == first
    (tmp_path / "model.safetensors").write_bytes(b"abd")
    assert digest_folder(tmp_path) not in (first, None)


def test_the_hf_model_and_our_engine_agree(tiny_model: Path, toys: Any, tmp_path: Path):
    """Both backends, one random model, the same tasks: equal verdicts, log-probabilities to rounding."""
    pytest.importorskip("accelerate")
    from evalcard.backends.embedded import EmbeddedBackend
    from evalcard.evaluate import evaluate
    from evalcard.results.store import RunFolder
    from evalcard.spec import make_spec
    from evalcard.tasks.prepare import prepare

    names = [toys.path(name) for name in ("toy_mc", "toy_sums", "toy_texts")]
    common = {"baseline": str(tiny_model), "tasks": names, "data_root": str(toys.data_root), "limit_per_subtask": 4}
    common |= {"dtype": "float32", "device": "cpu"}
    runs = []
    for name, kind in (("hf", HarnessBackend), ("evalcard", EmbeddedBackend)):
        spec = make_spec(common | {"backend": name})
        with RunFolder.open(tmp_path, name) as folder:
            backend = kind(spec, spec.baseline)
            runs.append(evaluate(spec, spec.baseline, "m", prepare(spec), backend, folder))
            backend.close()
    theirs, ours = runs
    assert theirs.model.weights_digest and ours.verdicts.keys() == theirs.verdicts.keys()
    for task, samples in ours.samples.items():
        for one, other in zip(samples, theirs.samples[task], strict=True):
            assert one.text == other.text and one.prompt_hash == other.prompt_hash
            sums = [sum(choice.logprob for choice in sample.choices or []) for sample in (one, other)]
            assert sums[0] == pytest.approx(sums[1], abs=2e-3)
        outcomes = [[verdict.outcome for verdict in run.verdicts[task]] for run in runs]
        assert task == "toy_sums" or outcomes[0] == outcomes[1]
