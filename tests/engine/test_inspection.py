"""What is said of a checkpoint without loading it."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from evalcard_engine.export import export
from evalcard_engine.inspection import activation_words, inspect
from evalcard_engine.models import open_model
from evalcard_engine.quant.scheme import parse_scheme
from evalcard_engine.quant.weight import Activations

SIZES = {
    "vocab_size": 40, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("plain")
    torch.manual_seed(5)
    LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=True)).bfloat16().save_pretrained(folder)
    return folder


def test_an_uncompressed_model(plain: Path):
    found = inspect(str(plain))
    assert (found.format, found.model_type, found.faults) == ("safetensors", "llama", ())
    assert found.bits_per_weight == 16 and found.scheme_words is None and found.activations == {}
    assert found.num_bytes == sum(tensor.nbytes for tensor in load_file(plain / "model.safetensors").values())
    assert [layer.kind for layer in found.layers].count("q_proj") == 2
    head = found.layers[-1]
    assert (head.name, head.tied_to, head.dtype) == ("lm_head", "model.embed_tokens", "BF16")


@pytest.mark.parametrize("name", ["w8a8", "w4a16-g32", "fp8", "nvfp4a16"])
def test_bits_as_the_engine_counts_them_once_it_has_loaded(plain: Path, tmp_path: Path, name: str):
    export(str(plain), parse_scheme(name), tmp_path)
    found = inspect(str(tmp_path))
    info = open_model(str(tmp_path), dtype="float32", device="cpu", scheme=None).info
    assert found.bits_per_weight == info.bits_per_weight and not found.faults
    (scheme,) = found.schemes
    assert found.scheme_words == f"compressed-tensors: {scheme}" and found.schemes[scheme] == 14
    expected = {"w8a8": "int8 per token, dynamic", "fp8": "fp8_e4m3 per token, dynamic"}.get(name, "unquantized")
    assert found.activations == {scheme: expected}


def test_several_schemes_are_counted(plain: Path, tmp_path: Path):
    export(str(plain), parse_scheme("w4a16-g64"), tmp_path, ignore=["re:.*layers.1.mlp.up_proj"])
    words = inspect(str(tmp_path)).scheme_words
    assert words == "compressed-tensors: w4a16 (int4, groups of 64) in 11, w4a16 (int4, groups of 48) in 2 layers"


def test_all_faults_at_once(plain: Path, tmp_path: Path):
    export(str(plain), parse_scheme("w4a16-g32"), tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["model.layers.0.self_attn.q_proj.weight_scale"], tensors["model.norm.weight"]
    tensors["model.layers.9.extra"] = torch.zeros(2)
    save_file(tensors, tmp_path / "model.safetensors")
    found = inspect(str(tmp_path))
    text = "\n".join(found.faults)
    assert len(found.faults) == 3 and "q_proj: weight_scale missing" in text
    assert "model.norm.weight" in text and "model.layers.9.extra" in text
    assert len(found.layers) == 16 and found.bits_per_weight is not None  # the rest is still told


def test_a_family_and_a_format_that_are_both_unknown(plain: Path, tmp_path: Path):
    config = json.loads((plain / "config.json").read_text())
    config |= {"model_type": "mamba9", "quantization_config": {"quant_method": "zip"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes((plain / "model.safetensors").read_bytes())
    found = inspect(str(tmp_path))
    assert len(found.faults) == 2 and "mamba9" in found.faults[0] and "zip" in found.faults[1]
    assert (found.format, found.layers, found.bits_per_weight) == (None, (), None) and found.num_bytes > 0


def test_files_that_cannot_be_opened(plain: Path, tmp_path: Path):
    (tmp_path / "config.json").write_text((plain / "config.json").read_text())
    (tmp_path / "model.safetensors").write_bytes((plain / "model.safetensors").read_bytes()[:-100])
    found = inspect(str(tmp_path))
    size = (plain / "model.safetensors").stat().st_size
    told = f"model.safetensors cannot be read as safetensors (it is cut off after {size - 100} of {size} bytes)"
    assert found.faults == (told,) and not found.layers


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (None, "unquantized"),
        (Activations("int8", "token"), "int8 per token, dynamic"),
        (Activations("fp8_e4m3", "tensor", scale=torch.tensor(0.5)), "fp8_e4m3 per tensor, static"),
        (Activations("fp8_e4m3", "group", 32, power_of_two=True),
         "fp8_e4m3 in groups of 32, dynamic, scales are powers of two"),
        (Activations("int8", "token", outliers=6.0), "int8 per token, dynamic, values of at least 6 left unquantized"),
        (Activations("fp4_e2m1", "group", 16, scale=torch.tensor(2.0)), "fp4_e2m1 in groups of 16, dynamic"),
    ],
)  # fmt: skip
def test_activations_in_words(how: Activations | None, words: str):
    assert activation_words(how) == words
