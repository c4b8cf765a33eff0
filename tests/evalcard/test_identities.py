"""What is wrong with several models of one run is one list."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from evalcard.backends.backend import Identity
from evalcard.cli.main import invoke
from evalcard.errors import UserError
from evalcard.identities import Identified
from evalcard.modelspec import ModelSpec


class Fake:
    def __init__(self, answer: Identity | UserError) -> None:
        self._answer = answer

    def identity(self) -> Identity:
        if isinstance(self._answer, UserError):
            raise self._answer
        return self._answer


GOOD = Identity("digest", "numerics", None)
MODELS = [ModelSpec(source="/models/a"), ModelSpec(source="/models/b"), ModelSpec(source="/models/a", scheme="w8a8")]


def refusal(*answers: Any) -> UserError:
    with pytest.raises(UserError) as caught:
        Identified(MODELS, [Fake(one) for one in answers]).take()  # type: ignore[misc]
    return caught.value


def test_all_are_named_in_their_order():
    names = [Identity(f"digest {n}", "numerics", None) for n in range(3)]
    assert Identified(MODELS, [Fake(one) for one in names]).take() == names  # type: ignore[misc]


class Slow(Fake):
    """Knows its identity once it is told to."""

    is_ready = False

    def is_identified(self) -> bool:
        return self.is_ready


def test_what_comes_meanwhile_is_taken_and_nothing_is_waited_for():
    names = [Identity(f"digest {n}", "numerics", None) for n in range(3)]
    backends = [Fake(names[0]), Slow(names[1]), Fake(names[2])]
    identified = Identified(MODELS, backends)  # type: ignore[arg-type]
    identified.take_known()
    assert identified.take() == names


def test_a_refusal_is_said_once_all_models_are_known():
    slow = Slow(UserError("/models/b has no config.json."))
    identified = Identified(MODELS, [Fake(UserError("/models/a: x.")), slow, Fake(GOOD)])  # type: ignore[list-item]
    identified.take_known()
    slow.is_ready = True
    with pytest.raises(UserError, match="2 models of this run are refused"):
        identified.take_known()


def test_one_refusal_is_said_as_it_is():
    error = UserError("/models/b has no config.json.")
    assert refusal(GOOD, error, GOOD) is error


def test_faults_of_several_models_are_one_list_and_each_names_its_model():
    broken = UserError("/models/a cannot be loaded: x; y. Fetch it.", ("q_proj: x", "q_proj: y"), "Fetch it.")
    absent = UserError("there is no folder /models/b.")
    error = refusal(broken, absent, UserError(str(broken), broken.faults, broken.advice))
    assert error.faults == ("a: q_proj: x", "a: q_proj: y", "there is no folder /models/b")
    assert error.advice == "Fetch it." and str(error).startswith("2 models of this run are refused: a: q_proj: x; ")


def test_from_the_command_line(tiny_model: Path, toys: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A baseline without layers and a compressed model of an unknown family, before anything is evaluated."""
    for name, change in {"first": {"num_hidden_layers": 0}, "second": {"model_type": "mamba9"}}.items():
        shutil.copytree(tiny_model, tmp_path / name)
        config = tmp_path / name / "config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), **change}))
    (tmp_path / "second" / "model.safetensors").write_bytes(b"")
    flags = ["--tasks", toys.path("toy_shapes"), "--data-root", str(toys.data_root), "--out", str(tmp_path / "out")]
    models = ["--baseline", str(tmp_path / "first"), "--compressed", str(tmp_path / "second")]
    assert invoke(["run", *models, "--sweep", "w8a8", *flags]) == 2
    head, *faults = [line for line in capsys.readouterr().err.splitlines() if line.startswith(("Error", "- "))]
    assert head == "Error: 2 models of this run are refused:"
    assert len(faults) == 3 and "num_hidden_layers" in faults[0] and "first" in faults[0]
    assert all("second" in fault for fault in faults[1:])
    assert not (tmp_path / "out").exists()
