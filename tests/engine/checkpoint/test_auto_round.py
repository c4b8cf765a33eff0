"""AutoRound's format: GPTQ's and AWQ's layouts under its own names, settings by layer."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from evalcard_engine.checkpoint.claiming import claim_all
from evalcard_engine.checkpoint.claims import Claims, Plain, Quantized
from evalcard_engine.checkpoint.formats import format_of
from evalcard_engine.checkpoint.reading import TensorReader
from evalcard_engine.checkpoint.source import open_checkpoint
from evalcard_engine.errors import EngineError
from evalcard_engine.families import FAMILIES
from evalcard_engine.quant.weight import QuantizedWeight

UP, DOWN, HEAD = "model.layers.0.mlp.up_proj", "model.layers.0.mlp.down_proj", "lm_head"
CONFIG = {"quant_method": "auto-round", "bits": 4, "group_size": 16, "sym": False, "data_type": "int",
          "autoround_version": "0.13.0", "iters": 200}  # fmt: skip
GPTQ, AWQ = (0, 1, 2, 3, 4, 5, 6, 7), (0, 2, 4, 6, 1, 3, 5, 7)
"""Which of eight codes each nibble of a word holds, from the low end."""


def words(codes: list[int], bits: int, order: tuple[int, ...]) -> list[int]:
    """As signed 32-bit words of 4-bit codes in an order, or of 8-bit codes as they stand."""
    count = 32 // bits
    found = []
    for start in range(0, len(codes), count):
        places = order if bits == 4 else range(count)
        value = sum(codes[start + place] << bits * nibble for nibble, place in enumerate(places))
        found.append(value - 2**32 if value >= 2**31 else value)
    return found


def weight(seed: int, out: int, groups: int, stored_zero: int, order: tuple[int, ...] = GPTQ, bits: int = 4) -> Any:
    """(parts, codes, scales) of a weight [out, 64] whose zero points are all stored as one number."""
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 2**bits, (out, 64), generator=generator)
    scales = (torch.rand(out, groups, generator=generator) - 0.5).half()
    zeros = [[stored_zero] * out] * groups
    turned = codes.t().tolist() if order == AWQ else codes.tolist()
    qweight = torch.tensor([words(line, bits, order) for line in turned], dtype=torch.int32)
    qzeros = torch.tensor([words(line, bits, order) for line in zeros], dtype=torch.int32)
    qweight = qweight if order == AWQ else qweight.t().contiguous()
    return {"qweight": qweight, "qzeros": qzeros, "scales": scales.t().contiguous()}, codes, scales


def value(codes: torch.Tensor, scales: torch.Tensor, zero: int) -> torch.Tensor:
    return (codes - zero).float() * scales.float().repeat_interleave(64 // scales.shape[1], dim=1)


def claim(folder: Path, config: Mapping[str, Any], modules: Mapping[str, Mapping[str, torch.Tensor]]) -> Claims:
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "quantization_config": dict(config)}))
    tensors = {f"{name}.{leaf}": part for name, parts in modules.items() for leaf, part in parts.items()}
    save_file(tensors, folder / "model.safetensors")
    wanted = {
        f"{name}.weight": tuple(parts["weight"].shape) if "weight" in parts else (parts["scales"].shape[1], 64)
        for name, parts in modules.items()
    }
    opened = open_checkpoint(str(folder))
    matrices = {name.removesuffix(".weight"): shape for name, shape in wanted.items()}
    return claim_all(opened, FAMILIES["llama"], format_of(opened), wanted, matrices, {})


def read(folder: Path, claims: Claims, module: str) -> QuantizedWeight:
    source, reader = claims.sources[f"{module}.weight"], TensorReader(open_checkpoint(str(folder)))
    assert isinstance(source, Quantized)
    found = source.read({leaf: reader[tensor] for leaf, tensor in source.tensors.items()})
    assert isinstance(found, QuantizedWeight)
    return found


@pytest.mark.parametrize(
    ("how", "zero", "order"),
    [
        ({"packing_format": "auto_round:auto_gptq"}, 6, GPTQ),
        ({"packing_format": "auto_round:gptq"}, 6, GPTQ),
        ({"packing_format": "auto_round:gptqmodel"}, 5, GPTQ),
        ({"packing_format": "auto_round"}, 5, GPTQ),
        ({"packing_format": "auto_round:exllamav2", "backend": "auto"}, 5, GPTQ),
        ({"packing_format": "auto_round:auto_awq"}, 5, AWQ),
        ({"packing_format": "auto_round:awq"}, 5, AWQ),
        ({"backend": "auto_round:gptq:exllamav2"}, 6, GPTQ),
        ({"backend": "auto_round:awq:gemm"}, 5, AWQ),
        ({"backend": "auto"}, 6, GPTQ),
        ({}, 6, GPTQ),
    ],
)
@pytest.mark.parametrize("method", ["auto-round", "intel/auto-round"])
def test_the_packing_says_layout_and_zero_points(
    tmp_path: Path, how: dict, zero: int, order: tuple[int, ...], method: str
) -> None:
    """5 is stored everywhere; what it stands for is 5 or 6."""
    parts, codes, scales = weight(1, 16, 4, 5, order)
    claims = claim(tmp_path, {**CONFIG, **how, "quant_method": method}, {UP: parts})
    assert torch.equal(read(tmp_path, claims, UP).dequantize(), value(codes, scales, zero))


@pytest.mark.parametrize("stored", [7, 8])
@pytest.mark.parametrize("how", [{"packing_format": "auto_round:auto_gptq"}, {"backend": "auto_round:exllamav2"}])
def test_symmetric_is_symmetric_however_it_is_stored(tmp_path: Path, stored: int, how: dict) -> None:
    parts, codes, scales = weight(1, 16, 4, stored)
    claims = claim(tmp_path, {**CONFIG, **how, "sym": True}, {UP: parts})
    assert torch.equal(read(tmp_path, claims, UP).dequantize(), value(codes, scales, 8))


def test_layers_of_their_own_by_name_and_by_pattern(tmp_path: Path) -> None:
    up, up_codes, up_scales = weight(1, 16, 4, 5)
    down, down_codes, down_scales = weight(2, 16, 2, 99, bits=8)
    head, head_codes, head_scales = weight(3, 32, 1, 4)
    plain = {"weight": torch.ones(16, 64).half()}
    extra = {
        "mlp.down_pro": {"bits": 8, "group_size": 32},
        HEAD: {"bits": 4, "group_size": -1, "sym": False, "data_type": "int", "act_bits": 16, "super_bits": None},
        r".*gate_proj.*": {"bits": 16, "act_bits": 16, "data_type": "float"},
        r".*mlp.*": {"bits": 2},
        UP: {"group_size": 16},
    }
    config = {**CONFIG, "packing_format": "auto_round", "extra_config": extra, "block_name_to_quantize": "model.layers"}
    gate = "model.layers.0.mlp.gate_proj"
    claims = claim(tmp_path, config, {UP: up, DOWN: down, HEAD: head, gate: plain})
    assert torch.equal(read(tmp_path, claims, UP).dequantize(), value(up_codes, up_scales, 5))
    assert torch.equal(read(tmp_path, claims, DOWN).dequantize(), value(down_codes, down_scales, 99))
    assert torch.equal(read(tmp_path, claims, HEAD).dequantize(), value(head_codes, head_scales, 4))
    assert claims.sources[f"{gate}.weight"] == Plain(f"{gate}.weight")
    with pytest.raises(EngineError, match=f"{gate} is packed .*but the config leaves it in full precision"):
        claim(tmp_path, config, {gate: up})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"packing_format": "auto_round:fp8_static"}, "packing_format is 'auto_round:fp8_static'"),
        ({"packing_format": "auto_round:llm_compressor"}, "packing_format is 'auto_round:llm_compressor'"),
        ({"packing_format": "mlx"}, "packing_format is 'mlx'"),
        ({"backend": "gptq:exllamav2"}, "packing_format is 'gptq:exllamav2'"),
        ({"backend": "auto_round:exllamav2"}, "versions of AutoRound differ in how they stored asymmetric"),
        ({"bits": 5}, "bits is 5; 2, 3, 4, 8 are read"),
        ({"packing_format": "auto_round:awq", "bits": 8}, "bits is 8; 4 are read"),
        ({"data_type": "mx_fp4"}, "data_type is 'mx_fp4'; int is read"),
        ({"act_bits": 8}, "act_bits is 8"),
        ({"super_bits": 6}, "super_bits is 6"),
        ({"rotation_config": {"kind": "hadamard"}}, "rotation_config is"),
        ({"desc_act": True}, "desc_act is true"),
        ({"wrong": 1}, "unknown setting 'wrong' of quantization_config"),
        ({"extra_config": [1]}, r"extra_config is \[1\]"),
        ({"extra_config": {"(": {"bits": 8}}}, r"extra_config\['\('\] is no module of the files, and no pattern"),
        ({"extra_config": {"a": 8}}, r"extra_config\['a'\] is 8; it must be an object"),
        ({"extra_config": {"a": {"bits": 6}}}, r"extra_config\['a'\].bits is 6"),
        ({"extra_config": {"a": {"act_bits": 8}}}, r"extra_config\['a'\].act_bits is 8"),
        ({"extra_config": {"a": {"wrong": 8}}}, r"unknown setting 'wrong' of extra_config\['a'\]"),
    ],
)
def test_settings_that_cannot_be_honoured_are_named(tmp_path: Path, changes: dict, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        claim(tmp_path, {**CONFIG, **changes}, {UP: weight(1, 16, 4, 5)[0]})
