"""A model larger than memory is refused with figures, and nothing of it is read; what is reckoned is what is held."""

from pathlib import Path

import pytest
import torch

from evalcard_engine import models
from evalcard_engine.errors import EngineError, OutOfMemory
from evalcard_engine.loading import head_dtype
from evalcard_engine.model_memory import weights_need
from evalcard_engine.models import open_model
from evalcard_engine.planning import plan_model
from evalcard_engine.quant.held import held_bytes
from evalcard_engine.quant.linear import gives_float32
from evalcard_engine.quant.scheme import parse_scheme

HIDDEN, INNER, VOCAB, LAYERS = 64, 160, 97, 2
LINEAR = LAYERS * (3 * HIDDEN * HIDDEN + 3 * HIDDEN * INNER)
"""Weights of the decoder's linears; two key heads of four make k and v half as wide as q and o."""
OTHER = 2 * VOCAB * HIDDEN + (2 * LAYERS + 1) * HIDDEN
"""Embedding, head (held by itself though it is tied), norms."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, tie_word_embeddings=True,
    )  # fmt: skip
    where = tmp_path_factory.mktemp("llama")
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(where)
    return str(where)


def needed(folder: str, dtype: str, scheme: str | None, is_packed: bool) -> int:
    given = None if scheme is None else parse_scheme(scheme)
    plan = plan_model(folder, dtype, "cpu", given, None, "auto")
    tensors = plan.checkpoint.tensors
    head = head_dtype(plan.dtype, "cpu", False, plan.claims, given, tensors)
    return weights_need(plan.module, plan.claims, tensors, given, plan.dtype, is_packed, head)


@pytest.mark.parametrize(
    ("dtype", "scheme", "is_packed", "linear_bits"),
    [
        ("float32", None, False, 32),
        ("bfloat16", None, False, 16),
        ("float32", "w4a16-g32", False, 32),
        ("float32", "w4a16-g32", True, 4),
        ("float32", "w8a16", True, 8),
        ("float32", "w8a8", False, 8),
    ],
)
def test_weights_are_reckoned_by_how_they_are_held(folder, dtype, scheme, is_packed, linear_bits):
    """Logits are float32 whatever the rest is in: by a head held so, or by products that give it."""
    size, head = (4, 0) if dtype == "float32" else (2, 0 if gives_float32(torch.bfloat16) else VOCAB * HIDDEN * 2)
    assert needed(folder, dtype, scheme, is_packed) == LINEAR * linear_bits // 8 + OTHER * size + head


@pytest.mark.parametrize(("scheme", "weights"), [(None, "auto"), ("w8a16", "expanded"), ("w8a16", "packed")])
def test_what_is_reckoned_is_what_an_open_model_holds(folder, scheme, weights):
    given = None if scheme is None else parse_scheme(scheme)
    held = held_bytes(open_model(folder, dtype="float32", device="cpu", scheme=given, weights=weights)._module)
    found = needed(folder, "float32", scheme, weights == "packed")
    # Scales, and the tables of rotary embedding, are not reckoned.
    assert found <= held <= 1.08 * found, (found, held)


def test_codes_of_a_checkpoint_are_reckoned_as_they_are_stored(folder, tmp_path):
    from evalcard_engine.export import export

    export(folder, parse_scheme("w4a16-g32"), tmp_path)
    packed = needed(str(tmp_path), "float32", None, True)
    expanded = needed(str(tmp_path), "float32", None, False)
    assert expanded == (LINEAR + OTHER) * 4
    assert LINEAR // 2 < packed - 4 * OTHER < 1.3 * LINEAR // 2


@pytest.fixture
def refused(folder: str, monkeypatch: pytest.MonkeyPatch):
    """The message of a machine with one byte too few; reading anything of the weights fails the test."""

    def open_with(short_of: int, dtype: str, scheme: str | None = None, weights: str = "expanded") -> str:
        def never(*_):
            raise AssertionError("weights are read though they do not fit")

        monkeypatch.setattr(models, "free_memory", lambda device: short_of - 1)
        monkeypatch.setattr(models, "fill", never)
        monkeypatch.setattr(models, "weights_digest", never)
        with pytest.raises(OutOfMemory) as caught:
            given = None if scheme is None else parse_scheme(scheme)
            open_model(folder, dtype=dtype, device="cpu", scheme=given, weights=weights)
        # To name a model its bytes are read too, which of one so large takes minutes.
        with pytest.raises(OutOfMemory, match="GiB are available"):
            models.identify(folder, dtype=dtype, device="cpu", scheme=given, weights=weights)
        return str(caught.value)

    return open_with


def test_a_plain_model_that_is_too_large(folder, refused):
    said = refused((LINEAR + OTHER) * 4, "float32")  # one byte too few, so that half of it would fit
    assert said.startswith(f"the weights of {folder} take 0.00 GiB of memory (float32), and 0.00 GiB are available")
    assert "--dtype bfloat16" in said and ":w4a16 with --weights packed" in said


def test_advice_fits_what_was_asked(refused):
    said = refused((LINEAR + OTHER) * 2, "bfloat16", "w8a16")
    assert "--dtype" not in said and "hold its compressed weights packed (--weights packed)" in said.lower()
    said = refused(LINEAR + OTHER * 2, "bfloat16", "w8a16", "packed")
    assert "--dtype" not in said and "--weights packed" not in said and "machine with more memory" in said


def test_half_the_bytes_are_no_advice_where_they_do_not_fit_either(refused):
    assert "--dtype" not in refused((LINEAR + OTHER) * 2, "float32")


def test_a_file_that_cannot_be_mapped(folder, monkeypatch):
    import safetensors

    def never(*_, **__):
        raise RuntimeError("unable to mmap 70063027184 bytes from file <x>: Cannot allocate memory (12)")

    monkeypatch.setattr(safetensors, "safe_open", never)
    with pytest.raises(EngineError, match="model.safetensors has 0.00 GiB, and this machine cannot map so much"):
        plan_model(folder, "float32", "cpu", None, None, "auto")


def test_one_byte_more_and_it_opens(folder, monkeypatch):
    monkeypatch.setattr(models, "free_memory", lambda device: (LINEAR + OTHER) * 4)
    assert Path(folder) == open_model(folder, dtype="float32", device="cpu", scheme=None).info.path
