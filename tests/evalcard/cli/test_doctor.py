"""What ``evalcard doctor`` prints of good, mixed and broken checkpoints, and its exit codes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from evalcard.backends.inspect import Difference, KindRow
from evalcard.cli.doctor import _compared, _table
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
    summary = " ".join(line.strip() for line in lines[: lines.index("")])
    assert summary.startswith(f"{folder}: llama, compressed-tensors, compressed ")
    assert summary.endswith("bits per weight of the decoder's linears, scales included")
    body = lines[lines.index("") + 1 :]
    table = {line.split("  ")[0]: line.split() for line in body if line and not line.startswith(" ")}
    assert table["q_proj"][1:6] == ["2", "w8a8", "(int8,", "per", "channel)"]
    assert table["q_proj"][-1] == "8.50"  # a float32 scale for 64 weights
    assert "int8 per token, dynamic" in next(line for line in lines if line.startswith("q_proj"))
    downs = [line.split() for line in lines if line.startswith("down_proj")]
    assert [row[1:4] for row in downs] == [["1", "of", "2"]] * 2 and "F32" in downs[1]
    assert "    model.layers.1.mlp.down_proj" in lines
    assert lines[-1] == "In full precision: embed_tokens, down_proj (1 of 2), lm_head, norms and biases."


def test_an_uncompressed_model(tiny_model: Path, capsys: pytest.CaptureFixture[str]):
    assert invoke(["doctor", str(tiny_model)]) == 0
    out = " ".join(capsys.readouterr().out.split())
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
        for part in (
            "up_proj: weight_scale missing",
            "down_proj: its weight scales are not all finite",
            "model.vision.weight",
        ):
            assert part in " ".join(said.err.split())
        assert "q_proj" in said.out and "Against" not in said.out


def test_strange_scales_are_noted(compressed: Callable[..., Path], capsys: pytest.CaptureFixture[str]):
    folder = compressed()
    assert invoke(["doctor", str(folder)]) == 0 and "Note" not in capsys.readouterr().out

    def damage(tensors: dict[str, torch.Tensor]) -> None:
        tensors["model.layers.0.mlp.down_proj.weight_scale"][0, 0] = 0
        for layer in (0, 1):
            tensors[f"model.layers.{layer}.mlp.up_proj.weight_scale"][1, 0] *= -1

    change(folder, damage)
    assert invoke(["doctor", str(folder)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Note: some of its scales are negative (2): model.layers.0.mlp.up_proj, model.layers.1.mlp.up_proj." in said
    assert "Note: model.layers.0.mlp.down_proj: some of its scales are 0" in said
    assert invoke(["doctor", str(folder), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["notes"]) == 2


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


def long_row(**changes: Any) -> KindRow:
    facts = {"kind": "q_proj_of_a_rather_long_name", "count": 1, "of": 64, "is_compressed": True,
             "stored": "nvfp4 (fp4_e2m1, groups of 16, fp8_e4m3 scales, one more scale of the whole tensor)",
             "inputs": "fp4_e2m1 in groups of 16, static, scales are powers of two", "bits_per_weight": 4.5,
             "names": ("model.language_model.layers.0.block_sparse_mixture.experts.12.gate_up_project",)}  # fmt: skip
    return KindRow(**{**facts, **changes})


def test_tables_fit_80_columns_and_lose_nothing():
    lines = list(_table([long_row(), long_row(kind="k_proj", count=64)]))
    assert max(map(len, lines)) <= 80
    column = slice(lines[0].index("Stored"), lines[0].index("Inputs"))
    stored = " ".join(line[column].strip() for line in lines[1:] if not line.startswith("    model")).split()
    assert " ".join(stored).count("scale of the whole tensor)") == 2
    named = "".join(line.strip() for line in lines if line.startswith("    "))
    assert long_row().names[0] in named
    assert [line.split()[-1] for line in lines if line.endswith("4.50")] == ["4.50"] * 2


def test_a_table_that_fits_is_not_wrapped():
    row = long_row(kind="q_proj", stored="w8a8 (int8, per channel)", inputs="int8 per token, dynamic", count=64)
    assert len(list(_table([row]))) == 2


def test_long_layer_names_of_the_comparison_wrap_at_their_parts():
    name = long_row().names[0]
    lines = list(_compared([Difference(name, (8, 8), None, 4, 0.05, 0.25, 1.0, 0.05)], "/somewhere/" + "x" * 30))
    assert max(map(len, lines)) <= 80
    at = next(n for n, line in enumerate(lines) if line.startswith("Layer")) + 1
    assert lines[at].split()[1:] == ["0.0500", "0.250"] and lines[at].split()[0][-1] in "._"
    assert name == lines[at].split()[0] + lines[at + 1]
