"""ModelOpt checkpoints: FP8 and NVFP4, described by either config file."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from evalcard_engine.checkpoint.claims import ModuleClaim, Quantized
from evalcard_engine.checkpoint.digest import weights_digest
from evalcard_engine.checkpoint.formats import format_of
from evalcard_engine.checkpoint.modelopt import ModelOpt, open_format
from evalcard_engine.checkpoint.source import open_checkpoint
from evalcard_engine.checkpoint.tensor_files import TensorFile
from evalcard_engine.errors import EngineError
from evalcard_engine.families import FAMILIES

DTYPES = {
    torch.float8_e4m3fn: "F8_E4M3", torch.float32: "F32", torch.bfloat16: "BF16", torch.uint8: "U8",
}  # fmt: skip
FP4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
NVFP4 = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["lm_head"]}
FP8 = {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": None}


def opened(config: Mapping[str, Any], **hf: Any) -> ModelOpt:
    holder = SimpleNamespace(name="m", config={"hf_quant_config": {"quantization": hf}} if hf else {})
    return open_format(holder, config)  # type: ignore[arg-type]


def claim(
    config: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], name: str = "a", width: int = 0
) -> ModuleClaim:
    parts = {
        leaf: TensorFile(Path("x"), DTYPES[one.dtype], tuple(one.shape), one.nbytes) for leaf, one in tensors.items()
    }
    weight = tensors["weight"]
    columns = weight.shape[1] * (2 if weight.dtype == torch.uint8 else 1)
    return opened(config).module(name, (weight.shape[0], width or columns), parts)


def read(config: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], name: str = "a") -> Any:
    found = claim(config, tensors, name)
    assert not found.faults and isinstance(found.source, Quantized) and found.leaves == set(tensors)
    return found.source.read({leaf: tensors[leaf] for leaf in found.source.tensors})


def fp4_parts(out: int, width: int, seed: int = 0, **change: torch.Tensor) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scales = torch.rand(out, width // 16, generator=generator) * 200
    return {
        "weight": torch.randint(0, 256, (out, width // 2), dtype=torch.uint8, generator=generator),
        "weight_scale": scales.to(torch.float8_e4m3fn),
        "weight_scale_2": torch.tensor(0.0007),
        "input_scale": torch.tensor(0.004),
        **change,
    }


def by_value(parts: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The definition, one value after the other; both scales multiply."""
    whole = float(parts["weight_scale_2"])
    rows = []
    for line, scales in zip(parts["weight"].tolist(), parts["weight_scale"].float().tolist(), strict=True):
        values = [FP4[nibble] for byte in line for nibble in (byte & 15, byte >> 4)]
        rows.append([value * scales[c // 16] * whole for c, value in enumerate(values)])
    return torch.tensor(rows)


def test_nvfp4_is_its_definition() -> None:
    parts = fp4_parts(5, 48)
    found = read(NVFP4, parts)
    torch.testing.assert_close(found.dequantize(), by_value(parts), rtol=3e-7, atol=0)
    assert found.activations.element == "fp4_e2m1" and float(found.activations.scale) == pytest.approx(250)


@pytest.mark.parametrize("name", ["model.layers.0.mlp.down_proj", "model.layers.0.mlp.experts.3.down_proj"])
def test_dense_layers_and_experts_have_the_same_scale_of_scales(name: str) -> None:
    parts = fp4_parts(
        2, 16, weight=torch.full((2, 8), 0x77, dtype=torch.uint8),
        weight_scale=torch.full((2, 1), 448.0).to(torch.float8_e4m3fn), weight_scale_2=torch.tensor(1 / 2688),
    )  # fmt: skip
    torch.testing.assert_close(read(NVFP4, parts, name).dequantize(), torch.ones(2, 16), rtol=2e-7, atol=0)


def test_compressed_tensors_divides_where_modelopt_multiplies() -> None:
    """The same weight in both formats: the library's own unpacking against this one."""
    reason = "compressed-tensors is a test dependency; it defines the reciprocal layout"
    library = pytest.importorskip("compressed_tensors.compressors.nvfp4.helpers", reason=reason)
    parts = fp4_parts(4, 32)
    values = library.unpack_fp4_from_uint8(parts["weight"], 4, 32, dtype=torch.float32)
    scales = parts["weight_scale"].float() / (1 / parts["weight_scale_2"])
    torch.testing.assert_close(
        read(NVFP4, parts).dequantize(), values * scales.repeat_interleave(16, 1), rtol=3e-7, atol=0
    )


def test_weight_only_nvfp4_rounds_no_input_whatever_scales_are_left() -> None:
    config = {**NVFP4, "quant_algo": "W4A16_NVFP4"}
    parts = fp4_parts(4, 32)
    assert read(config, parts).activations is None
    del parts["input_scale"]
    assert read(config, parts).activations is None
    assert claim(NVFP4, parts).faults == ("a: input_scale missing",)


@pytest.mark.parametrize(
    ("config", "change", "fault"),
    [
        (NVFP4, {"weight_scale": torch.ones(4, 4).to(torch.float8_e4m3fn)}, "F8_E4M3 [4, 4], not F8_E4M3 [4, 2]"),
        (NVFP4, {"weight_scale_2": torch.ones(4)}, "a.weight_scale_2 is F32 [4], not F32 [] or [1]"),
        (FP8, {}, "a.weight is U8 [4, 16], not F8_E4M3"),
        ({**NVFP4, "exclude_modules": ["a*"]}, {}, "a is quantized, but exclude_modules names it"),
        (
            {**NVFP4, "quant_algo": "MIXED_PRECISION", "quantized_layers": {"b": {"quant_algo": "FP8"}}},
            {},
            "_layers does",
        ),
    ],
)
def test_faults_name_the_layer(config: dict[str, Any], change: dict[str, torch.Tensor], fault: str) -> None:
    found = claim(config, fp4_parts(4, 32, **change))
    assert any(fault in one and one.startswith("a") for one in found.faults), found.faults


def test_columns_must_divide_into_groups() -> None:
    parts = fp4_parts(4, 32)
    parts["weight"] = parts["weight"][:, :12]
    assert "a: 24 columns do not divide into groups of 16" in claim(NVFP4, parts).faults


def test_scales_must_be_finite() -> None:
    with pytest.raises(EngineError, match="a: weight_scale_2 is not finite"):
        read(NVFP4, fp4_parts(4, 32, weight_scale_2=torch.tensor(float("nan"))))
    with pytest.raises(EngineError, match="a: input_scale is 0; it must be positive"):
        read(NVFP4, fp4_parts(4, 32, input_scale=torch.tensor(0.0)))


@pytest.mark.parametrize(
    "config",
    [
        {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"], "producer": {"name": "modelopt"},
         "config_groups": {"group_0": {"weights": {"group_size": 16, "num_bits": 4}, "targets": ["Linear"]}}},
        {"quant_method": "modelopt_fp4", "quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}},
    ],
)  # fmt: skip
def test_either_way_of_writing_the_config_is_read(config: dict[str, Any]) -> None:
    found = opened(config)
    assert (found.algorithm, found.excluded) == ("NVFP4", ("lm_head",))


def test_layers_of_both_kinds() -> None:
    layers = {"a": {"quant_algo": "NVFP4", "group_size": 16}, "b": {"quant_algo": "FP8"}}
    config = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers}
    parts = fp4_parts(4, 32)
    assert read(config, parts, "a").scheme.startswith("w4a4")
    weight = torch.randn(3, 5).to(torch.float8_e4m3fn)
    eight = {"weight": weight, "weight_scale": torch.tensor(0.5), "input_scale": torch.tensor(0.25)}
    found = read(config, eight, "b")
    assert torch.equal(found.dequantize(), weight.float() * 0.5) and float(found.activations.scale) == 0.25


def test_all_settings_that_cannot_be_honoured_are_named_at_once() -> None:
    config = {**NVFP4, "quant_algo": "W4A8_AWQ", "kv_cache_quant_algo": "NVFP4", "group_size": 128, "rotate": 1,
              "pre_quant_scale": True, "ignore": "lm_head"}  # fmt: skip
    with pytest.raises(EngineError) as caught:
        opened(config)
    for part in ("W4A8_AWQ", "KV cache", "group_size 128", "pre_quant_scale", "'rotate'", "ignore is 'lm_head'"):
        assert part in str(caught.value), part


def test_two_configs_must_not_contradict() -> None:
    with pytest.raises(EngineError, match="config.json says NVFP4, hf_quant_config.json FP8"):
        opened(NVFP4, quant_algo="FP8")
    with pytest.raises(EngineError, match="KV cache"):
        opened(NVFP4, quant_algo="NVFP4", kv_cache_quant_algo="INT8")


def test_hf_quant_config_may_be_the_only_word_of_quantization(stored_llama: Any) -> None:
    folder = stored_llama.save(None)
    plain = open_checkpoint(str(folder))
    before = weights_digest(plain, FAMILIES["llama"])
    told = {"producer": {"name": "modelopt"}, "quantization": {**FP8, "exclude_modules": ["lm_head"]}}
    del told["quantization"]["quant_method"]
    (folder / "hf_quant_config.json").write_text(json.dumps(told))
    found = open_checkpoint(str(folder))
    fmt = format_of(found)
    assert isinstance(fmt, ModelOpt) and (fmt.algorithm, fmt.excluded) == ("FP8", ("lm_head",))
    assert weights_digest(found, FAMILIES["llama"]) != before  # what it says changes answers
    (folder / "hf_quant_config.json").write_text("{")
    with pytest.raises(EngineError, match="hf_quant_config.json is not valid JSON"):
        open_checkpoint(str(folder))


def rounded_to_fp4(name: str, rows: torch.Tensor) -> torch.Tensor:
    """NVFP4 activations by their definition: e4m3 scales of 16 values under one scale for the tensor, here 0.01."""
    whole, table = torch.tensor(0.01), torch.tensor(FP4)
    out = rows.clone()
    for start in range(0, rows.shape[1], 16):
        group = rows[:, start : start + 16]
        scale = (group.abs().amax(1, keepdim=True) / 6 / whole).to(torch.float8_e4m3fn).float() * whole
        nearest = (group[..., None] / scale[..., None] - table).abs().argmin(-1)
        out[:, start : start + 16] = table[nearest] * scale
    return out


def rounded_to_fp8(name: str, rows: torch.Tensor) -> torch.Tensor:
    return (rows / 0.01).clamp(-448, 448).to(torch.float8_e4m3fn).float() * 0.01


@pytest.mark.parametrize("kind", ["NVFP4", "W4A16_NVFP4", "FP8"])
def test_a_whole_checkpoint(kind: str, stored_llama: Any, run_folder: Callable[[Path], Any]) -> None:
    weights = {}
    for seed, (name, weight) in enumerate(stored_llama.linears.items()):
        if kind == "FP8":
            scale = weight.abs().max() / 448
            parts = {"weight": (weight / scale).to(torch.float8_e4m3fn), "weight_scale": scale}
            weights[name] = parts["weight"].float() * scale
        else:
            parts = fp4_parts(*weight.shape, seed=seed, weight_scale_2=torch.tensor(0.0005))
            weights[name] = by_value(parts)
        stored_llama.replace(name, {**parts, "input_scale": torch.tensor(0.01)})
    ran = run_folder(stored_llama.save({**NVFP4, "quant_algo": kind}))
    how = {"NVFP4": rounded_to_fp4, "FP8": rounded_to_fp8}.get(kind)
    torch.testing.assert_close(ran.logits, stored_llama.reference(weights, how, ran), atol=1e-4, rtol=0)
