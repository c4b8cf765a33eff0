"""Whole models: packed and paged against transformers' own eager attention, and against themselves, bit for bit."""

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from evalcard_engine.arithmetic.cpu_plans import cpu_features
from evalcard_engine.attention import compiled
from evalcard_engine.attention.hook import ATTENTION_NAME, packed_attention
from evalcard_engine.batch import Batch, Span
from evalcard_engine.errors import EngineError, UnsupportedModel
from evalcard_engine.models import PreparedModel, identify, open_model
from evalcard_engine.native import build
from evalcard_engine.quant.scheme import parse_scheme

VOCAB = 97
COMMON = {
    "vocab_size": VOCAB,
    "hidden_size": 48,
    "intermediate_size": 100,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "initializer_range": 0.25,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
WINDOWED = ["sliding_attention", "full_attention", "sliding_attention"]
CONFIGS = {
    "llama": {"tie_word_embeddings": False},
    "llama-3": {
        "model_type": "llama",
        "tie_word_embeddings": True,
        "attention_bias": True,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    },
    "mistral": {"sliding_window": 11, "head_dim": 16},
    "mistral-wide": {"model_type": "mistral", "sliding_window": 300, "head_dim": 16},
    "qwen2": {"use_sliding_window": True, "sliding_window": 9, "layer_types": WINDOWED},
    "qwen3": {"head_dim": 12, "num_key_value_heads": 1},
    "gemma3_text": {
        "head_dim": 20,
        "sliding_window": 7,
        "layer_types": WINDOWED,
        "query_pre_attn_scalar": 30,
        "final_logit_softcapping": 8.0,
    },
}


def save_model(folder: Path, name: str) -> Path:
    """A small random model of a family, as save_pretrained writes it."""
    from transformers import AutoConfig, AutoModelForCausalLM

    settings = {**COMMON, "model_type": name, **CONFIGS[name]}
    torch.manual_seed(sum(name.encode()))
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(settings.pop("model_type"), **settings))
    for parameter_name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, mean=0.0 if "bias" in parameter_name else 1.0, std=0.2)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory):
    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in made:
            made[name] = save_model(tmp_path_factory.mktemp(name), name)
        return made[name]

    return make


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def open_small(folder: Path, scheme: str | None = None, dtype: str = "float32") -> PreparedModel:
    parsed = parse_scheme(scheme) if scheme else None
    return open_model(str(folder), dtype=dtype, device="cpu", scheme=parsed)


def sequences(lengths: list[int]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    return [torch.randint(3, VOCAB, (length,), generator=generator) for length in lengths]


class Packed:
    """Sequences on scattered pages of one pool, and steps over parts of them."""

    def __init__(self, model: PreparedModel, tokens: list[torch.Tensor], page_size: int) -> None:
        self.model, self.tokens, self.page_size = model, tokens, page_size
        counts = [-(-len(ids) // page_size) for ids in tokens]
        order = torch.randperm(sum(counts) + 3, generator=torch.Generator().manual_seed(1)).tolist()
        self.pages = [tuple(order.pop() for _ in range(count)) for count in counts]
        self.pool = model.make_pool(sum(counts) + 3, page_size)

    def step(self, parts: list[tuple[int, int, int]]) -> list[torch.Tensor]:
        """Run tokens [start, stop) of the sequences named in parts (number, start, stop); all their logits."""
        spans, ids, positions, slots = [], [], [], []
        for number, start, stop in parts:
            place = torch.arange(start, stop)
            spans.append(
                Span(sum(map(len, ids)), stop - start, start, self.pages[number][: -(-stop // self.page_size)])
            )
            ids.append(self.tokens[number][start:stop])
            positions.append(place)
            pages = torch.tensor(self.pages[number])
            slots.append(pages[place // self.page_size] * self.page_size + place % self.page_size)
        rows = torch.arange(sum(map(len, ids)))
        batch = Batch(torch.cat(ids), torch.cat(positions), torch.cat(slots), rows, tuple(spans), self.page_size)
        return list(self.model.forward(batch, self.pool).split([stop - start for _, start, stop in parts]))

    def whole(self) -> list[torch.Tensor]:
        return self.step([(number, 0, len(ids)) for number, ids in enumerate(self.tokens)])

    def one_by_one(self, sizes: tuple[int, ...]) -> list[torch.Tensor]:
        """Each sequence alone, in chunks of the given sizes, the last repeated."""
        outputs = []
        for number, ids in enumerate(self.tokens):
            parts, start = [], 0
            while start < len(ids):
                stop = min(start + sizes[min(len(parts), len(sizes) - 1)], len(ids))
                parts += self.step([(number, start, stop)])
                start = stop
            outputs.append(torch.cat(parts))
        return outputs


def assert_same_bits(left: list[torch.Tensor], right: list[torch.Tensor]) -> None:
    for number, (a, b) in enumerate(zip(left, right, strict=True)):
        assert torch.equal(a, b), (number, tuple(a.shape), (a - b).abs().max())


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("page_size", [4, 16, 256])
def test_packed_equals_eager(checkpoint, name: str, page_size: int) -> None:
    from transformers import AutoModelForCausalLM

    folder = checkpoint(name)
    eager = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    tokens = sequences([1, page_size - 1, page_size, page_size + 1, 7, 13, 31, 2 * page_size + 5])
    found = Packed(open_small(folder), tokens, page_size).whole()
    for ids, logits in zip(tokens, found, strict=True):
        with torch.no_grad():
            expected = eager(ids[None], use_cache=False).logits[0]
        torch.testing.assert_close(logits, expected, rtol=1e-5, atol=2e-5 * float(expected.abs().max()))


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_bit_depends_on_the_step(checkpoint, name: str, dtype: str) -> None:
    """Alone or packed, whole or in chunks, on large pages or small ones: the same logits to the last bit."""
    tokens = sequences([1, 255, 256, 257, 530])
    model = open_small(checkpoint(name), dtype=dtype)
    assert "rows exact" in model.numerics
    whole = Packed(model, tokens, 256).whole()
    assert_same_bits(Packed(model, tokens, 256).one_by_one((5, 1, 2, 121, 300)), whole)
    assert_same_bits(Packed(model, tokens[1:], 16).one_by_one((254,)), whole[1:])


@pytest.mark.parametrize("scheme", [None, "w8a8", "w4a16"])
def test_no_bit_depends_on_the_threads(checkpoint, two_threads, scheme: str | None) -> None:
    tokens = sequences([3, 300])
    model = open_small(checkpoint("qwen2"), scheme)
    whole = Packed(model, tokens, 256).whole()
    torch.set_num_threads(1)
    assert_same_bits(Packed(model, tokens, 256).whole(), whole)


def test_decoding_steps_equal_the_prefill(checkpoint) -> None:
    """One token of each sequence a step, sequences of very different lengths side by side."""
    tokens = sequences([40, 300, 271, 520, 9])
    model = open_small(checkpoint("gemma3_text"))
    whole = Packed(model, tokens, 256).whole()
    packed = Packed(model, tokens, 256)
    packed.step([(number, 0, len(ids) - 4) for number, ids in enumerate(tokens)])
    for back in (4, 3, 2, 1):
        logits = packed.step([(number, len(ids) - back, len(ids) - back + 1) for number, ids in enumerate(tokens)])
        assert_same_bits([row[0] for row in logits], [rows[-back] for rows in whole])


def test_a_shared_prefix_changes_no_bit(checkpoint) -> None:
    """Two sequences that read one prefix's page, against each with pages of its own."""
    prefix, *ends = sequences([256, 5, 9])
    tokens = [torch.cat((prefix, end)) for end in ends]
    model = open_small(checkpoint("llama"))
    apart = Packed(model, tokens, 256).whole()
    shared = Packed(model, tokens, 256)
    shared.step([(0, 0, 256)])
    shared.pages[1] = (shared.pages[0][0], *shared.pages[1][1:])
    together = shared.step([(0, 256, len(tokens[0])), (1, 256, len(tokens[1]))])
    assert_same_bits(together, [rows[256:] for rows in apart])


@pytest.mark.parametrize("scheme", ["w8a8", "w4a16"])
def test_quantized_models_are_exact_too(checkpoint, scheme: str) -> None:
    tokens = sequences([1, 17, 260])
    model = open_small(checkpoint("qwen2"), scheme)
    whole = Packed(model, tokens, 256).whole()
    assert_same_bits(Packed(model, tokens, 256).one_by_one((3, 1, 90)), whole)
    plain = Packed(open_small(checkpoint("qwen2")), tokens, 256).whole()
    assert not torch.equal(whole[2], plain[2])


def test_w4a16_equals_the_model_with_its_weights_rounded_beforehand(checkpoint, tmp_path: Path) -> None:
    from evalcard_engine.quant.quantize import quantize

    folder, scheme = checkpoint("llama"), parse_scheme("w4a16")
    rounded = {
        name: quantize(tensor, scheme).dequantize() if ".layers." in name and tensor.dim() == 2 else tensor
        for name, tensor in load_file(folder / "model.safetensors").items()
    }
    save_file(rounded, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    tokens = sequences([20])
    quantized = open_small(folder, "w4a16")
    assert_same_bits(Packed(quantized, tokens, 256).whole(), Packed(open_small(tmp_path), tokens, 256).whole())
    # Groups of 48 and 100 weights, each 4 bits and a float32 scale.
    assert 4.5 < quantized.info.bits_per_weight < 4.7


def test_half_precision_is_near_and_keeps_rows_apart_where_it_says_so(checkpoint) -> None:
    tokens = sequences([17, 260])
    model = open_small(checkpoint("llama"), dtype="bfloat16")
    whole = Packed(model, tokens, 256).whole()
    exact = Packed(open_small(checkpoint("llama")), tokens, 256).whole()
    relative = (whole[1] - exact[1]).norm() / exact[1].norm()
    assert 0 < relative < 0.05, relative
    if "rows exact" in model.numerics:
        assert_same_bits(Packed(model, tokens, 256).one_by_one((3, 1, 90)), whole)


@pytest.mark.parametrize("scheme", [None, "w4a16+head=w8"])
def test_logits_of_half_precision_are_float32(checkpoint, scheme: str | None) -> None:
    """Of bfloat16 eight bits would be left, and tokens that the model tells apart would tie."""
    model = open_small(checkpoint("llama"), scheme, dtype="bfloat16")
    (logits,) = Packed(model, sequences([60]), 256).whole()
    assert logits.dtype == torch.float32
    assert float((logits != logits.bfloat16().float()).float().mean()) > 0.9
    hidden = torch.randn(3, 48, generator=torch.Generator().manual_seed(1)).bfloat16()
    head = model._module.lm_head
    assert torch.equal(head(hidden), head(hidden.float()))


def test_a_broken_sequence_spoils_only_itself(checkpoint) -> None:
    """A token whose values overflow leaves infinities in its pages; whoever gets the pages next must not see them."""
    model = open_small(checkpoint("llama"))
    model._module.get_submodule("model.embed_tokens").weight.data[96] = torch.nan
    good = [ids.clamp(max=95) for ids in sequences([20, 300])]
    clean = Packed(model, good, 256).whole()
    packed = Packed(model, [torch.full((256,), 96), torch.full((512,), 96)], 256)
    assert all(bool(rows.isnan().all()) for rows in packed.whole())
    packed.tokens = good
    assert_same_bits(packed.whole(), clean)
    assert_same_bits(packed.one_by_one((7, 1, 100)), clean)


def test_a_missing_compiler_is_told_of(checkpoint, monkeypatch) -> None:
    nothing = build.Built(None, "no C compiler found")
    monkeypatch.setattr(build, "built", lambda name: nothing)
    monkeypatch.setattr(compiled, "serves", lambda dtype: False)
    found = open_small(checkpoint("llama"))
    could_be = cpu_features() in build.CPU_FLAGS
    assert found.info.not_compiled == ("no C compiler found" if could_be else "")
    assert "attention by cc" not in found.numerics
    monkeypatch.setenv(build.SWITCH, "0")
    assert open_small(checkpoint("llama")).info.not_compiled == ""


def test_transformers_hands_over_no_mask(checkpoint, monkeypatch) -> None:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    seen = []

    def spy(module, query, key, value, attention_mask, **kwargs):
        seen.append((module.layer_idx, attention_mask))
        return packed_attention(module, query, key, value, attention_mask, **kwargs)

    # Compiled rows come with attention modules of ours, which transformers hands nothing.
    monkeypatch.setattr(compiled, "serves", lambda dtype: False)
    models = {name: open_small(checkpoint(name)) for name in CONFIGS}
    ALL_ATTENTION_FUNCTIONS.register(ATTENTION_NAME, spy)
    try:
        for model in models.values():
            seen.clear()
            Packed(model, sequences([9, 30]), 16).whole()
            assert seen == [(0, None), (1, None), (2, None)]
    finally:
        ALL_ATTENTION_FUNCTIONS.register(ATTENTION_NAME, packed_attention)


def test_logits_of_chosen_rows_only(checkpoint) -> None:
    model = open_small(checkpoint("llama"))
    (ids,) = sequences([12])
    place = torch.arange(12)
    pool = model.make_pool(1, 256)
    for rows in ([11], [], [0, 5]):
        batch = Batch(ids, place, place, torch.tensor(rows, dtype=torch.int64), (Span(0, 12, 0, (0,)),), 256)
        assert model.forward(batch, pool).shape == (len(rows), VOCAB)


def test_text_part_of_a_multimodal_checkpoint(checkpoint, tmp_path: Path) -> None:
    folder = checkpoint("gemma3_text")
    weights = load_file(folder / "model.safetensors")
    renamed = {f"language_model.{name}": tensor for name, tensor in weights.items()}
    renamed["vision_tower.vision_model.post_layernorm.weight"] = torch.ones(4)
    renamed["multi_modal_projector.mm_soft_emb_norm.weight"] = torch.ones(4)
    save_file(renamed, tmp_path / "model.safetensors")
    text = json.loads((folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gemma3", "text_config": text}))
    tokens = sequences([10])
    multimodal = open_small(tmp_path)
    assert_same_bits(Packed(multimodal, tokens, 256).whole(), Packed(open_small(folder), tokens, 256).whole())
    assert multimodal.info.model_type == "gemma3"


def test_info_counts_what_is_there(checkpoint) -> None:
    info = open_small(checkpoint("llama-3")).info
    weights = load_file(checkpoint("llama-3") / "model.safetensors")
    assert info.num_parameters == sum(tensor.numel() for tensor in weights.values())
    assert info.weight_bytes == sum(tensor.nbytes for tensor in weights.values())
    assert info.bits_per_weight == 32.0
    assert (info.vocab_size, info.max_positions, info.dtype, info.scheme) == (VOCAB, 2048, "float32", None)


def test_bits_of_a_quantized_model(checkpoint) -> None:
    info = open_small(checkpoint("llama"), "w8a8").info
    # Each output channel's float32 scale on top of its 8 bits a weight.
    widths = [48, 48, 48, 48, 48, 48, 100]
    outs = [48, 16, 16, 48, 100, 100, 48]
    weights = sum(width * out for width, out in zip(widths, outs, strict=True))
    assert info.bits_per_weight == pytest.approx(8 + 32 * sum(outs) / weights)
    assert info.scheme == "w8a8"


def test_page_bytes_is_what_a_pool_takes(checkpoint) -> None:
    model = open_small(checkpoint("qwen3"))
    assert model.make_pool(3, 16).num_bytes == 3 * model.page_bytes(16)


def test_identity_is_that_of_the_open_model(checkpoint) -> None:
    folder = str(checkpoint("llama"))
    plain = identify(folder, dtype="float32", device="cpu", scheme=None)
    model = open_small(checkpoint("llama"))
    assert (plain.weights, plain.numerics) == (model.info.weights_digest, model.numerics)
    quantized = identify(folder, dtype="float32", device="cpu", scheme=parse_scheme("w8a8"))
    assert model.identity == plain and open_small(checkpoint("llama"), "w8a8").identity == quantized
    assert quantized.weights.startswith(plain.weights) and "w8a8" in quantized.weights
    assert quantized.numerics != plain.numerics


def test_refusals_name_the_reason(checkpoint, tmp_path: Path) -> None:
    config = json.loads((checkpoint("llama") / "config.json").read_text())
    save_file(load_file(checkpoint("llama") / "model.safetensors"), tmp_path / "model.safetensors")

    def refused(kind: type[Exception], match: str, **changes: object) -> None:
        (tmp_path / "config.json").write_text(json.dumps({**config, **changes}))
        with pytest.raises(kind, match=match):
            open_small(tmp_path)

    refused(UnsupportedModel, "--backend vllm", model_type="opt")
    refused(UnsupportedModel, "hqq", quantization_config={"quant_method": "hqq"})
    refused(UnsupportedModel, "'dynamic'", rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0})
    refused(UnsupportedModel, "'quick_gelu'", hidden_act="quick_gelu")
    refused(EngineError, "another shape", intermediate_size=101)
    with pytest.raises(EngineError, match="bfloat16"):
        open_model(str(checkpoint("llama")), dtype="int3", device="cpu", scheme=None)


def test_the_real_model_agrees_with_transformers() -> None:
    folder = os.environ.get("EVALCARD_TEST_MODEL")
    if not folder:
        pytest.skip("EVALCARD_TEST_MODEL names no checkpoint folder")
    from transformers import AutoModelForCausalLM

    model = open_model(folder, dtype="float32", device="cpu", scheme=None)
    eager = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    tokens = sequences([1, 37, 300])
    whole = Packed(model, tokens, 256).whole()
    for ids, logits in zip(tokens, whole, strict=True):
        with torch.no_grad():
            expected = eager(ids[None], use_cache=False).logits[0]
        torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))
    assert_same_bits(Packed(model, tokens, 256).one_by_one((100, 1, 1, 60)), whole)


def test_the_real_model_in_bfloat16_is_no_further_from_float32_than_transformers_is() -> None:
    folder = os.environ.get("EVALCARD_TEST_MODEL")
    if not folder:
        pytest.skip("EVALCARD_TEST_MODEL names no checkpoint folder")
    from transformers import AutoModelForCausalLM

    (ids,) = sequences([600])
    exact, theirs = (
        AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
        for dtype in (torch.float32, torch.bfloat16)
    )
    with torch.no_grad():
        expected, rounded = (model(ids[None], use_cache=False).logits[0].float() for model in (exact, theirs))
    (found,) = Packed(open_model(folder, dtype="bfloat16", device="cpu", scheme=None), [ids], 256).whole()
    ours, peers = ((logits - expected).norm() / expected.norm() for logits in (found, rounded))
    assert 0 < ours < 1.1 * peers, (ours, peers)


def altered(folder: Path, source: Path, **values: object) -> str:
    """The same weights with other values in config.json."""
    config = json.loads((source / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | values))
    (folder / "model.safetensors").write_bytes((source / "model.safetensors").read_bytes())
    return str(folder)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_size", "64"),
        ("eos_token_id", "x"),
        ("num_attention_heads", 0),
        ("num_key_value_heads", 5),
        ("num_hidden_layers", 0),
        ("hidden_size", 0),
        ("intermediate_size", 0),
        ("vocab_size", 0),
        ("max_position_embeddings", 0),
        ("head_dim", 15),
        ("dtype", "float8"),
        ("hidden_act", "nonsense"),
        ("intermediate_size", -4),
    ],
)
def test_a_wrong_value_in_the_config_is_refused_before_weights_are_read(
    checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str, value: object
) -> None:
    monkeypatch.setattr("evalcard_engine.models.weights_digest", lambda *_: pytest.fail("weights were read"))
    folder = altered(tmp_path, checkpoint("llama"), **{field: value})
    with pytest.raises(EngineError, match=r"config\.json"):
        identify(folder, dtype="float32", device="cpu", scheme=None)


def test_tensors_that_do_not_fit_and_inexact_activations_are_refused_before_opening(checkpoint, tmp_path: Path) -> None:
    for values, match in (({"num_hidden_layers": 4}, "missing"), ({"hidden_act": "gelu_new"}, "no exact form")):
        with pytest.raises(EngineError, match=match):
            identify(altered(tmp_path, checkpoint("llama"), **values), dtype="float32", device="cpu", scheme=None)


@pytest.mark.parametrize("scheme", [None, "w4a16"])
def test_weights_that_are_no_numbers_are_named_all_at_once(checkpoint, tmp_path: Path, scheme: str | None) -> None:
    folder = altered(tmp_path, checkpoint("llama"))
    weights = load_file(tmp_path / "model.safetensors")
    weights["model.norm.weight"][3] = torch.nan
    weights["model.layers.1.mlp.up_proj.weight"][2, 5] = -torch.inf
    (tmp_path / "model.safetensors").unlink()  # it may be a link to the shared one
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(EngineError) as caught:
        open_model(folder, dtype="float32", device="cpu", scheme=parse_scheme(scheme) if scheme else None)
    assert set(caught.value.faults) == {
        f"{name} holds values that are not finite"
        for name in ("model.norm.weight", "model.layers.1.mlp.up_proj.weight")
    }


@pytest.mark.parametrize(("device", "match"), [("cuda", "no GPU here"), ("tpu", "must be cpu or cuda")])
def test_a_device_that_is_not_there_is_refused(
    checkpoint, monkeypatch: pytest.MonkeyPatch, device: str, match: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(EngineError, match=match):
        identify(str(checkpoint("llama")), dtype="float32", device=device, scheme=None)


def test_weights_that_change_while_they_are_read_are_refused(checkpoint, tmp_path: Path) -> None:
    folder = altered(tmp_path, checkpoint("llama"))

    def rewrite(done: int, total: int) -> None:
        if done == total:
            weights = load_file(checkpoint("llama") / "model.safetensors")
            save_file({name: tensor + 1 for name, tensor in weights.items()}, tmp_path / "new")
            os.replace(tmp_path / "new", tmp_path / "model.safetensors")

    with pytest.raises(EngineError, match="changed while they were read"):
        open_model(folder, dtype="float32", device="cpu", scheme=None, on_progress=rewrite)


def test_the_engine_names_the_weights_it_read(checkpoint) -> None:
    from evalcard_engine.config import EngineConfig
    from evalcard_engine.engine import Engine

    folder, scheme = str(checkpoint("llama")), parse_scheme("w4a16")
    with Engine.open(folder, EngineConfig(device="cpu", dtype="float32", scheme=scheme)) as engine:
        assert engine.weights == identify(folder, dtype="float32", device="cpu", scheme=scheme).weights
