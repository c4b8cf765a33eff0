"""Every parameter filled, every tensor claimed, all faults at once."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from evalcard_engine.checkpoint.claiming import claim_all, examine
from evalcard_engine.checkpoint.claims import Claims, ModuleClaim, Plain, Quantized
from evalcard_engine.checkpoint.plain import PlainFormat
from evalcard_engine.checkpoint.reading import TensorReader
from evalcard_engine.checkpoint.source import Checkpoint, open_checkpoint
from evalcard_engine.errors import EngineError
from evalcard_engine.families import FAMILIES

LLAMA = FAMILIES["llama"]
TENSORS = {"model.a.weight": torch.arange(6.0).view(2, 3), "lm_head.weight": torch.ones(4).bfloat16()}
WANTED = {"model.a.weight": (2, 3), "lm_head.weight": (4,)}


def checkpoint(folder: Path, tensors: dict[str, torch.Tensor] = TENSORS, **config: object) -> Checkpoint:
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", **config}))
    for file in folder.glob("*.safetensors"):
        file.unlink()
    save_file(tensors, folder / "model.safetensors")
    return open_checkpoint(str(folder))


def claim(opened: Checkpoint, wanted: dict[str, tuple[int, ...]], tied: dict[str, str] | None = None) -> Claims:
    matrices = {name.removesuffix(".weight"): shape for name, shape in wanted.items() if len(shape) == 2}
    return claim_all(opened, LLAMA, PlainFormat(), wanted, matrices, tied or {})


def test_all_is_claimed_and_read(tmp_path: Path) -> None:
    opened = checkpoint(tmp_path, {**TENSORS, "model.layers.0.rotary_emb.inv_freq": torch.ones(3)})
    found, reader = claim(opened, WANTED), TensorReader(opened)
    for name, expected in TENSORS.items():
        source = found.sources[name]
        assert isinstance(source, Plain) and torch.equal(reader[source.tensor], expected)


def test_missing_left_over_and_misshapen_are_all_named_at_once(tmp_path: Path) -> None:
    opened = checkpoint(tmp_path, {"model.a.weight": torch.ones(3, 2), "model.b.weight": torch.ones(1)})
    with pytest.raises(EngineError) as caught:
        claim(opened, WANTED)
    message = str(caught.value)
    assert "missing (1): lm_head.weight" in message
    assert "not part of the model (1): model.b.weight" in message
    assert "model.a.weight [3, 2] for [2, 3]" in message


def test_tied_parameters_share_the_tensor_that_is_there(tmp_path: Path) -> None:
    wanted = {"model.embed.weight": (4,), "lm_head.weight": (4,)}
    tied = {"lm_head.weight": "model.embed.weight"}
    for name in wanted:
        opened = checkpoint(tmp_path, {name: torch.ones(4)})
        assert claim(opened, wanted, tied).sources == dict.fromkeys(wanted, Plain(name))
    both = checkpoint(tmp_path, {"model.embed.weight": torch.ones(4), "lm_head.weight": torch.zeros(4)})
    assert claim(both, wanted, tied).sources == {name: Plain(name) for name in wanted}
    with pytest.raises(EngineError, match="missing \\(2\\)"):
        claim(checkpoint(tmp_path, {"other": torch.ones(4)}), wanted, tied)


def test_other_dtypes_are_refused(tmp_path: Path) -> None:
    opened = checkpoint(tmp_path, {"model.a.weight": torch.ones(2, 3, dtype=torch.int8)})
    with pytest.raises(EngineError, match="model.a.weight is of the type I8, not one of F32, BF16, F16"):
        claim(opened, {"model.a.weight": (2, 3)})


class Packed:
    """A format of packed matrices with one scale each, which is what it checks."""

    name = "packed"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def module(self, name: str, shape: tuple[int, int], parts: Mapping[str, object]) -> ModuleClaim:
        faults = () if "scale" in parts else (f"{name}: scale missing",)
        return ModuleClaim(Quantized({"codes": f"{name}.codes", "scale": f"{name}.scale"}, "w8", lambda found: None,
                                     check=lambda found: self._check(name, found)),
                           frozenset(parts) - {"weight"}, faults)  # type: ignore[arg-type]  # fmt: skip

    def _check(self, name: str, found: Mapping[str, torch.Tensor]) -> list[str]:
        self.asked.append(name)
        return [f"{name}: scale is wrong"] if float(found["scale"]) != 1 else []

    def extras(self, name: str, parts: Mapping[str, object]) -> ModuleClaim:
        return ModuleClaim(None)


def matrix(name: str, scale: float) -> dict[str, torch.Tensor]:
    return {f"{name}.codes": torch.ones(2, 3), f"{name}.scale": torch.tensor(scale)}


def test_values_are_checked_once_and_told_in_the_order_of_numbers(tmp_path: Path) -> None:
    """With all other faults; a tied matrix is looked at once, and what lacks a part not at all."""
    names = [f"model.layers.{number}.up" for number in (10, 9, 2)]
    tensors = {key: one for name in names for key, one in matrix(name, 2.0).items()}
    tensors |= matrix("model.embed", 1.0) | {"model.layers.0.up.codes": torch.ones(2, 3)}
    opened, fmt = checkpoint(tmp_path, tensors), Packed()
    wanted = {f"{name}.weight": (2, 3) for name in (*names, "model.layers.0.up", "model.embed", "lm_head")}
    matrices = {name.removesuffix(".weight"): shape for name, shape in wanted.items()}
    tied = {"lm_head.weight": "model.embed.weight"}
    claims, faults = examine(opened, LLAMA, fmt, wanted, matrices, tied)
    assert faults == [
        "model.layers.0.up: scale missing",
        "scale is wrong (3): model.layers.2.up, model.layers.9.up, model.layers.10.up",
    ]
    assert sorted(fmt.asked) == sorted([*names, "model.embed"]) and claims.sources.keys() == wanted.keys()


def test_a_weight_that_is_stored_twice_is_a_fault(tmp_path: Path) -> None:
    tensors = matrix("model.layers.1.up", 1.0) | {"model.layers.1.up.weight": torch.zeros(2, 3)}
    tensors |= matrix("model.layers.0.up", 1.0)
    wanted = {f"model.layers.{number}.up.weight": (2, 3) for number in (0, 1)}
    matrices = {name.removesuffix(".weight"): shape for name, shape in wanted.items()}
    _, faults = examine(checkpoint(tmp_path, tensors), LLAMA, Packed(), wanted, matrices, {})
    assert faults == ["model.layers.1.up: its weight is stored twice, compressed and as weight"]


def test_modules_with_a_part_in_a_lost_file_have_no_other_faults(tmp_path: Path) -> None:
    tensors = matrix("model.a", 2.0) | {"model.b.codes": torch.ones(2, 3), "model.x": torch.ones(1)}
    opened = replace(checkpoint(tmp_path, tensors), faults=("y is missing",),
                     absent=frozenset({"model.b.scale", "model.embed.codes", "model.embed.scale"}))  # fmt: skip
    wanted = {f"model.{name}.weight": (2, 3) for name in ("a", "b", "embed")} | {"lm_head.weight": (2, 3)}
    matrices = {name.removesuffix(".weight"): shape for name, shape in wanted.items()}
    faults = examine(opened, LLAMA, Packed(), wanted, matrices, {"lm_head.weight": "model.embed.weight"})[1]
    assert faults == ["y is missing", "model.a: scale is wrong", "tensors not part of the model (1): model.x"]
    unknown = examine(replace(opened, absent=None), LLAMA, Packed(), wanted, matrices, {})[1]
    assert unknown == ["y is missing"]
