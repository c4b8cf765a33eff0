"""The engine in a process of its own: the same answers as in this one, and what happens when either process ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evalcard.backends.apart import ApartBackend
from evalcard.backends.backend import Decoding, GenerateRequest, Item, ItemAnswer, ScoreRequest
from evalcard.backends.choice import make_backends
from evalcard.backends.embedded import EmbeddedBackend
from evalcard.backends.engine_process import SWITCH, EngineFault, EngineProcess, pays
from evalcard.errors import Interrupted, UserError
from evalcard.progress import Silent
from evalcard.spec import RunSpec, make_spec

ITEMS = [
    Item("t", 0, "ab" * 32, 0, "p", tuple(ScoreRequest("c", "x", (1, 2), (3 + i,) * (i + 1)) for i in range(3))),
    Item("t", 1, "cd" * 32, 0, "p", (GenerateRequest("q", (1, 2, 5), (1,), Decoding(8, ())),)),
    Item("t", 2, "ef" * 32, 1, "p", (GenerateRequest("q", (4, 2), (1,), Decoding(8, (), 0.8, 0.9, seed=3)),)),
]
ENDLESS = [Item("t", 9, "ab" * 32, 0, "p", (GenerateRequest("q", (1, 2), (), Decoding(400, ())),))]


class Lines(Silent):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture
def spec(tiny_model: Path) -> RunSpec:
    given = {"tasks": "t", "device": "cpu", "dtype": "float32"}
    return make_spec(given | {"baseline": str(tiny_model), "compressed": [f"{tiny_model}:w8a8"]})


@pytest.fixture
def process() -> Iterator[EngineProcess]:
    made = EngineProcess(Lines())
    yield made
    made.close()


def answered(backend: Any, items: list[Item] = ITEMS) -> dict[int | str, ItemAnswer]:
    found: dict[int | str, ItemAnswer] = {}
    backend.answer(items, lambda item, answer: found.__setitem__(item.item_id, answer))
    return found


def untimed(answers: dict[int | str, ItemAnswer]) -> list[tuple[Any, ...]]:
    return [(key, one.finish, one.text, one.token_ids, one.choices) for key, one in sorted(answers.items())]


def test_answers_identities_and_facts_are_those_of_an_engine_in_this_process(spec: RunSpec, process: EngineProcess):
    apart = [ApartBackend(process, spec, model) for model in spec.models]
    here = [EmbeddedBackend(spec, model, lines := Lines()) for model in spec.models]
    assert [one.identity() for one in apart] == [one.identity() for one in here]
    for one, other in zip(apart, here, strict=True):
        assert one.facts() == {}
        assert untimed(answered(one)) == untimed(answered(other))
        assert one.facts() == other.facts() and one.facts()["num_parameters"]
        one.close()
    assert lines.said[0] in process._progress.said  # type: ignore[attr-defined]
    assert not process.is_running, "the last of the models ends it"


def test_two_models_that_answer_by_turns(spec: RunSpec, process: EngineProcess):
    """As those of a sequential run do: both stay open, and each answers what it would have answered alone."""
    apart = [ApartBackend(process, spec, model) for model in spec.models]
    found: list[dict[int | str, ItemAnswer]] = [{}, {}]
    for item in ITEMS:
        for one, answers in zip(apart, found, strict=True):
            answers |= answered(one, [item])
    for model, answers in zip(spec.models, found, strict=True):
        assert untimed(answers) == untimed(answered(EmbeddedBackend(spec, model)))


def test_another_process_is_told_of_the_model_again(spec: RunSpec, process: EngineProcess):
    backend = ApartBackend(process, spec, spec.baseline)
    backend.identity()
    before = answered(backend)
    backend.close()
    backend.close()
    assert untimed(answered(backend)) == untimed(before) and process.generation == 2


def test_nothing_is_sent_for_nothing(spec: RunSpec, process: EngineProcess):
    backend = ApartBackend(process, spec, spec.baseline)
    backend.answer([], lambda *_: None)
    assert backend.facts() == {}


def test_refusals_are_the_users_as_they_are(spec: RunSpec, process: EngineProcess, tmp_path: Path):
    unknown = spec.model_copy(update={"model_args": {"gpu": "1"}})
    backend = ApartBackend(process, unknown, spec.baseline)
    deadline = time.monotonic() + 60
    while not backend.is_identified() and time.monotonic() < deadline:
        time.sleep(0.05)
    with pytest.raises(UserError, match="no model argument gpu; it knows tokenizer"):
        backend.identity()
    too_long = [Item("t", 0, "ab" * 32, 0, "p", (GenerateRequest("q", (1,), (), Decoding(4000, ())),))]
    other = ApartBackend(process, spec, spec.baseline)
    with pytest.raises(UserError, match="512"):
        answered(other, too_long)
    assert len(answered(other)) == 3, "a refusal leaves the process as it was"


def test_faults_of_ours_bring_their_traceback(spec: RunSpec, process: EngineProcess):
    backend = ApartBackend(process, spec, spec.baseline)
    broken = [Item("t", 0, "not hexadecimal", 0, "p", (GenerateRequest("q", (1,), (), Decoding(4, (), 0.5)),))]
    with pytest.raises(EngineFault, match="(?s)Traceback.*embedded.py.*ValueError"):
        answered(backend, broken)


def test_what_goes_wrong_with_an_answer_ends_the_process(spec: RunSpec, process: EngineProcess):
    def full_disk(item: Item, answer: ItemAnswer) -> None:
        raise OSError(28, "No space left on device")

    backend = ApartBackend(process, spec, spec.baseline)
    with pytest.raises(OSError, match="No space left"):
        backend.answer(ITEMS, full_disk)
    assert not process.is_running
    backend.close()


@pytest.mark.parametrize(
    ("sent", "error", "said"),
    [(signal.SIGKILL, UserError, "ran out of memory.*resumes it"), (signal.SIGTERM, Interrupted, None)],
)
def test_a_process_that_is_killed(
    spec: RunSpec, process: EngineProcess, sent: signal.Signals, error: type[Exception], said: str | None
):
    backend = ApartBackend(process, spec, spec.baseline)
    backend.identity()
    assert process._process is not None
    os.kill(process._process.pid, sent)
    with pytest.raises(error, match=said):
        answered(backend, ENDLESS)
    assert not process.is_running
    backend.close()


ORPHAN = """
import sys
from evalcard.backends.apart import ApartBackend
from evalcard.backends.engine_process import EngineProcess
from evalcard.progress import Silent
from evalcard.spec import make_spec
from evalcard.backends.backend import Decoding, GenerateRequest, Item
ENDLESS = [Item("t", 9, "ab" * 32, 0, "p", (GenerateRequest("q", (1, 2), (), Decoding(400, ())),))]
spec = make_spec({"baseline": sys.argv[1], "tasks": "t", "device": "cpu", "dtype": "float32"})
process = EngineProcess(Silent())
backend = ApartBackend(process, spec, spec.baseline)
backend.identity()
print(process._process.pid, flush=True)
backend.answer(ENDLESS, lambda *_: None)
"""


def test_it_ends_with_the_process_that_started_it(tiny_model: Path):
    """Killed, so that nothing can be cleaned up; in the middle of an answer."""
    root = Path(__file__).parents[3]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *filter(None, sys.path)])}
    command = [sys.executable, "-c", ORPHAN, str(tiny_model)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env, cwd=root) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 30
    while _is_alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_alive(child)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_where_it_pays(monkeypatch: pytest.MonkeyPatch, toy_spec: Callable):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert not pays(), "torch is here already"
    monkeypatch.delitem(sys.modules, "torch")
    assert pays()
    monkeypatch.setenv(SWITCH, "0")
    assert not pays()
    assert isinstance(make_backends(toy_spec("toy_sums"), Silent())[0], EmbeddedBackend)
