"""Every parameter filled, every tensor claimed, all faults at once."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from evalcard_engine.checkpoint.claims import Claims, Plain, claim_all
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
