"""Whole checkpoints as compressed-tensors writes them: opened, run, and refused with all their faults at once."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from evalcard_engine.errors import EngineError
from evalcard_engine.models import open_model

pytest.importorskip("compressed_tensors", reason="the library whose files are read")

W4A16 = {"num_bits": 4, "strategy": "group", "group_size": 16}
FP8 = {"num_bits": 8, "type": "float", "strategy": "channel"}
INT8 = {"num_bits": 8, "strategy": "channel"}
NVFP4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
NVFP4 |= {"scale_dtype": "torch.float8_e4m3fn"}
MXFP4 = {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32, "scale_dtype": "torch.uint8"}
TOKEN8 = {"num_bits": 8, "strategy": "token", "dynamic": True}


def scheme_of(fmt: str, weights: Mapping[str, Any], inputs: Mapping[str, Any] | None = None, **more: Any) -> Any:
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    activations = None if inputs is None else QuantizationArgs(**inputs)
    settings = {"targets": ["Linear"], "format": fmt, "input_activations": activations, **more}
    return QuantizationScheme(weights=QuantizationArgs(**weights), **settings)


def written(weight: torch.Tensor, scheme: Any) -> dict[str, torch.Tensor]:
    """The library's own tensors of a weight."""
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

    args, state = scheme.weights, {"weight": weight}
    if args.strategy == "tensor_group":
        state["weight_global_scale"] = generate_gparam(weight.min(), weight.max())
    size = {"channel": weight.shape[1], "tensor": weight.numel()}.get(args.strategy, args.group_size)
    groups = weight.reshape(1 if args.strategy == "tensor" else len(weight), -1, size)
    low, high = groups.amin(-1), groups.amax(-1)
    scale, zero = calculate_qparams(low, high, args, state.get("weight_global_scale"))
    if args.strategy == "tensor":
        scale, zero = scale.reshape(1), zero.reshape(1)
    state |= {"weight_scale": scale, "weight_zero_point": zero}
    return BaseCompressor.get_value_from_registry(scheme.format).compress(state, scheme)


def compress(stored: Any, schemes: Mapping[str, Any], **parts: torch.Tensor) -> dict[str, torch.Tensor]:
    """Store modules as their schemes say, with more parts beside; returns the library's own decompressed weights."""
    from compressed_tensors.compressors import BaseCompressor

    plain = {}
    for module, scheme in schemes.items():
        tensors = written(stored.tensors.pop(f"{module}.weight"), scheme)
        compressor = BaseCompressor.get_value_from_registry(scheme.format)
        plain[module] = compressor.decompress(dict(tensors), scheme)["weight"]
        stored.tensors |= {f"{module}.{leaf}": part.clone() for leaf, part in {**tensors, **parts}.items()}
    return plain


def quantization(*schemes: Any, **more: Any) -> dict[str, Any]:
    formats = {scheme.format for scheme in schemes}
    return {
        "quant_method": "compressed-tensors",
        "format": formats.pop() if len(formats) == 1 else "mixed-precision",
        "config_groups": {f"group_{number}": json.loads(one.model_dump_json()) for number, one in enumerate(schemes)},
        "ignore": ["lm_head"],
        "kv_cache_scheme": None,
        "quantization_status": "compressed",
        "version": "0.20.1",
        **more,
    }


WEIGHTS_ONLY = {
    "w4a16": scheme_of("pack-quantized", W4A16),
    "w4a16 asym": scheme_of("pack-quantized", {**W4A16, "symmetric": False}),
    "w3a16": scheme_of("pack-quantized", {**W4A16, "num_bits": 3, "symmetric": False}),
    "w8a16": scheme_of("pack-quantized", {**INT8, "symmetric": False}),
    "fp8": scheme_of("float-quantized", FP8),
    "nvfp4a16": scheme_of("nvfp4-pack-quantized", NVFP4),
}


@pytest.mark.parametrize("name", WEIGHTS_ONLY)
def test_weights_only_runs_as_transformers_with_the_dequantized_weights(stored_llama, run_folder, name: str) -> None:
    scheme = WEIGHTS_ONLY[name]
    plain = compress(stored_llama, dict.fromkeys(stored_llama.linears, scheme))
    folder = stored_llama.save(quantization(scheme))
    if name == "nvfp4a16":  # which the library gives in bfloat16
        plain = {module: unrounded_nvfp4(stored_llama.tensors, module) for module in plain}
    expected = stored_llama.reference(plain)
    torch.testing.assert_close(run_folder(folder).logits, expected, rtol=1e-4, atol=1e-4)
    info = open_model(str(folder), dtype="float32", device="cpu", scheme=None).info
    width = scheme.weights.num_bits
    assert width < info.bits_per_weight < width + 4.5, info.bits_per_weight


def by_library(args: Any, x: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
    from compressed_tensors.quantization.lifecycle.forward import fake_quantize
    from compressed_tensors.quantization.utils import compute_dynamic_scales_and_zp

    if args.dynamic is False:
        return fake_quantize(x, scale, torch.zeros(1), args)
    scales, zeros = compute_dynamic_scales_and_zp(x[None], args, None, global_scale=scale)
    return fake_quantize(x[None], scales, zeros.float(), args, global_scale=scale)[0]


def by_kernels(args: Any, x: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
    """int8 by token as integer kernels have it: the greatest magnitude becomes 127."""
    step = x.abs().amax(dim=1, keepdim=True) / 127
    return torch.round(x / step) * step


ROUNDED = {
    "w8a8 int8": (scheme_of("int-quantized", INT8, TOKEN8), {}, by_kernels),
    "w4a8 int8": (scheme_of("pack-quantized", W4A16, TOKEN8), {}, by_kernels),
    "fp8 dynamic": (scheme_of("float-quantized", FP8, {**TOKEN8, "type": "float"}), {}, by_library),
    "fp8 by group": (
        scheme_of("float-quantized", FP8, {**TOKEN8, "type": "float", "strategy": "group", "group_size": 16}),
        {},
        by_library,
    ),
    "fp8 static": (
        scheme_of("float-quantized", {**FP8, "strategy": "tensor"}, {**FP8, "strategy": "tensor"}),
        {"input_scale": torch.tensor([0.0123])},
        by_library,
    ),
    "int8 static": (
        scheme_of("int-quantized", INT8, {**INT8, "strategy": "tensor"}),
        {"input_scale": torch.tensor([0.031])},
        by_library,
    ),
    "mxfp4": (
        scheme_of("mxfp4-pack-quantized", MXFP4, {**MXFP4, "dynamic": True}),
        {},
        by_library,
    ),
    "mxfp8": (
        scheme_of("mxfp8-quantized", {**MXFP4, "num_bits": 8}, {**MXFP4, "num_bits": 8, "dynamic": True}),
        {},
        by_library,
    ),
    "nvfp4": (
        scheme_of("nvfp4-pack-quantized", NVFP4, {**NVFP4, "dynamic": "local"}),
        {"input_global_scale": torch.tensor([700.0])},
        by_library,
    ),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_quantized_inputs_are_rounded_as_the_scheme_says(stored_llama, run_folder, name: str) -> None:
    """Every linear's output against float64 products of its own input, rounded by an independent definition."""
    scheme, parts, rounding = ROUNDED[name]
    size = scheme.weights.group_size or 1
    linears = [module for module, weight in stored_llama.linears.items() if weight.shape[1] % size == 0]
    plain = compress(stored_llama, dict.fromkeys(linears, scheme), **parts)
    ran = run_folder(stored_llama.save(quantization(scheme)))
    assert set(ran.calls) >= set(plain) and len(plain) >= 12
    scale = next(iter(parts.values()), None)
    for module in plain:
        rows, out = ran.calls[module]
        rounded = rounding(scheme.input_activations, rows.clone(), scale)
        weight = plain[module] if name != "nvfp4" else unrounded_nvfp4(stored_llama.tensors, module)
        expected = (rounded.double() @ weight.double().t()).float()
        torch.testing.assert_close(out, expected, rtol=1e-5, atol=2e-5)
        off = (rows.double() @ weight.double().t()).float() - out
        assert float(off.abs().max()) > 1e-3, "inputs were not rounded at all"


def unrounded_nvfp4(tensors: Mapping[str, torch.Tensor], module: str) -> torch.Tensor:
    """float64 [out, in] by the layout's definition."""
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)
    packed = tensors[f"{module}.weight_packed"].long()
    codes = torch.stack((packed & 15, packed >> 4), dim=-1).flatten(1)
    scales = tensors[f"{module}.weight_scale"].float() / tensors[f"{module}.weight_global_scale"]
    return values[codes] * scales.double().repeat_interleave(16, dim=1)


def test_groups_of_different_schemes_and_layers_left_alone(stored_llama, run_folder) -> None:
    """Names come before patterns, patterns before classes; what is plain in the files stays plain."""
    one = "model.layers.0.self_attn.q_proj"
    by_name = scheme_of("pack-quantized", {**W4A16, "num_bits": 8}, targets=[one])
    by_pattern = scheme_of("float-quantized", FP8, targets=["re:.*self_attn.*"])
    by_class = scheme_of("pack-quantized", W4A16)
    schemes = {}
    for module in stored_llama.linears:
        if not module.endswith("up_proj"):
            schemes[module] = by_name if module == one else by_pattern if "self_attn" in module else by_class
    plain = compress(stored_llama, schemes)
    # As exporters write it: names with a wrapper's suffix, which match nothing here.
    config = quantization(by_class, by_pattern, by_name, ignore=["lm_head", "model.layers.0.mlp.up_proj.linear"])
    found = run_folder(stored_llama.save(config))
    torch.testing.assert_close(found.logits, stored_llama.reference(plain), rtol=1e-4, atol=1e-4)


def test_one_layer_alone(stored_llama, run_folder) -> None:
    one = "model.layers.0.mlp.down_proj"
    scheme = scheme_of("pack-quantized", W4A16, targets=[one])
    plain = compress(stored_llama, {one: scheme})
    found = run_folder(stored_llama.save(quantization(scheme)))
    torch.testing.assert_close(found.logits, stored_llama.reference(plain), rtol=1e-4, atol=1e-4)


def test_a_quantized_tied_embedding_is_the_head_too(stored_llama, run_folder) -> None:
    scheme = scheme_of("pack-quantized", {**W4A16, "symmetric": False}, targets=["Embedding"])
    linears = scheme_of("pack-quantized", {**INT8})  # by class: must not be taken for the embedding's scheme
    del stored_llama.tensors["lm_head.weight"]
    stored_llama.config = {"tie_word_embeddings": True}
    embedding = compress(stored_llama, {"model.embed_tokens": scheme})["model.embed_tokens"]
    plain = compress(stored_llama, dict.fromkeys(stored_llama.linears, linears))
    found = run_folder(stored_llama.save(quantization(linears, scheme)))
    plain |= {"model.embed_tokens": embedding, "lm_head": embedding}
    torch.testing.assert_close(found.logits, stored_llama.reference(plain), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("left_over", [{"format": "dense", "targets": ["Linear"]}, {}, None])
def test_a_sparsity_config_that_is_left_over_says_nothing(stored_llama, run_folder, left_over: Any) -> None:
    scheme = scheme_of("pack-quantized", W4A16)
    plain = compress(stored_llama, dict.fromkeys(stored_llama.linears, scheme))
    found = run_folder(stored_llama.save(quantization(scheme, sparsity_config=left_over, transform_config={})))
    torch.testing.assert_close(found.logits, stored_llama.reference(plain), rtol=1e-4, atol=1e-4)


def refusal(folder: Path) -> str:
    with pytest.raises(EngineError) as caught:
        open_model(str(folder), dtype="float32", device="cpu", scheme=None)
    return str(caught.value)


def test_all_faults_come_in_one_message_and_alike_ones_together(stored_llama) -> None:
    scheme = scheme_of("pack-quantized", W4A16)
    compress(stored_llama, dict.fromkeys(stored_llama.linears, scheme))
    tensors = stored_llama.tensors
    for module in stored_llama.linears:
        if module.endswith(("q_proj", "o_proj")):
            del tensors[f"{module}.weight_scale"]
    tensors["model.layers.0.mlp.down_proj.weight_scale"][3, 4] = torch.nan
    tensors["model.layers.1.mlp.gate_proj.weight_shape"][0] = 9
    tensors["model.layers.1.mlp.up_proj.adapter"] = torch.ones(3)
    del tensors["model.norm.weight"]
    message = refusal(stored_llama.save(quantization(scheme)))
    names = [f"model.layers.{layer}.self_attn.{one}_proj" for layer in (0, 1) for one in "oq"]
    assert "weight_scale missing (4): " in message and all(name in message for name in names)
    assert message.count("weight_scale missing") == 1
    assert "model.layers.0.mlp.down_proj: its weight scales are not all finite" in message
    assert "model.layers.1.mlp.gate_proj: weight_shape is [9, 96]" in message
    assert "tensors missing (1): model.norm.weight" in message
    assert "tensors not part of the model (1): model.layers.1.mlp.up_proj.adapter" in message


@pytest.mark.parametrize(
    ("shape", "group"),
    [((96, 96), 512), ((96, 96), 40), ((96, 96), 64)],
)
def test_groups_that_do_not_divide_name_layer_shape_and_group(stored_llama, shape, group: int) -> None:
    scheme = scheme_of("pack-quantized", W4A16)
    compress(stored_llama, {"model.layers.0.self_attn.q_proj": scheme})
    config = quantization(scheme_of("pack-quantized", {**W4A16, "group_size": group}))
    message = refusal(stored_llama.save(config))
    assert f"model.layers.0.self_attn.q_proj: 96 columns of [96, 96] do not divide into groups of {group}" in message


def test_a_prefix_of_other_models_is_an_error_and_nothing_is_made_up(stored_llama) -> None:
    scheme = scheme_of("pack-quantized", W4A16)
    compress(stored_llama, dict.fromkeys(stored_llama.linears, scheme))
    stored_llama.tensors = {
        name.replace("model.layers", "model.language_model.layers"): one for name, one in stored_llama.tensors.items()
    }
    message = refusal(stored_llama.save(quantization(scheme)))
    assert "tensors missing (18): model.layers.0.input_layernorm.weight" in message
    assert "not part of the model (46): model.language_model.layers.0.input_layernorm.weight" in message


def in_shards(folder: Path) -> dict[str, str]:
    """Cut a folder's file into three, with an index."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    files = {name: f"model-0000{1 + number % 3}-of-00003.safetensors" for number, name in enumerate(sorted(tensors))}
    for file in set(files.values()):
        save_file({name: tensors[name] for name in files if files[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    return files


def test_a_missing_shard_or_a_tensor_missing_in_one_is_named(stored_llama, run_folder) -> None:
    scheme = scheme_of("pack-quantized", W4A16)
    plain = compress(stored_llama, dict.fromkeys(stored_llama.linears, scheme))
    folder = stored_llama.save(quantization(scheme))
    files = in_shards(folder)
    torch.testing.assert_close(run_folder(folder).logits, stored_llama.reference(plain), rtol=1e-4, atol=1e-4)
    lost = "model.layers.1.self_attn.k_proj.weight_scale"
    shard = load_file(folder / files[lost])
    save_file({name: tensor for name, tensor in shard.items() if name != lost}, folder / files[lost])
    assert "model.layers.1.self_attn.k_proj: weight_scale missing" in refusal(folder)
    (folder / files[lost]).unlink()
    assert files[lost] in refusal(folder)


def test_a_prefix_that_only_the_index_has_is_an_error_with_all_names(stored_llama) -> None:
    """Case 79: names of another model's spelling in the index, the usual ones in the files."""
    scheme = scheme_of("pack-quantized", W4A16)
    compress(stored_llama, dict.fromkeys(stored_llama.linears, scheme))
    folder = stored_llama.save(quantization(scheme))
    index = {
        name.replace("model.layers.1.mlp", "model.language_model.layers.1.mlp"): file
        for name, file in in_shards(folder).items()
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    message = refusal(folder)
    assert "does not name (9): model.layers.1.mlp.down_proj.weight_packed" in message
    assert "names (9): model.language_model.layers.1.mlp.down_proj.weight_packed (model-0000" in message


def test_what_config_and_tensors_disagree_on_is_a_fault(stored_llama) -> None:
    scheme = scheme_of("pack-quantized", W4A16, targets=["re:.*self_attn.*", "re:.*mlp.*"])
    modules = ["model.layers.0.mlp.gate_proj", "model.layers.0.self_attn.q_proj", "lm_head"]
    compress(stored_llama, dict.fromkeys(modules, scheme), input_scale=torch.ones(1))
    message = refusal(stored_llama.save(quantization(scheme, ignore=["re:.*mlp.gate$", "re:.*q_proj"])))
    assert "model.layers.0.self_attn.q_proj is quantized" in message and "but the config ignores it" in message
    assert "lm_head is quantized" in message and "no config group targets it" in message
    assert "model.layers.0.mlp.gate_proj is" not in message  # re:.*mlp.gate$ is another module
    assert "not part of the model (2): model.layers.0.mlp.gate_proj.input_scale" in message


@pytest.mark.parametrize("name", ["w8a8 int8", "fp8 static", "nvfp4"])
def test_values_that_overflow_are_seen_in_the_logits(stored_llama, run_folder, name: str) -> None:
    """An infinity must not be saturated away by the next layer's rounding."""
    scheme, parts, _ = ROUNDED[name]
    linears = [module for module in stored_llama.linears if not module.startswith("model.layers.0.mlp")]
    stored_llama.tensors["model.layers.0.mlp.down_proj.weight"].fill_(3e38)
    compress(stored_llama, dict.fromkeys(linears, scheme), **parts)
    assert not torch.isfinite(run_folder(stored_llama.save(quantization(scheme))).logits).any()


@pytest.fixture
def real_model() -> Path:
    folder = os.environ.get("EVALCARD_TEST_MODEL")
    if not folder:
        pytest.skip("EVALCARD_TEST_MODEL names no checkpoint folder")
    return Path(folder)


@pytest.mark.parametrize("name", ["w4a16 asym", "fp8"])
def test_a_real_model_compressed_by_the_library(real_model: Path, tmp_path: Path, name: str) -> None:
    """Each linear's dequantized weight, as the loader reads it, equals the library's in the scale's dtype."""
    from compressed_tensors.compressors import BaseCompressor

    from evalcard_engine.checkpoint.claims import Quantized
    from evalcard_engine.checkpoint.reading import TensorReader
    from evalcard_engine.planning import plan_model

    scheme = WEIGHTS_ONLY[name]
    compressor = BaseCompressor.get_value_from_registry(scheme.format)
    expected, tensors = {}, {}
    for file in sorted(real_model.glob("*.safetensors")):
        for tensor, value in load_file(file).items():
            module = tensor.removesuffix(".weight")
            if ".layers." not in tensor or not module.endswith("_proj"):
                tensors[tensor] = value
                continue
            parts = written(value, scheme)
            expected[tensor] = compressor.decompress(dict(parts), scheme)["weight"]
            tensors |= {f"{module}.{leaf}": part.contiguous() for leaf, part in parts.items()}
    save_file(tensors, tmp_path / "model.safetensors")
    config = json.loads((real_model / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "quantization_config": quantization(scheme)}))
    plan = plan_model(str(tmp_path), "float32", "cpu", None, None)
    reader = TensorReader(plan.checkpoint)
    quantized = {name: one for name, one in plan.claims.sources.items() if isinstance(one, Quantized)}
    assert set(quantized) == set(expected) and len(expected) > 50
    for tensor, source in quantized.items():
        weight = source.read({leaf: reader[part] for leaf, part in source.tensors.items()})
        assert torch.equal(weight.dequantize().to(expected[tensor].dtype), expected[tensor]), tensor
