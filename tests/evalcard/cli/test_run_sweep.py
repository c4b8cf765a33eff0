"""``--sweep`` from the command line to the plan."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalcard.cli.main import invoke


def test_each_scheme_becomes_a_model(toys: Any, tiny_model: Path, capsys: pytest.CaptureFixture[str]):
    flags = ["--baseline", str(tiny_model), "--tasks", toys.path("toy_shapes"), "--data-root", str(toys.data_root)]
    flags += ["--sweep", "FP8,w4a16-g32", "--compressed", f"{tiny_model}:w8a8", "--dry-run", "--json"]
    assert invoke(["run", *flags]) == 0
    name = tiny_model.name
    assert json.loads(capsys.readouterr().out)["models"] == [name, f"{name}-w8a8", f"{name}-fp8", f"{name}-w4a16-g32"]


def test_a_scheme_that_is_none(tiny_model: Path, capsys: pytest.CaptureFixture[str]):
    assert invoke(["run", "--baseline", str(tiny_model), "--tasks", "x", "--sweep", "fp8,w9a9"]) == 2
    assert "sweep: unknown scheme 'w9a9'" in capsys.readouterr().err
