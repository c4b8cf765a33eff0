"""Models whose files are wrong, as ``evalcard run`` and ``evalcard doctor`` say it: one list, and exit code 2."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from evalcard.cli.main import invoke
from evalcard.modelspec import ModelSpec
from evalcard.progress import Silent
from evalcard.quantize import Job, quantize

UP, DOWN = "model.layers.0.mlp.up_proj", "model.layers.1.mlp.down_proj"


@pytest.fixture
def compressed(tiny_model: Path, tmp_path: Path) -> Callable[[Callable[[dict[str, torch.Tensor]], None]], Path]:
    """The tiny model as w4a16, its tensors changed."""

    def make(alter: Callable[[dict[str, torch.Tensor]], None]) -> Path:
        out = tmp_path / "compressed"
        quantize(Job(ModelSpec(source=str(tiny_model)), "w4a16-g32", out), Silent())
        tensors = load_file(out / "model.safetensors")
        alter(tensors)
        save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
        return out

    return make


def run(toys: Any, tmp_path: Path, baseline: Path, compressed: Path) -> int:
    return invoke([
        "run", "--baseline", str(baseline), "--compressed", str(compressed), "--tasks", toys.path("toy_shapes"),
        "--data-root", str(toys.data_root), "--out", str(tmp_path / "results"),
    ])  # fmt: skip


def spoil(tensors: dict[str, torch.Tensor]) -> None:
    for module in (UP, DOWN):
        tensors[f"{module}.weight_scale"][0, 0] = float("inf")
    tensors["model.vision.weight"] = torch.zeros(3)
    del tensors["model.norm.weight"]


def test_all_faults_before_the_baseline_is_evaluated(
    compressed: Callable[..., Path], toys: Any, tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = compressed(spoil)
    assert run(toys, tmp_path, tiny_model, folder) == 2
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        f"Error: {folder} cannot be loaded as it is:",
        f"- its weight scales are not all finite (2): {UP}, {DOWN}",
        "- tensors missing (1): model.norm.weight",
        "- tensors not part of the model (1): model.vision.weight",
        "Correct its config, fetch the model again, or compress it anew.",
    ]
    assert not said.out and not list((tmp_path / "results").rglob("*.jsonl"))


def test_a_baseline_that_is_wrong_is_refused_alike(
    compressed: Callable[..., Path], toys: Any, tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(toys, tmp_path, compressed(spoil), tiny_model) == 2
    assert "- tensors missing (1): model.norm.weight" in capsys.readouterr().err.splitlines()


def test_doctor_tells_the_same_in_80_columns(
    compressed: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["doctor", str(compressed(spoil))]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "3 faults; this model is not evaluated as it is:"
    assert sum(line.startswith("- ") for line in lines) == 3 and max(map(len, lines)) <= 80
    assert lines[-1] == "Correct its config, fetch the model again, or compress it anew."


def cut_off(folder: Path) -> str:
    os.truncate(folder / "model.safetensors", (folder / "model.safetensors").stat().st_size - 5)
    return "model.safetensors cannot be read as safetensors (it is cut off after"


def header_beyond_the_file(folder: Path) -> str:
    (folder / "model.safetensors").write_bytes((10**15).to_bytes(8, "little") + b"{}")
    return "its 10 bytes end before its header does"


def pointer(folder: Path) -> str:
    (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    return "git lfs pull"


def empty(folder: Path) -> str:
    (folder / "model.safetensors").write_bytes(b"")
    return "its 0 bytes end before its header does"


def pickled(folder: Path) -> str:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    return "Save the model with safetensors (save_pretrained does)"


@pytest.mark.parametrize("damage", [cut_off, header_beyond_the_file, pointer, empty, pickled])
@pytest.mark.parametrize("command", ["doctor", "run"])
def test_files_that_are_no_weights(
    command: str,
    damage: Callable[[Path], str],
    compressed: Callable[..., Path],
    toys: Any,
    tiny_model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = compressed(lambda tensors: None)
    expected = damage(folder)
    code = invoke(["doctor", str(folder)]) if command == "doctor" else run(toys, tmp_path, tiny_model, folder)
    said = " ".join(capsys.readouterr().err.split())
    assert code == 2 and expected in said, said


def test_strange_scales_are_said_before_a_run(
    compressed: Callable[..., Path], toys: Any, tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def turn(tensors: dict[str, torch.Tensor]) -> None:
        tensors[f"{UP}.weight_scale"][0, 0] *= -1

    assert run(toys, tmp_path, tiny_model, compressed(turn)) == 0
    assert f"{UP}: some of its scales are negative" in " ".join(capsys.readouterr().err.split())
