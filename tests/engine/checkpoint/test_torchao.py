"""torchao's safetensors, written by torchao itself on the CPU."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from evalcard_engine.checkpoint.claims import ModuleClaim, Plain, Quantized
from evalcard_engine.checkpoint.source import Checkpoint
from evalcard_engine.checkpoint.tensor_files import read_header
from evalcard_engine.checkpoint.torchao import open_format
from evalcard_engine.errors import EngineError

ao = pytest.importorskip("torchao.quantization", reason="torchao is a test dependency; it defines the format")
flatten = pytest.importorskip("torchao.prototype.safetensors.safetensors_support").flatten_tensor_state_dict

CONFIG = {"quant_method": "torchao", "quant_type": {"default": {"_type": "", "_data": {}}}}
FLOAT8 = "torchao.quantization.quantize_.workflows"


def config_for(kind: str) -> dict[str, Any]:
    return {**CONFIG, "quant_type": {"default": {"_type": kind, "_version": 2, "_data": {}}}}


def save(folder: Path, tensors: Mapping[str, torch.Tensor], change: Mapping[str, Any] | None = None) -> Checkpoint:
    """A folder with the tensors as torchao takes them apart; ``change`` replaces attributes of ``a.weight``."""
    flat, metadata = flatten(dict(tensors))
    if change:
        entry = json.loads(metadata["a.weight"])
        entry["_data"] |= change
        metadata["a.weight"] = json.dumps(entry)
    save_file(flat, folder / "model.safetensors", metadata)
    return Checkpoint("m", folder, {}, read_header(folder / "model.safetensors"))


def claim(checkpoint: Checkpoint, shape: tuple[int, int], config: Mapping[str, Any] = CONFIG) -> ModuleClaim:
    fmt = open_format(checkpoint, config)
    parts = {name.removeprefix("a."): place for name, place in checkpoint.tensors.items()}
    return fmt.module("a", shape, parts)


def read(checkpoint: Checkpoint, shape: tuple[int, int]) -> Any:
    from safetensors.torch import load_file

    found = claim(checkpoint, shape)
    assert not found.faults, found.faults
    assert isinstance(found.source, Quantized) and len(found.leaves) == len(checkpoint.tensors)
    stored = load_file(checkpoint.path / "model.safetensors")
    return found.source.read({leaf: stored[name] for leaf, name in found.source.tensors.items()})


def weight(dtype: torch.dtype = torch.bfloat16, shape: tuple[int, int] = (24, 64)) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(2)).to(dtype)


def quantized(config: Any, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    linear = torch.nn.Linear(64, 24, bias=False, dtype=dtype)
    linear.weight.data = weight(dtype)
    ao.quantize_(linear, config)
    found: torch.Tensor = linear.weight
    return found


def groups(size: int) -> Any:
    from torchao.quantization.granularity import PerGroup

    return PerGroup(size)


def intx(bits: int, size: int, mapping: str = "SYMMETRIC") -> Any:
    return ao.IntxWeightOnlyConfig(
        weight_dtype=getattr(torch, f"int{bits}"), granularity=groups(size), mapping_type=ao.MappingType[mapping]
    )


WEIGHT_ONLY = {
    "int8 per channel": (lambda: ao.Int8WeightOnlyConfig(), "w8a16 (int8, per channel)"),
    "int8 by group": (lambda: ao.Int8WeightOnlyConfig(granularity=groups(16)), "w8a16 (int8, groups of 16)"),
    "fp8 per channel": (lambda: ao.Float8WeightOnlyConfig(), "w8a16 (fp8, per channel)"),
    "int2": (lambda: intx(2, 32), "w2a16 (int2, groups of 32)"),
    "int3 asymmetric": (lambda: intx(3, 16, "ASYMMETRIC"), "w3a16 (int3, groups of 16)"),
    "int4": (lambda: intx(4, 32), "w4a16 (int4, groups of 32)"),
    "int4 asymmetric": (lambda: intx(4, 16, "ASYMMETRIC"), "w4a16 (int4, groups of 16)"),
    "int6": (lambda: intx(6, 64), "w6a16 (int6, per channel)"),
    "int7": (lambda: intx(7, 32), "w7a16 (int7, groups of 32)"),
}


@pytest.mark.parametrize("kind", WEIGHT_ONLY)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_weight_only_equals_the_library(kind: str, dtype: torch.dtype, tmp_path: Path) -> None:
    make, words = WEIGHT_ONLY[kind]
    stored = quantized(make(), dtype)
    found = read(save(tmp_path, {"a.weight": stored}), (24, 64))
    assert torch.equal(found.dequantize().to(dtype), stored.dequantize())
    assert found.activations is None and found.scheme == words


def float8(granularity: Any, **how: Any) -> torch.Tensor:
    from torchao.quantization.quantize_.workflows import Float8Tensor

    found: torch.Tensor = Float8Tensor.from_hp(weight(torch.float32), granularity=granularity, **how)
    return found


def test_float8_by_tensor_block_and_in_e5m2(tmp_path: Path) -> None:
    from torchao.quantization.granularity import PerBlock, PerRow, PerTensor

    for number, made in enumerate(
        (float8(PerTensor()), float8(PerBlock([8, 16])), float8(PerRow(), float8_dtype=torch.float8_e5m2))
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert torch.equal(read(save(folder, {"a.weight": made}), (24, 64)).dequantize(), made.dequantize())


def test_rows_of_activations_in_fp8(tmp_path: Path) -> None:
    from torchao.quantization.granularity import PerRow
    from torchao.quantization.quantize_.workflows import QuantizeTensorToFloat8Kwargs

    how = QuantizeTensorToFloat8Kwargs(granularity=PerRow(), hp_value_ub=3.0)
    found = read(save(tmp_path, {"a.weight": float8(PerRow(), act_quant_kwargs=how)}), (24, 64))
    assert (found.activations.element, found.activations.per, found.activations.limit) == ("fp8_e4m3", "token", 3.0)


def test_int4_plain_is_its_definition(tmp_path: Path) -> None:
    """Int4Tensor needs a GPU's library to be made, so its parts are packed here: value = int4 * scale + zero_point."""
    generator = torch.Generator().manual_seed(6)
    values = torch.randint(-8, 8, (24, 64), generator=generator)
    scales, shifts = torch.rand(4, 24, generator=generator), torch.randn(4, 24, generator=generator)
    pairs = values.view(24, 32, 2).tolist()
    packed = torch.tensor([[(low & 15) | (high & 15) << 4 for low, high in row] for row in pairs], dtype=torch.uint8)
    stored = ao.Int4Tensor(packed.view(torch.int8), scales, shifts, [1, 16], torch.Size((24, 64)))
    found = read(save(tmp_path, {"a.weight": stored}), (24, 64))
    expected = [
        [value * float(scales[c // 16, r]) + float(shifts[c // 16, r]) for c, value in enumerate(row)]
        for r, row in enumerate(values.tolist())
    ]
    torch.testing.assert_close(found.dequantize(), torch.tensor(expected), rtol=1e-6, atol=1e-6)
    assert found.scheme == "w4a16 (int4, groups of 16)"


def test_plain_tensors_beside_quantized_ones(tmp_path: Path) -> None:
    tensors = {"a.weight": torch.ones(3, 3), "b.weight": quantized(ao.Int8WeightOnlyConfig())}
    checkpoint = save(tmp_path, tensors)
    fmt = open_format(checkpoint, CONFIG)
    found = fmt.module("a", (3, 3), {"weight": checkpoint.tensors["a.weight"]})
    assert isinstance(found.source, Plain) and not found.faults


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"act_quant_kwargs": {"_data": {"granularity": {"_type": "PerTensor"}}}}, "activations by PerTensor"),
        (
            {
                "act_quant_kwargs": {
                    "_data": {"granularity": {"_type": "PerRow"}, "mapping_type": {"_data": "ASYMMETRIC"}}
                }
            },
            "ASYMMETRIC int8 activations",
        ),
        (
            {"act_quant_kwargs": {"_data": {"granularity": {"_type": "PerRow"}, "reduce_range": True}}},
            "activations of 7 bits",
        ),
        ({"block_size": [1, 5]}, "8 bits in blocks of 1x5 for a weight of 24x64"),
        ({"block_size": [1, 32]}, "a._weight_scale is F32 [24, 1]"),
        ({"block_size": "all"}, "cannot be read"),
    ],
)
def test_faults_name_the_layer(change: dict[str, Any], fault: str, tmp_path: Path) -> None:
    checkpoint = save(tmp_path, {"a.weight": quantized(ao.Int8WeightOnlyConfig())}, change)
    found = claim(checkpoint, (24, 64))
    assert any(one.startswith("a") and fault in one for one in found.faults), found.faults


def test_other_classes_are_refused_by_name(tmp_path: Path) -> None:
    formats = pytest.importorskip("torchao.prototype.mx_formats.nvfp4_tensor")
    stored = formats.NVFP4Tensor.to_nvfp4(weight(), per_tensor_scale=torch.tensor(0.01))
    found = claim(save(tmp_path, {"a.weight": stored}), (24, 64))
    assert found.faults[0].startswith("a.weight is stored as NVFP4Tensor; of torchao's classes Int8Tensor")


def test_scales_and_zero_points_calibrated_for_activations_are_refused(tmp_path: Path) -> None:
    config = ao.Int8StaticActivationInt8WeightConfig(act_quant_scale=torch.tensor([[0.1]]))
    found = claim(save(tmp_path, {"a.weight": quantized(config)}), (24, 64))
    assert "a: Int8Tensor with act_quant_scale is not run" in found.faults


def test_activations_that_are_asymmetric_are_refused(tmp_path: Path) -> None:
    config = ao.Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=groups(32))
    found = claim(save(tmp_path, {"a.weight": quantized(config)}), (24, 64))
    assert found.faults == ("a: activations as int8_asym_per_token are not run",)


def test_config_and_tensors_must_agree(tmp_path: Path) -> None:
    checkpoint = save(tmp_path, {"a.weight": quantized(ao.Int8WeightOnlyConfig())})
    wrong = claim(checkpoint, (24, 64), config_for("Int8DynamicActivationInt8WeightConfig"))
    assert wrong.faults == (
        "a: its tensor leaves activations alone, but quant_type is Int8DynamicActivationInt8WeightConfig",
    )
    assert not claim(checkpoint, (24, 64), config_for("Int8WeightOnlyConfig")).faults
    listed = claim(checkpoint, (24, 64), {**CONFIG, "modules_to_not_convert": ["a"]})
    assert listed.faults == ("a is quantized, but modules_to_not_convert names it",)


def test_files_without_metadata_are_refused(tmp_path: Path) -> None:
    save_file({"a._weight_qdata": torch.ones(2, 2)}, tmp_path / "model.safetensors")
    checkpoint = Checkpoint("m", tmp_path, {}, read_header(tmp_path / "model.safetensors"))
    with pytest.raises(EngineError, match="carries torchao's metadata.*|unknown setting") as caught:
        open_format(checkpoint, CONFIG)
    with pytest.raises(EngineError, match="unknown setting 'rotate'"):
        open_format(checkpoint, {**CONFIG, "rotate": True})
    assert "m: its torchao settings" in str(caught.value)


def test_values_beyond_their_bits_and_scales_that_are_not_finite(tmp_path: Path) -> None:
    stored = quantized(intx(4, 32))
    stored.qdata[0, 0] = 9
    with pytest.raises(EngineError, match=r"a: its weights are no integers of 4 bits \(-8 to 9\)"):
        read(save(tmp_path, {"a.weight": stored}), (24, 64))
    stored.qdata[0, 0], stored.scale[1, 1] = 0, float("inf")
    with pytest.raises(EngineError, match="a: scale is not finite"):
        read(save(tmp_path, {"a.weight": stored}), (24, 64))


def rounded_int8(name: str, rows: torch.Tensor) -> torch.Tensor:
    """Each row to 127ths of its greatest value."""
    scales = torch.tensor([max(map(abs, row)) / 127 for row in rows.tolist()])[:, None]
    return torch.round(rows / scales) * scales


@pytest.mark.parametrize("kind", ["int8", "fp8", "int4", "int8 dynamic"])
def test_a_whole_checkpoint(kind: str, stored_llama: Any, run_folder: Callable[[Path], Any]) -> None:
    config = {
        "int8": ao.Int8WeightOnlyConfig, "fp8": ao.Float8WeightOnlyConfig, "int4": lambda: intx(4, 16, "ASYMMETRIC"),
        "int8 dynamic": ao.Int8DynamicActivationInt8WeightConfig,
    }[kind]()  # fmt: skip
    ao.quantize_(stored_llama.model, config, lambda module, name: name.endswith("_proj"))
    stored_llama.tensors, metadata = flatten(stored_llama.model.state_dict())
    weights = {name: one.dequantize() for name, one in stored_llama.linears.items()}
    how = {**config_for(type(config).__name__), "modules_to_not_convert": ["lm_head"]}
    ran = run_folder(stored_llama.save(how, metadata))
    for name in weights:  # plain linears again, which take plain weights
        linear = stored_llama.model.get_submodule(name)
        linear.weight = torch.nn.Parameter(torch.empty(linear.weight.shape), requires_grad=False)
    expected = stored_llama.reference(weights, rounded_int8 if kind == "int8 dynamic" else None, ran)
    torch.testing.assert_close(ran.logits, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("with_embedding", [False, True])
def test_a_folder_that_transformers_wrote(
    with_embedding: bool, stored_llama: Any, run_folder: Callable[[Path], Any], tmp_path: Path
) -> None:
    """In shards, and with the embedding and the head quantized too where asked for."""
    pytest.importorskip("accelerate", reason="transformers loads torchao models through accelerate")
    from transformers import AutoModelForCausalLM, TorchAoConfig

    how = TorchAoConfig(intx(8, 16), include_input_output_embeddings=with_embedding)
    model = AutoModelForCausalLM.from_pretrained(
        stored_llama.save(None), quantization_config=how, dtype=torch.float32, attn_implementation="eager"
    )
    model.save_pretrained(tmp_path / "written", max_shard_size="100KB")
    assert len(list((tmp_path / "written").glob("*.safetensors"))) > 1
    names = [*stored_llama.linears, *(["model.embed_tokens", "lm_head"] if with_embedding else [])]
    weights = {name: model.get_submodule(name).weight.dequantize() for name in names}
    ran = run_folder(tmp_path / "written")
    torch.testing.assert_close(ran.logits, stored_llama.reference(weights), atol=1e-4, rtol=0)
