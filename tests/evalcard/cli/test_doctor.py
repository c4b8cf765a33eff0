"""What ``evalcard doctor`` prints of good, mixed and broken checkpoints, and its exit codes."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from evalcard.cli.main import invoke
from evalcard.modelspec import ModelSpec
from evalcard.progress import Silent
from evalcard.quantize import Job, quantize


@pytest.fixture
def compressed(tiny_model: Path, tmp_path: Path) -> Callable[..., Path]:
    def make(scheme: str = "w4a16-g32", *ignore: str) -> Path:
        out = tmp_path / "compressed"
        quantize(Job(ModelSpec(source=str(tiny_model)), scheme, out, ignore=ignore), Silent())
        return out

    return make


def change(folder: Path, alter: Callable[[dict[str, torch.Tensor]], None]) -> None:
    tensors = load_file(folder / "model.safetensors")
    alter(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def test_layers_by_kind(compressed: Callable[..., Path], capsys: pytest.CaptureFixture[str]):
    folder = compressed("w8a8", "re:.*layers.1.*down_proj")
    assert invoke(["doctor", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{folder}: llama, compressed-tensors, compressed"
    assert lines[1].endswith("bits per weight of the decoder's linears, scales included")
    table = {line.split("  ")[0]: line.split() for line in lines[3:] if line and not line.startswith(" ")}
    assert table["q_proj"][1:6] == ["2", "w8a8", "(int8,", "per", "channel)"]
    assert table["q_proj"][-1] == "8.50"  # a float32 scale for 64 weights
    assert "int8 per token, dynamic" in next(line for line in lines if line.startswith("q_proj"))
    downs = [line.split() for line in lines if line.startswith("down_proj")]
    assert [row[1:4] for row in downs] == [["1", "of", "2"]] * 2 and "F32" in downs[1]
    assert "    model.layers.1.mlp.down_proj" in lines
    assert lines[-1] == "In full precision: embed_tokens, down_proj (1 of 2), lm_head, norms and biases."


def test_an_uncompressed_model(tiny_model: Path, capsys: pytest.CaptureFixture[str]):
    assert invoke(["doctor", str(tiny_model)]) == 0
    out = capsys.readouterr().out
    assert "safetensors, not compressed" in out and "32.00 bits per weight" in out and "In full precision" not in out


def test_rounding_is_no_finding(compressed: Callable[..., Path], tiny_model: Path, capsys: pytest.CaptureFixture[str]):
    assert invoke(["doctor", str(compressed()), "--against", str(tiny_model), "-q"]) == 0
    out = capsys.readouterr().out
    assert "the worst 10 of" in out and "Every weight is as close to the baseline's" in out
    errors = [float(line.split()[1]) for line in out.splitlines() if line.startswith("model.layers.")]
    assert len(errors) == 10 and errors == sorted(errors, reverse=True) and 0.05 < errors[0] < 0.3


def test_a_wrong_packing_is_said_in_words(
    compressed: Callable[..., Path], tiny_model: Path, capsys: pytest.CaptureFixture[str]
):
    folder, name = compressed(), "model.layers.1.mlp.up_proj"

    def turn(tensors: dict[str, torch.Tensor]) -> None:
        tensors[f"{name}.weight_packed"] = tensors[f"{name}.weight_packed"].flip(1).contiguous()

    change(folder, turn)
    assert invoke(["doctor", str(folder), "--against", str(tiny_model), "-q"]) == 0
    lines = capsys.readouterr().out.splitlines()
    first = next(line for line in lines if line.startswith("model.layers.")).split()
    assert first[0] == name and float(first[1]) > 1 and abs(float(first[2])) < 0.2
    assert lines[-2].startswith(f"{name}: is another matrix: wrong packing")


def test_json_has_every_layer(compressed: Callable[..., Path], tiny_model: Path, capsys: pytest.CaptureFixture[str]):
    assert invoke(["doctor", str(compressed()), "--against", str(tiny_model), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["format"] == "compressed-tensors" and found["faults"] == []
    assert found["scheme"] == "compressed-tensors: w4a16 (int4, groups of 32)"
    assert {row["kind"]: row["count"] for row in found["kinds"]}["q_proj"] == 2
    differences = {one["name"]: one for one in found["differences"]}
    assert len(differences) == 14 + 2 + 5 and differences["lm_head"]["error"] == 0
    assert all(one["finding"] is None for one in differences.values())


def test_all_faults_and_exit_code_2(compressed: Callable[..., Path], capsys: pytest.CaptureFixture[str]):
    folder = compressed()

    def damage(tensors: dict[str, torch.Tensor]) -> None:
        del tensors["model.layers.0.mlp.up_proj.weight_scale"]
        tensors["model.layers.0.mlp.down_proj.weight_scale"][0, 0] = float("nan")
        tensors["model.vision.weight"] = torch.zeros(3)

    change(folder, damage)
    for flags in ([], ["--json"], ["--against", str(folder)]):
        assert invoke(["doctor", str(folder), *flags]) == 2
        said = capsys.readouterr()
        assert said.err.startswith("3 faults; this model is not evaluated as it is:\n- ")
        for part in ("up_proj: weight_scale missing", "down_proj: 1 of its weight scales", "model.vision.weight"):
            assert part in " ".join(said.err.split())
        assert "q_proj" in said.out and "Against" not in said.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/no/such"], "there is no folder"),
        (["MODEL:w8a8"], "is in none"),
        (["MODEL", "--against", "/no"], "no folder"),
    ],
)
def test_what_cannot_be_looked_into(
    tiny_model: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
):
    assert invoke(["doctor", *(one.replace("MODEL", str(tiny_model)) for one in arguments)]) == 2
    assert message in capsys.readouterr().err
