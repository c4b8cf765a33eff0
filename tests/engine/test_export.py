"""What round to nearest writes: read back by this engine and by compressed-tensors itself to the same values."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from evalcard_engine.checkpoint.ct_write import check_writable, settings, weight_args
from evalcard_engine.errors import EngineError, UnsupportedModel
from evalcard_engine.export import choose, export
from evalcard_engine.inspection import inspect, open_claims
from evalcard_engine.models import open_model
from evalcard_engine.quant.quantize import quantize
from evalcard_engine.quant.scheme import SCHEMES, parse_scheme

SIZES = {
    "vocab_size": 40, "hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 6,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "initializer_range": 0.2,
}  # fmt: skip
WRITTEN = ["w8a8", "w8a16", "w8a16-g32", "w4a16", "w4a16-g32", "w4a16-channel", "w4a16_asym", "w4a16_asym-g32", "fp8",
           "fp8_block", "w8a16_fp8", "nvfp4a16", "mxfp4a16", "sparse24+fp8", "w4a16-g32+head=w8"]  # fmt: skip


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tied llama in bfloat16, with a row of zeros and files of a tokenizer."""
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("plain")
    torch.manual_seed(3)
    model = LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=True)).bfloat16()
    model.model.layers[0].mlp.up_proj.weight.data[5] = 0
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text('{"a": 1}')
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    (folder / "README.md").write_text("of the original")
    return folder


def modules_of(folder: Path) -> dict[str, dict[str, torch.Tensor]]:
    """Module -> its parts, over all shards."""
    found: dict[str, dict[str, torch.Tensor]] = defaultdict(dict)
    for file in folder.glob("*.safetensors"):
        for name, tensor in load_file(file).items():
            module, _, leaf = name.rpartition(".")
            found[module][leaf] = tensor
    return found


def by_library(folder: Path) -> dict[str, torch.Tensor]:
    """Module -> weight as compressed-tensors decompresses it, by its own reading of config.json."""
    pytest.importorskip("compressed_tensors", reason="the library whose format is written")
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationConfig
    from compressed_tensors.utils.match import is_match
    from torch import nn

    config = QuantizationConfig.model_validate(json.loads((folder / "config.json").read_text())["quantization_config"])
    modules, weights = modules_of(folder), {}
    for name, parts in modules.items():
        linear = nn.Linear(1, 1)
        is_linear = name.endswith("_proj") or name == "lm_head"
        groups = [g for g in config.config_groups.values() if any(is_match(name, linear, t) for t in g.targets)]
        exact = [group for group in groups if name in group.targets] or groups
        if not is_linear or any(is_match(name, linear, entry) for entry in config.ignore):
            continue
        compressor = BaseCompressor.get_value_from_registry(exact[0].format)
        weights[name] = compressor.decompress(dict(parts), exact[0])["weight"]
    return weights


@pytest.mark.parametrize("name", WRITTEN)
def test_the_library_and_this_engine_read_the_same_weights(plain: Path, tmp_path: Path, name: str):
    scheme = parse_scheme(name)
    export(str(plain), scheme, tmp_path)
    opened = open_claims(str(tmp_path))
    assert opened.faults == ()
    expected = by_library(tmp_path)
    assert len(expected) == 14 + (scheme.head_bits is not None)
    original = load_file(plain / "model.safetensors")
    for module, weight in expected.items():
        found: Any = opened.read(opened.claims.sources[f"{module}.weight"])
        ours = found.dequantize()
        assert torch.equal(ours.to(weight.dtype), weight), module
        if module != "lm_head":
            direct = quantize(original[f"{module}.weight"], scheme, module)
            assert torch.equal(ours, direct.dequantize()), module
            assert repr(found.activations) == repr(direct.activations), module


@pytest.mark.parametrize("name", ["w8a8", "w4a16_asym", "fp8", "nvfp4a16"])
def test_written_and_applied_on_the_fly_compute_the_same(plain: Path, tmp_path: Path, name: str):
    export(str(plain), parse_scheme(name), tmp_path)
    written = open_model(str(tmp_path), dtype="float32", device="cpu", scheme=None)
    on_the_fly = open_model(str(plain), dtype="float32", device="cpu", scheme=parse_scheme(name))
    rows = torch.randn(3, 96, generator=torch.Generator().manual_seed(1))
    for module in ("model.layers.0.self_attn.q_proj", "model.layers.1.mlp.up_proj"):
        one, other = (model._module.get_submodule(module)(rows) for model in (written, on_the_fly))
        assert torch.equal(one, other), module


def test_widths_with_other_groups_get_groups_of_their_own(plain: Path, tmp_path: Path):
    config = export(str(plain), parse_scheme("w4a16"), tmp_path)
    by_size = {group["weights"]["group_size"]: group["targets"] for group in config["config_groups"].values()}
    assert set(by_size) == {96, 80} and by_size[80] == [f"model.layers.{n}.mlp.down_proj" for n in range(2)]
    assert len(by_size[96]) == 12


def test_everything_else_is_copied_as_it_is(plain: Path, tmp_path: Path):
    config = export(str(plain), parse_scheme("w4a16-g32"), tmp_path, ignore=["re:.*layers.1.*"])
    assert config["ignore"] == ["re:.*layers.1.*", "lm_head"]
    assert config["config_groups"]["group_0"]["targets"] == ["Linear"]
    found, original = load_file(tmp_path / "model.safetensors"), load_file(plain / "model.safetensors")
    kept = {name for name in original if ".layers.0." not in name or "norm" in name}
    assert kept < set(found) and all(torch.equal(found[name], original[name]) for name in kept)
    assert {file.name for file in tmp_path.iterdir()} == {
        "config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja",
    }  # fmt: skip
    seen = inspect(str(tmp_path))
    assert len([layer for layer in seen.layers if layer.scheme]) == 7 and not seen.faults
    assert json.loads((tmp_path / "config.json").read_text())["vocab_size"] == 40


def test_a_head_of_its_own_unties_the_embedding(plain: Path, tmp_path: Path):
    export(str(plain), parse_scheme("w8a8+head=w8"), tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["tie_word_embeddings"] is False
    parts = modules_of(tmp_path)
    assert set(parts["lm_head"]) == {"weight_packed", "weight_scale", "weight_shape"}
    assert set(parts["model.embed_tokens"]) == {"weight"}


def test_shards_with_an_index(plain: Path, tmp_path: Path):
    export(str(plain), parse_scheme("w4a16-g32"), tmp_path, shard_bytes=30_000)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    files = sorted(tmp_path.glob("*.safetensors"))
    assert len(files) > 2 and files[0].name == f"model-00001-of-{len(files):05d}.safetensors"
    held = {name: file.name for file in files for name in load_file(file)}
    assert index["weight_map"] == held and not list(tmp_path.glob("*.tmp"))
    assert index["metadata"]["total_size"] == sum(t.nbytes for f in files for t in load_file(f).values())
    assert all(sum(t.nbytes for t in load_file(file).values()) <= 30_000 for file in files)
    assert not inspect(str(tmp_path)).faults


@pytest.mark.parametrize("ignore", [["mlp"], ["re:(", "model.layers.0"], ["re:down_proj"]])
def test_an_entry_that_ignores_nothing(plain: Path, ignore: list[str]):
    with pytest.raises(EngineError, match="--ignore: .*whole name such as model.layers.0"):
        choose(open_claims(str(plain)), parse_scheme("w8a8"), ignore)


def test_ignoring_everything(plain: Path):
    with pytest.raises(EngineError, match="leaves no linear"):
        choose(open_claims(str(plain)), parse_scheme("w8a8"), ["re:.*"])


@pytest.mark.parametrize("name", ["nf4", "sparse24", "kv=fp8", "w8a8.kv=int8"])
def test_schemes_without_a_form(plain: Path, tmp_path: Path, name: str):
    with pytest.raises(UnsupportedModel, match=f"no form for {name}.*w4a16.*MODEL:{name}"):
        export(str(plain), parse_scheme(name.replace(".", "+")), tmp_path)
    assert not list(tmp_path.iterdir())


def test_every_scheme_is_written_or_refused():
    for scheme in SCHEMES.values():
        try:
            check_writable(scheme)
        except UnsupportedModel:
            continue
        assert weight_args(scheme, 96)["num_bits"] in (4, 8)
        assert settings({"a": (8, 96)}, scheme, [])["config_groups"]


def test_what_is_compressed_already(plain: Path, tmp_path: Path):
    (tmp_path / "a").mkdir()
    export(str(plain), parse_scheme("w8a8"), tmp_path / "a")
    with pytest.raises(EngineError, match="compressed already .w8a8"):
        choose(open_claims(str(tmp_path / "a")), parse_scheme("w4a16"), [])


def test_a_faulty_original(plain: Path, tmp_path: Path):
    tensors = load_file(plain / "model.safetensors")
    del tensors["model.norm.weight"]
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((plain / "config.json").read_text())
    with pytest.raises(EngineError, match="missing.*model.norm.weight"):
        choose(open_claims(str(tmp_path)), parse_scheme("w8a8"), [])


def test_a_text_model_inside_a_larger_one(tmp_path: Path):
    """Names are the checkpoint's own; a vision tower is copied as it is, and config.json leaves it out by a pattern."""
    from transformers import Gemma3Config, Gemma3ForCausalLM, Gemma3TextConfig

    text = Gemma3TextConfig(
        vocab_size=40, hidden_size=64, intermediate_size=96, num_hidden_layers=1, num_attention_heads=4, head_dim=16,
        num_key_value_heads=2, max_position_embeddings=64,
    )  # fmt: skip
    plain, out = tmp_path / "plain", tmp_path / "out"
    plain.mkdir()
    out.mkdir()
    tensors = Gemma3ForCausalLM(text).bfloat16().state_dict()
    del tensors["lm_head.weight"]
    renamed = {f"language_model.{name}": tensor.contiguous() for name, tensor in tensors.items()}
    renamed["vision_tower.layers.0.mlp.fc1.weight"] = torch.randn(8, 8)
    save_file(renamed, plain / "model.safetensors")
    config = Gemma3Config(text_config=text.to_dict()).to_dict() | {"model_type": "gemma3"}
    (plain / "config.json").write_text(json.dumps(config))
    found = export(str(plain), parse_scheme("w8a8"), out)
    assert found["ignore"] == ["lm_head", r"re:vision_tower\..*"]
    parts = modules_of(out)
    assert set(parts["language_model.model.layers.0.mlp.up_proj"]) == {"weight", "weight_scale"}
    kept = parts["vision_tower.layers.0.mlp.fc1"]
    assert set(kept) == {"weight"} and torch.equal(kept["weight"], renamed["vision_tower.layers.0.mlp.fc1.weight"])
    assert not inspect(str(out)).faults and len(by_library(out)) == 7
