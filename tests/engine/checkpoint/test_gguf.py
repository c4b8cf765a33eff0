"""GGUF files as gguf-py writes them and llama.cpp's converter lays them out: every parameter and the logits."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from evalcard_engine.batch import Batch, Span
from evalcard_engine.building import build, matrices, tied_parameters
from evalcard_engine.checkpoint.claiming import claim_all
from evalcard_engine.checkpoint.claims import Quantized
from evalcard_engine.checkpoint.digest import weights_digest
from evalcard_engine.checkpoint.formats import format_of
from evalcard_engine.checkpoint.gguf_file import read_gguf
from evalcard_engine.checkpoint.reading import TensorReader
from evalcard_engine.checkpoint.source import open_checkpoint
from evalcard_engine.errors import EngineError, ModelNotFound, UnsupportedModel
from evalcard_engine.families import family_of
from evalcard_engine.models import PreparedModel, identify, open_model
from evalcard_engine.quant.scheme import parse_scheme

gguf = pytest.importorskip("gguf", reason="the format's own library writes the files that are read here")

TOKENS = torch.tensor([1, 17, 3, 96, 40, 40, 8, 55, 23, 71, 2])
COMMON: dict[str, Any] = {
    "vocab_size": 100, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "initializer_range": 0.06,
}  # fmt: skip
MODELS: dict[str, dict[str, Any]] = {
    "llama": {"tie_word_embeddings": False},
    "llama-biased": {"attention_bias": True, "mlp_bias": True, "head_dim": 64, "tie_word_embeddings": True},
    "qwen2": {"tie_word_embeddings": False, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
    "qwen3": {"tie_word_embeddings": True, "head_dim": 48},
    "gemma3_text": {
        "head_dim": 64, "sliding_window": 5, "num_hidden_layers": 7, "query_pre_attn_scalar": 64,
        "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    },
}  # fmt: skip
ARCHITECTURES = {"llama": "llama", "llama-biased": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma3_text": "gemma3"}
KINDS = ({
    "token_embd": "Q8_0", "output": "Q5_K", "attn_q": "Q4_K", "attn_k": "Q5_0", "attn_v": "Q6_K", "attn_output": "Q4_1",
    "ffn_gate": "Q2_K", "ffn_up": "Q3_K", "ffn_down": "IQ4_XS",
}, {
    "attn_q": "Q8_0", "attn_k": "Q4_0", "attn_v": "Q5_1", "attn_output": "F16", "ffn_gate": "Q5_K", "ffn_up": "IQ4_NL",
    "ffn_down": "BF16",
})  # fmt: skip
"""Types of the first layer and the ends, and of all other layers."""
RANDOM = {
    "Q2_K": (84, (80, 82), 2e-3), "Q3_K": (110, (108,), 5e-4), "Q4_K": (144, (0, 2), 1e-4), "Q5_K": (176, (0, 2), 5e-5),
    "Q6_K": (210, (208,), 2e-5), "IQ4_XS": (136, (0,), 2e-5), "IQ4_NL": (18, (0,), 5e-4),
}  # fmt: skip
"""Types that gguf-py does not quantize to: (bytes of a block, places of its halves, their size)."""


@dataclass
class Written:
    """A file, and what it says each of transformers' parameters is."""

    file: Path
    model: Any
    expected: dict[str, torch.Tensor]


def make_model(name: str) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    settings = {**COMMON, **MODELS[name]}
    torch.manual_seed(sum(name.encode()))
    config = AutoConfig.for_model(name.removesuffix("-biased"), **settings)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    for key, parameter in model.named_parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, mean=0.0 if "bias" in key or "gemma" in name else 1.0, std=0.2)
    return model


def interleave(rows: np.ndarray, heads: int) -> np.ndarray:
    """llama.cpp's order of a head's rows: the first of one half, the first of the other, the second ..."""
    width = len(rows) // heads
    order = [head * width + half * width // 2 + row
             for head in range(heads) for row in range(width // 2) for half in (0, 1)]  # fmt: skip
    return rows[order]


def stored(values: np.ndarray, kind: str, generator: np.random.Generator) -> tuple[np.ndarray, Any]:
    """(what lies in the file, its type): quantized by the library, or random blocks of a size fit for a weight."""
    if kind in ("F32", "F16"):
        return values.astype({"F32": np.float32, "F16": np.float16}[kind]), None
    number = gguf.GGMLQuantizationType[kind]
    if kind not in RANDOM:
        return gguf.quantize(values, number), number
    num_bytes, halves, size = RANDOM[kind]
    count = values.size // gguf.GGML_QUANT_SIZES[number][0]
    raw = generator.integers(0, 256, (count, num_bytes), dtype=np.uint8)
    for at in halves:
        raw[:, at : at + 2] = generator.uniform(0.3, 1, (count, 1)).astype(np.float16).view(np.uint8)
        raw[:, at : at + 2] = (raw[:, at : at + 2].copy().view(np.float16) * np.float16(size)).view(np.uint8)
    return raw.reshape(len(values), -1), number


def add_metadata(writer: Any, config: Any, arch: str) -> None:
    rope = config.rope_parameters
    full = rope.get("full_attention", rope)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(full["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    if getattr(config, "head_dim", None):
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    if full["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(full["factor"])
    if arch == "gemma3":
        writer.add_sliding_window(config.sliding_window)


def write(file: Path, name: str, kinds: tuple[Mapping[str, str], ...] = KINDS, **fields: Any) -> Written:
    """A model as llama.cpp's converter writes it. ``drop`` and ``extra`` among the fields are about tensors."""
    model, arch = make_model(name), ARCHITECTURES[name]
    drop, extra = fields.pop("drop", ()), fields.pop("extra", {})
    generator = np.random.default_rng(3)
    names = gguf.get_tensor_name_map(next(a for a, n in gguf.MODEL_ARCH_NAMES.items() if n == arch), 7)
    heads = {"attn_q": model.config.num_attention_heads, "attn_k": model.config.num_key_value_heads}
    writer = gguf.GGUFWriter(file, arch)
    add_metadata(writer, model.config, arch)
    for key, value in fields.items():
        writer.add_key_value(key, value, gguf.GGUFValueType.get_type(value))
    expected = {}
    for key, parameter in model.state_dict().items():
        target = names.get_name(key, try_suffixes=(".weight", ".bias"))
        if (key == "lm_head.weight" and model.config.tie_word_embeddings) or target in drop:
            continue
        values, stem = parameter.numpy(), target.removesuffix(".weight").removesuffix(".bias").rpartition(".")[2]
        offset = 1.0 if arch == "gemma3" and "norm" in key else 0.0
        if arch == "llama" and stem in heads:
            values = interleave(values, heads[stem])
        first = not target.startswith("blk.") or target.startswith("blk.0.")
        kind = kinds[0 if first else -1].get(stem, "F32") if values.ndim == 2 else "F32"
        raw, number = stored(values + np.float32(offset), kind, generator)
        writer.add_tensor(target, raw, raw_dtype=number)
        back = gguf.dequantize(raw, number) if number is not None else raw.astype(np.float32)
        if arch == "llama" and stem in heads:
            undo = np.argsort(interleave(np.arange(len(back)), heads[stem]))
            back = back[undo]
        expected[key] = torch.from_numpy(np.ascontiguousarray(back - np.float32(offset)))
    if model.config.tie_word_embeddings:
        expected["lm_head.weight"] = expected["model.embed_tokens.weight"]
    for key, values in extra.items():
        writer.add_tensor(key, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Written(file, model, expected)


def parameters(model: str) -> dict[str, torch.Tensor]:
    """Every parameter as the engine reads it, float32."""
    checkpoint = open_checkpoint(model)
    _, module = build(checkpoint, torch.float32, "cpu")
    wanted = {name: tuple(tensor.shape) for name, tensor in module.named_parameters(remove_duplicate=False)}
    family = family_of(checkpoint.config, model)
    tied = tied_parameters(module)
    claims = claim_all(checkpoint, family, format_of(checkpoint), wanted, matrices(module), tied)
    reader = TensorReader(checkpoint)
    found = {}
    for name, source in claims.sources.items():
        if isinstance(source, Quantized):
            found[name] = source.read({part: reader[one] for part, one in source.tensors.items()}).dequantize()
        else:
            found[name] = reader[source.tensor].float()
    return found


def logits_of(opened: PreparedModel) -> torch.Tensor:
    count = len(TOKENS)
    places = torch.arange(count)
    batch = Batch(TOKENS, places, places, places, (Span(0, count, 0, (0,)),), page_size=16)
    return opened.forward(batch, opened.make_pool(1, 16))


def open_small(file: Path, scheme: str | None = None) -> PreparedModel:
    return open_model(str(file), dtype="float32", device="cpu", scheme=parse_scheme(scheme) if scheme else None)


@pytest.fixture(scope="module", params=MODELS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write(tmp_path_factory.mktemp("gguf") / "tiny.gguf", request.param)


def test_every_parameter_is_what_the_library_says(written: Written) -> None:
    found = parameters(str(written.file))
    assert found.keys() == written.expected.keys()
    for name, expected in written.expected.items():
        assert torch.equal(found[name], expected), name


def test_the_config_is_the_models_own(written: Written) -> None:
    config, _ = build(open_checkpoint(str(written.file)), torch.float32, "cpu")
    own = written.model.config
    for name in (*COMMON, "rope_parameters", "tie_word_embeddings", "attention_bias", "mlp_bias", "layer_types",
                 "query_pre_attn_scalar", "final_logit_softcapping", "hidden_activation", "hidden_act"):  # fmt: skip
        if name not in ("rms_norm_eps", "initializer_range"):
            assert getattr(config, name, None) == getattr(own, name, None), name
    assert config.rms_norm_eps == pytest.approx(own.rms_norm_eps, rel=1e-7)  # float32 in the file


def test_logits_are_transformers_own(written: Written) -> None:
    written.model.load_state_dict(written.expected, strict=True)
    with torch.inference_mode():
        expected = written.model(TOKENS[None], use_cache=False).logits[0]
    found = logits_of(open_small(written.file))
    assert float(expected.std()) > 0.05
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("name", ["llama", "qwen2", "gemma3_text"])
def test_transformers_own_loading_finds_the_same(tmp_path: Path, name: str) -> None:
    from transformers import AutoModelForCausalLM

    written = write(tmp_path / "tiny.gguf", name)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="tiny.gguf", dtype=torch.float32).state_dict()
    ours = parameters(str(written.file))
    assert ours.keys() == theirs.keys()
    assert [key for key in ours if not torch.equal(ours[key], theirs[key])] == []


@pytest.mark.parametrize(("name", "is_reordered"), [("llama", True), ("qwen2", False)])
def test_rows_of_queries_and_keys_are_put_back(tmp_path: Path, name: str, is_reordered: bool) -> None:
    """llama files store them interleaved, with fewer key heads too; qwen2 files do not."""
    written = write(tmp_path / "q8.gguf", name, (dict.fromkeys(KINDS[0], "Q8_0"),))
    found, raw = parameters(str(written.file)), gguf.GGUFReader(written.file)
    for leaf, short in (("q_proj", "attn_q"), ("k_proj", "attn_k")):
        own = written.model.state_dict()[f"model.layers.0.self_attn.{leaf}.weight"].flatten()
        tensor = next(one for one in raw.tensors if one.name == f"blk.0.{short}.weight")
        as_stored = torch.from_numpy(gguf.dequantize(tensor.data, tensor.tensor_type)).flatten()
        cosine = torch.nn.functional.cosine_similarity
        assert cosine(found[f"model.layers.0.self_attn.{leaf}.weight"].flatten(), own, dim=0) > 0.999
        assert (float(cosine(as_stored, own, dim=0)) < 0.5) is is_reordered


def test_a_file_without_a_head_uses_the_embedding(tmp_path: Path) -> None:
    written = write(tmp_path / "tied.gguf", "llama", drop=("output.weight",))
    found = parameters(str(written.file))
    assert torch.equal(found["lm_head.weight"], found["model.embed_tokens.weight"])
    assert logits_of(open_small(written.file)).shape == (len(TOKENS), COMMON["vocab_size"])


def test_a_folder_with_one_file_is_that_file(tmp_path: Path) -> None:
    file = write(tmp_path / "tiny.gguf", "qwen2").file
    names = [identify(str(one), dtype="float32", device="cpu", scheme=None).weights for one in (file, tmp_path)]
    assert names[0] == names[1]
    (tmp_path / "other.gguf").write_bytes(file.read_bytes())
    with pytest.raises(EngineError, match="2 GGUF files: other.gguf; tiny.gguf"):
        open_small(tmp_path)
    with pytest.raises(ModelNotFound, match="there is no file .*gone.gguf"):
        open_small(tmp_path / "gone.gguf")


def test_a_header_with_changed_bytes_is_read_or_refused(tmp_path: Path) -> None:
    """Whatever a byte of the header becomes, the outcome is a checkpoint or an EngineError."""
    tokens = [str(number) for number in range(100)]
    file = write(tmp_path / "tiny.gguf", "llama", **{"tokenizer.ggml.tokens": tokens}).file
    whole, draw = file.read_bytes(), np.random.default_rng(8)
    start, refused = min(one.offset for one in read_gguf(file).tensors.values()), 0
    for at in draw.integers(0, start, 600):
        content = bytearray(whole)
        content[at] = draw.integers(0, 256)
        file.write_bytes(content)
        try:
            assert open_checkpoint(str(file)).tensors
        except EngineError:
            refused += 1
    assert 100 < refused < 600


def test_a_hub_repository_without_a_config_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda model, **kwargs: str(tmp_path))
    with pytest.raises(ModelNotFound, match=r"org/name has no config.json.*hf download ORG/NAME FILE.gguf"):
        open_checkpoint("org/name")


def test_a_config_that_says_gguf_over_other_files_is_refused(tmp_path: Path) -> None:
    model = make_model("llama")
    model.save_pretrained(tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(settings | {"quantization_config": {"quant_method": "gguf"}}))
    with pytest.raises(EngineError, match="its config says gguf, but its tensors are in safetensors"):
        open_small(tmp_path)


def test_the_digest_sees_a_changed_byte_and_a_changed_setting(tmp_path: Path) -> None:
    def digest(file: Path) -> str:
        checkpoint = open_checkpoint(str(file))
        return weights_digest(checkpoint, family_of(checkpoint.config, "m"))

    file = write(tmp_path / "a.gguf", "llama").file
    before, place = digest(file), read_gguf(file).tensors["blk.1.ffn_up.weight"]
    content = bytearray(file.read_bytes())
    content[place.offset + place.num_bytes - 1] ^= 1
    file.write_bytes(content)
    assert digest(file) != before
    scaled = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 2.0}
    assert digest(write(tmp_path / "b.gguf", "llama", **scaled).file) != before


def test_a_scheme_applies_to_plain_weights_only(tmp_path: Path) -> None:
    plain = write(tmp_path / "f16.gguf", "llama", (dict.fromkeys(KINDS[0], "F16"),))
    assert open_small(plain.file, "w8a8").info.scheme == "w8a8"
    with pytest.raises(EngineError, match=r"compressed already \(Q.*Leave out :w8a8"):
        open_small(write(tmp_path / "q.gguf", "llama").file, "w8a8")


def test_bits_are_those_of_the_file(tmp_path: Path) -> None:
    info = open_small(write(tmp_path / "q4.gguf", "llama", (dict.fromkeys(KINDS[0], "Q4_0"),)).file).info
    assert info.bits_per_weight == 4.5


def test_other_types_are_refused_by_name(tmp_path: Path) -> None:
    """All of them in one message: an i-quant of two bits, integers, and blocks where there is no matrix."""
    written = write(tmp_path / "t.gguf", "llama", extra={"blk.0.counts": np.arange(4, dtype=np.int32)})
    content = bytearray(written.file.read_bytes())
    at = content.index(b"blk.0.ffn_gate.weight") + len("blk.0.ffn_gate.weight") + 4 + 2 * 8
    content[at] = gguf.GGMLQuantizationType.IQ2_XS.value
    at = content.index(b"blk.1.ffn_norm.weight") + len("blk.1.ffn_norm.weight") + 4 + 8
    content[at] = gguf.GGMLQuantizationType.Q8_0.value
    written.file.write_bytes(content)
    with pytest.raises(UnsupportedModel) as caught:
        open_small(written.file)
    message = str(caught.value)
    assert "IQ2_XS of 2 dimensions (1): model.layers.0.mlp.gate_proj.weight" in message
    assert "I32 of 1 dimensions (1): blk.0.counts" in message
    assert "Q8_0 of 1 dimensions (1): model.layers.1.post_attention_layernorm.weight" in message


def test_missing_left_over_and_misshapen_tensors_are_all_named(tmp_path: Path) -> None:
    written = write(
        tmp_path / "m.gguf", "llama", drop=("blk.1.attn_v.weight", "blk.0.ffn_norm.weight", "blk.0.ffn_up.weight"),
        extra={"blk.0.ffn_gate_inp.weight": np.ones((4, 256), dtype=np.float32), "odd": np.ones(3, dtype=np.float32),
               "blk.0.ffn_up.weight": np.ones((8, 256), dtype=np.float32)},
    )  # fmt: skip
    with pytest.raises(EngineError) as caught:
        open_small(written.file)
    message = str(caught.value)
    missing = "model.layers.0.post_attention_layernorm.weight, model.layers.1.self_attn.v_proj.weight"
    assert f"missing (2): {missing}" in message
    assert "not part of the model (2): blk.0.ffn_gate_inp.weight, odd" in message
    assert "model.layers.0.mlp.up_proj.weight [8, 256] for [512, 256]" in message


def test_blocks_of_another_shape_are_named(tmp_path: Path) -> None:
    tokens = [str(number) for number in range(101)]
    written = write(tmp_path / "s.gguf", "qwen2", **{"tokenizer.ggml.tokens": tokens})
    with pytest.raises(EngineError, match=r"embed_tokens.weight is Q8_0 \[100, 256\], not \[101, 256\]"):
        open_small(written.file)


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1"])
def test_a_scale_that_is_no_number_is_named(tmp_path: Path, kind: str) -> None:
    written = write(tmp_path / "n.gguf", "llama", (dict.fromkeys(KINDS[0], kind),))
    place = read_gguf(written.file).tensors["blk.1.attn_output.weight"]
    content = bytearray(written.file.read_bytes())
    last = place.offset + place.num_bytes - gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]][1]
    at = last + (2 if kind == "Q4_1" else 0)
    content[at : at + 2] = np.array([np.nan], dtype=np.float16).tobytes()
    written.file.write_bytes(content)
    with pytest.raises(EngineError, match=f"model.layers.1.self_attn.o_proj: its {kind} scales are not finite"):
        open_small(written.file)


def test_the_real_file_equals_transformers_dequantized_load() -> None:
    file = os.environ.get("EVALCARD_TEST_GGUF")
    if not file:
        pytest.skip("EVALCARD_TEST_GGUF names no GGUF file")
    from transformers import AutoModelForCausalLM

    path = Path(file)
    theirs = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager"
    )
    ours = parameters(file)
    state = theirs.state_dict()
    assert ours.keys() == state.keys()
    assert [key for key in ours if not torch.equal(ours[key], state[key])] == []
    with torch.inference_mode():
        expected = theirs(TOKENS[None], use_cache=False).logits[0]
    atol = 1e-5 * float(expected.abs().max())
    torch.testing.assert_close(logits_of(open_small(path)), expected, rtol=1e-4, atol=atol)
