"""A quantized KV cache in whole models: against transformers with rounded keys and values, and against itself."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from evalcard_engine.attention.hook import ATTENTION_NAME, packed_attention
from evalcard_engine.batch import Batch, Span
from evalcard_engine.errors import EngineError
from evalcard_engine.models import PreparedModel, identify, open_model
from evalcard_engine.quant.scheme import parse_scheme

SIZES = {
    "vocab_size": 97, "hidden_size": 48, "intermediate_size": 100, "num_hidden_layers": 3, "num_attention_heads": 6,
    "num_key_value_heads": 2, "max_position_embeddings": 1024, "initializer_range": 0.25, "pad_token_id": 0,
}  # fmt: skip
FAMILIES = {
    "llama": {"tie_word_embeddings": False},
    "qwen3": {"head_dim": 12, "num_key_value_heads": 1},
    "gemma3_text": {
        "head_dim": 20, "sliding_window": 7, "query_pre_attn_scalar": 30,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    },
}  # fmt: skip
SCALES = {"key": 0.021, "value": 0.0043}
"""Of the checkpoints that bring their own, times the layer's number from 1."""

Rule = Callable[[str, int, torch.Tensor], torch.Tensor]
"""(key or value, layer, [.., size]) -> what a cache gives back."""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    from transformers import AutoConfig, AutoModelForCausalLM

    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in made:
            torch.manual_seed(4)
            made[name] = tmp_path_factory.mktemp(name)
            config = AutoConfig.for_model(name, **{**SIZES, **FAMILIES[name]})
            AutoModelForCausalLM.from_config(config).save_pretrained(made[name])
        return made[name]

    return make


def with_scales(folder: Path, source: Path, kind: str) -> Path:
    """The same weights with a compressed-tensors KV cache alone: ``float`` or ``int`` by tensor."""
    scheme = {"num_bits": 8, "type": kind, "strategy": "tensor", "dynamic": False, "symmetric": True}
    weights = load_file(source / "model.safetensors")
    for layer in range(SIZES["num_hidden_layers"]):
        for meaning, scale in SCALES.items():
            weights[f"model.layers.{layer}.self_attn.{meaning[0]}_scale"] = torch.tensor([scale * (layer + 1)])
    save_file(weights, folder / "model.safetensors")
    quantization = {"quant_method": "compressed-tensors", "config_groups": {}, "kv_cache_scheme": scheme}
    config = json.loads((source / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": quantization}))
    return folder


def fp8(values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Three bits of mantissa, exponents from -6, ties to even, at most 448: rounded by frexp, not by torch's cast."""
    ratios = (values / scale).clamp(-448, 448).double()
    _, exponent = torch.frexp(ratios)
    step = torch.exp2((exponent - 1).clamp_min(-6).double() - 3)
    return ((ratios / step).round() * step).float() * scale


def rule_of(kind: str) -> Rule:
    """The rule by name: a scheme on the fly, or ``float`` and ``int`` with the stored scales."""

    def rounded(meaning: str, layer: int, values: torch.Tensor) -> torch.Tensor:
        stored = torch.tensor(SCALES[meaning] * (layer + 1))
        if kind == "kv=fp8":
            return fp8(values, torch.tensor(1.0))
        if kind == "float":
            return fp8(values, stored)
        scale = stored if kind == "int" else values.abs().amax(-1, keepdim=True) / 127
        return (values / scale).round().clamp(-128, 127) * scale

    return rounded


def run(model: PreparedModel, tokens: torch.Tensor, sizes: tuple[int, ...] = (10_000,)) -> torch.Tensor:
    """Logits of all tokens, in chunks of these sizes (the last repeated), on one sequence's own pages."""
    pages = tuple(range(-(-len(tokens) // 16)))
    pool, found, start = model.make_pool(len(pages), 16), [], 0
    while start < len(tokens):
        stop = min(start + sizes[min(len(found), len(sizes) - 1)], len(tokens))
        place = torch.arange(start, stop)
        span = Span(0, stop - start, start, pages[: -(-stop // 16)])
        batch = Batch(tokens[start:stop], place, place, torch.arange(stop - start), (span,), 16)
        found.append(model.forward(batch, pool))
        start = stop
    return torch.cat(found)


Entered = list[tuple[torch.Tensor, torch.Tensor]]
"""By layer, the keys and values that were handed to the engine's attention, before anything was rounded."""


def watched(model: PreparedModel, tokens: torch.Tensor) -> tuple[torch.Tensor, Entered]:
    """`run`, and what entered each layer's attention."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    seen: Entered = []

    def spy(module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        seen.append((key.clone(), value.clone()))
        return packed_attention(module, query, key, value, *args, **kwargs)

    ALL_ATTENTION_FUNCTIONS.register(ATTENTION_NAME, spy)
    try:
        return run(model, tokens), seen
    finally:
        ALL_ATTENTION_FUNCTIONS.register(ATTENTION_NAME, packed_attention)


def reference(
    folder: Path, name: str, tokens: torch.Tensor, rule: Rule, entered: Entered, monkeypatch: pytest.MonkeyPatch
) -> torch.Tensor:
    """transformers' eager model with keys and values rounded on their way into its attention.

    Rounded are those that the engine had, once transformers' own are known to be as good as equal: a last bit may
    decide which way a number is rounded.
    """
    from importlib import import_module

    from transformers import AutoConfig, AutoModelForCausalLM

    family = import_module(f"transformers.models.{name.removesuffix('_text')}.modeling_{name.removesuffix('_text')}")
    eager = family.eager_attention_forward

    def rounded(module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *args: Any, **kwargs: Any):
        layer = module.layer_idx
        for own, engines in zip((key, value), entered[layer], strict=True):
            torch.testing.assert_close(own, engines, atol=2e-5, rtol=1e-4)
        key, value = (rule(m, layer, one) for m, one in zip(("key", "value"), entered[layer], strict=True))
        return eager(module, query, key, value, *args, **kwargs)

    monkeypatch.setattr(family, "eager_attention_forward", rounded)
    weights = {key: one for key, one in load_file(folder / "model.safetensors").items() if not key.endswith("_scale")}
    config = json.loads((folder / "config.json").read_text())
    config.pop("quantization_config", None)
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(**config), dtype=torch.float32, attn_implementation="eager"
    ).eval()
    model.load_state_dict(weights, strict=False)
    model.tie_weights()
    with torch.inference_mode():
        logits: torch.Tensor = model(tokens[None], use_cache=False).logits[0]
    return logits


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("kind", ["kv=fp8", "kv=int8", "float", "int"])
def test_logits_are_those_of_rounded_keys_and_values(
    checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    folder, scheme = checkpoint(name), None
    if kind.startswith("kv="):
        scheme = parse_scheme(kind)
    else:
        folder = with_scales(tmp_path, folder, kind)
    tokens = torch.randint(3, 97, (75,), generator=torch.Generator().manual_seed(2))
    model = open_model(str(folder), dtype="float32", device="cpu", scheme=scheme)
    found, entered = watched(model, tokens)
    expected = reference(folder, name, tokens, rule_of(kind), entered, monkeypatch)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
    plain = run(open_model(str(checkpoint(name)), dtype="float32", device="cpu", scheme=None), tokens)
    assert float((found - plain).abs().max()) > 1e-3
    assert torch.equal(run(model, tokens, (20, 1, 1, 30)), found)


def test_the_cache_is_named_and_counted(checkpoint, tmp_path: Path) -> None:
    folder = checkpoint("llama")
    stored = with_scales(tmp_path, folder, "float")
    seen = {}
    texts = (None, "kv=fp8", "kv=int8", "w8a8+kv=fp8")
    for text, where in (*((text, folder) for text in texts), (None, stored)):
        scheme = parse_scheme(text) if text else None
        model = open_model(str(where), dtype="float32", device="cpu", scheme=scheme)
        assert model.identity == identify(str(where), dtype="float32", device="cpu", scheme=scheme)
        assert model.make_pool(3, 16).num_bytes == 3 * model.page_bytes(16)
        seen[text, where] = model
    numerics = [model.numerics for model in seen.values()]
    weights = [model.identity.weights for model in seen.values()]
    assert len(set(numerics)) == len(set(weights)) == 5
    caches = [model.info.kv_cache for model in seen.values()]
    assert caches == [
        "float32", "fp8_e4m3, scale 1", "int8, a scale for each token and head", "fp8_e4m3, scale 1",
        "fp8_e4m3, scales of the checkpoint",
    ]  # fmt: skip
    # Per token and layer two heads of eight, keys and values; int8 with a float32 for each of the four.
    assert [model.page_bytes(1) for model in seen.values()] == [3 * size for size in (128, 32, 48, 32, 32)]
    only = seen["kv=fp8", folder]
    assert only.info.bits_per_weight == 32 and only.info.scheme == "kv=fp8" and "dequantized" not in only.numerics


def test_a_scheme_of_the_cache_alone_leaves_compressed_weights_alone(checkpoint, tmp_path: Path) -> None:
    """As the same weights dequantized, with the same cache."""
    args = {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True, "dynamic": False}
    quantization = {
        "quant_method": "compressed-tensors", "format": "naive-quantized", "ignore": ["lm_head"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": args}},
    }  # fmt: skip
    weights = load_file(checkpoint("llama") / "model.safetensors")
    config = json.loads((checkpoint("llama") / "config.json").read_text())
    stored, dequantized = dict(weights), dict(weights)
    for name in [name for name in weights if name.endswith("_proj.weight")]:
        scales = weights[name].abs().amax(1, keepdim=True) / 448
        stored[name], stored[f"{name}_scale"] = (weights[name] / scales).to(torch.float8_e4m3fn), scales
        dequantized[name] = stored[name].float() * scales
    told = {"quantization_config": quantization}
    for folder, tensors, extra in (("stored", stored, told), ("plain", dequantized, {})):
        (tmp_path / folder).mkdir()
        save_file(tensors, tmp_path / folder / "model.safetensors")
        (tmp_path / folder / "config.json").write_text(json.dumps({**config, **extra}))
    tokens = torch.arange(5, 45)
    coded, plain = (
        open_model(str(tmp_path / folder), dtype="float32", device="cpu", scheme=parse_scheme("kv=int8"))
        for folder in ("stored", "plain")
    )
    assert torch.equal(run(coded, tokens), run(plain, tokens))
    assert "quantized linears" in coded.numerics and coded.info.bits_per_weight < 10
    with pytest.raises(EngineError, match="is compressed already.*:w8a8\\+kv=int8"):
        open_model(str(tmp_path / "stored"), dtype="float32", device="cpu", scheme=parse_scheme("w8a8+kv=int8"))


def test_scales_of_a_checkpoint_are_not_replaced_in_silence(checkpoint, tmp_path: Path) -> None:
    folder = with_scales(tmp_path, checkpoint("llama"), "float")
    with pytest.raises(EngineError, match="comes with scales for its KV cache .*which :kv=fp8 would replace"):
        identify(str(folder), dtype="float32", device="cpu", scheme=parse_scheme("kv=fp8"))


def test_a_token_that_overflows_shows(checkpoint, tmp_path: Path) -> None:
    """Codes have no infinity, and int8 no NaN: the answer must not be made of saturated numbers."""
    weights = load_file(checkpoint("llama") / "model.safetensors")
    weights["model.layers.1.self_attn.v_proj.weight"][3] = 3e38
    save_file(weights, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((checkpoint("llama") / "config.json").read_text())
    for text in ("kv=fp8", "kv=int8"):
        model = open_model(str(tmp_path), dtype="float32", device="cpu", scheme=parse_scheme(text))
        assert bool(run(model, torch.arange(5, 45)).isnan().all(dim=-1)[-1])
