"""Whether weights stay packed: what is chosen, what is said of it, and that no answer depends on it."""

import json
from pathlib import Path

import pytest
import torch

from evalcard_engine import weights_choice
from evalcard_engine.arithmetic.cpu_plans import CPU_PLANS
from evalcard_engine.config import WEIGHTS, EngineConfig
from evalcard_engine.engine import Engine
from evalcard_engine.errors import EngineError
from evalcard_engine.models import identify, open_model
from evalcard_engine.quant.packed_linear import TiledLinear
from evalcard_engine.quant.scheme import parse_scheme
from evalcard_engine.request import Generate, Score
from evalcard_engine.weights_choice import AUTO, check_on_gpu, choose_form

VOCAB = 97


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random Llama with bf16 weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, initializer_range=0.3, tie_word_embeddings=False,
    )  # fmt: skip
    where = tmp_path_factory.mktemp("llama")
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(where)
    return str(where)


@pytest.fixture(scope="module")
def linear_weights(folder: str) -> int:
    config = json.loads((Path(folder) / "config.json").read_text())
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    return config["num_hidden_layers"] * (3 * hidden * hidden + 3 * hidden * inner)


def test_every_cpu_has_an_entry() -> None:
    assert set(AUTO) == set(CPU_PLANS) and set(AUTO.values()) <= set(WEIGHTS)


def test_what_was_asked_is_taken_and_auto_looks_at_the_memory() -> None:
    plenty, features = 1 << 50, "avx512_bf16+vnni"
    for asked in ("packed", "expanded"):
        for available in (1, plenty):
            assert choose_form(asked, features, 1 << 40, available).form == asked
    assert choose_form("auto", features, 1 << 30, plenty).form == AUTO[features]
    tight = choose_form("auto", features, 6 << 30, 11 << 30)
    assert tight.form == "packed" and tight.reason == "expanded they would take 6.0 of 11.0 GiB available"


def answers(folder: str, scheme: str | None, weights: str) -> tuple[list[tuple], str, str]:
    """All bits of what an engine says, the name of its numerics, and how it holds its linears."""
    parsed = parse_scheme(scheme) if scheme else None
    config = EngineConfig(device="cpu", dtype="float32", scheme=parsed, weights=weights, kv_memory=8 << 20)
    prompt = tuple(range(3, 40))
    requests = [Score("s", prompt, (5, 6, 7)), Generate("g", prompt[:11], max_tokens=12), Score("t", (4,), (9,))]
    with Engine.open(folder, config) as engine:
        found = [(a.id, getattr(a, "logprobs", None), getattr(a, "token_ids", None)) for a in engine.run(requests)]
        return sorted(found), engine.numerics, engine.info.linear_form


@pytest.mark.parametrize("scheme", ["w4a16", "nf4", "fp8", "nvfp4a16+head=w8", "sparse24+w8a16", "w8a8"])
def test_packed_and_expanded_are_one_model(folder: str, scheme: str) -> None:
    """Equal answers under equal numerics: an answer of the one may be taken for the other's."""
    packed, expanded = answers(folder, scheme, "packed"), answers(folder, scheme, "expanded")
    assert packed[0] == expanded[0] and packed[1] == expanded[1]
    if scheme == "w8a8":
        assert packed[2] == expanded[2] == "packed (int8 products)"
    else:
        assert (packed[2], expanded[2]) == ("packed (as asked)", "expanded (as asked)")


def test_bytes_are_those_in_memory(folder: str, linear_weights: int) -> None:
    shares = {}
    for weights in ("packed", "expanded"):
        scheme = parse_scheme("w4a16")
        model = open_model(folder, dtype="float32", device="cpu", scheme=scheme, weights=weights)
        shares[weights] = model.info.linear_bytes / (2 * linear_weights)
        tiled = [one for one in model._module.modules() if isinstance(one, TiledLinear)]
        assert len(tiled) == (14 if weights == "packed" else 0)
        assert len({id(one._workspace) for one in tiled}) <= 1
    assert shares["expanded"] == 2.0 and shares["packed"] <= 0.35


def test_a_head_of_its_own_is_packed_too(folder: str) -> None:
    scheme = parse_scheme("w4a16+head=w8")
    model = open_model(folder, dtype="float32", device="cpu", scheme=scheme, weights="packed")
    assert isinstance(model._module.lm_head, TiledLinear)


def test_auto_packs_what_would_not_fit(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = answers(folder, "w4a16", "auto")
    assert plain[2] == "expanded (faster on this CPU)"
    monkeypatch.setattr(weights_choice, "available_memory", lambda: 100_000)
    tight = answers(folder, "w4a16", "auto")
    assert tight[2].startswith("packed (expanded they would take 0.0") and tight[:2] == plain[:2]


def test_a_model_without_quantized_linears_has_no_form(folder: str) -> None:
    assert answers(folder, None, "packed")[2] == answers(folder, "kv=fp8", "packed")[2] == ""
    assert answers(folder, "sparse24", "packed")[2] == ""


def test_what_a_gpu_cannot_do_is_refused_before_weights_are_read() -> None:
    check_on_gpu("auto", True)
    check_on_gpu("packed", True)
    check_on_gpu("expanded", False)
    with pytest.raises(EngineError, match="weights is 'expanded', and on this GPU kernels read packed weights"):
        check_on_gpu("expanded", True)
    with pytest.raises(EngineError, match="no kernel runs packed weights"):
        check_on_gpu("packed", False)


def test_the_choice_is_no_part_of_the_names(folder: str) -> None:
    scheme = parse_scheme("nf4")
    names = [identify(folder, dtype="float32", device="cpu", scheme=scheme, weights=one) for one in WEIGHTS]
    assert names[0] == names[1] == names[2]
