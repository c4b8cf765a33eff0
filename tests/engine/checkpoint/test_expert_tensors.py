"""Shares of tensors that hold all experts: names, shapes and bytes, and what is left alone."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from evalcard_engine.checkpoint.expert_tensors import Fused, num_experts_of, separate
from evalcard_engine.checkpoint.reading import TensorReader, read_raw
from evalcard_engine.checkpoint.source import Checkpoint
from evalcard_engine.checkpoint.tensor_files import read_header

ROWS = Fused(r"(?P<layer>.*\.experts)\.gate_up", ("gate.weight", "up.weight"))
TURNED = Fused(r"(?P<layer>.*\.experts)\.turned", ("gate.weight", "up.weight"), is_turned=True)
BIAS = Fused(r"(?P<layer>.*\.experts)\.down_bias", ("down.bias",))


def checkpoint(folder: Path, absent: frozenset[str] | None = frozenset(), **tensors: torch.Tensor) -> Checkpoint:
    file = folder / "model.safetensors"
    save_file({name.replace("__", "."): tensor for name, tensor in tensors.items()}, file)
    return Checkpoint("m", folder, {}, read_header(file), absent=absent)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8])
def test_shares_are_the_parts_of_the_tensor(tmp_path: Path, dtype: torch.dtype) -> None:
    whole = torch.arange(3 * 8 * 5).reshape(3, 8, 5).to(dtype)
    columns = torch.arange(3 * 5 * 8).reshape(3, 5, 8).to(dtype)
    found = checkpoint(tmp_path, m__experts__gate_up=whole, m__experts__turned=columns, m__norm=whole[0].clone())
    apart = separate(found, (ROWS, BIAS), None)
    names = {f"m.experts.{expert}.{part}.weight" for expert in range(3) for part in ("gate", "up")}
    assert set(apart.tensors) == names | {"m.experts.turned", "m.norm"}
    reader = TensorReader(apart)
    for expert in range(3):
        gate, up = (reader[f"m.experts.{expert}.{part}.weight"] for part in ("gate", "up"))
        assert torch.equal(gate, whole[expert, :4]) and torch.equal(up, whole[expert, 4:])
    place = apart.tensors["m.experts.2.up.weight"]
    assert place.shape == (4, 5) and place.num_bytes == 20 * dtype.itemsize
    raw = read_raw("m.experts.2.up.weight", place)
    assert torch.equal(raw, whole[2, 4:].contiguous().view(torch.uint8).reshape(-1))
    turned = TensorReader(separate(found, (TURNED,), None))["m.experts.1.up.weight"]
    assert turned.shape == (4, 5) and torch.equal(turned, columns[1, :, 4:].t())


def test_vectors_of_experts(tmp_path: Path) -> None:
    bias = torch.arange(6.0).reshape(2, 3)
    apart = separate(checkpoint(tmp_path, m__experts__down_bias=bias), (BIAS,), None)
    reader = TensorReader(apart)
    assert [reader[f"m.experts.{expert}.down.bias"].tolist() for expert in range(2)] == bias.tolist()


def test_what_cannot_be_cut_is_left_for_the_claims_to_find(tmp_path: Path) -> None:
    found = checkpoint(tmp_path, m__experts__gate_up=torch.ones(3, 7, 5), n__experts__down_bias=torch.ones(3))
    assert separate(found, (ROWS, BIAS), None).tensors == found.tensors
    assert separate(found, (), None) is found


def test_tensors_in_missing_files_are_named_as_their_shares(tmp_path: Path) -> None:
    found = checkpoint(tmp_path, frozenset({"m.experts.gate_up", "m.norm"}), x=torch.ones(1))
    wanted = {"m.norm", *(f"m.experts.{expert}.{part}.weight" for expert in (0, 1) for part in ("gate", "up"))}
    assert separate(found, (ROWS,), 2).absent == wanted
    assert separate(checkpoint(tmp_path, None, x=torch.ones(1)), (ROWS,), 2).absent is None


def test_the_number_of_experts_by_any_of_its_names() -> None:
    assert [num_experts_of({name: 8}) for name in ("num_experts", "num_local_experts", "n_routed_experts")] == [8] * 3
    assert num_experts_of({"num_experts": None}) is None
