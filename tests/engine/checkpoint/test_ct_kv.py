"""Scales of a quantized KV cache in compressed-tensors: claimed, read and run; what else a scheme says is refused."""

from pathlib import Path
from typing import Any

import pytest
import torch

from evalcard_engine.checkpoint.claiming import claim_all
from evalcard_engine.checkpoint.claims import Claims, Quantized
from evalcard_engine.checkpoint.compressed_tensors import read_format
from evalcard_engine.checkpoint.reading import TensorReader
from evalcard_engine.checkpoint.source import open_checkpoint
from evalcard_engine.errors import EngineError
from evalcard_engine.families import FAMILIES
from evalcard_engine.models import open_model

FP8_CACHE = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False, "symmetric": True}
ATTENTIONS = ["model.layers.0.self_attn", "model.layers.1.self_attn"]


def config(scheme: dict[str, Any] | None = FP8_CACHE) -> dict[str, Any]:
    """A KV cache scheme alone, as llm-compressor writes it where weights stay as they are."""
    return {"quant_method": "compressed-tensors", "config_groups": {}, "format": "dense", "kv_cache_scheme": scheme}


def claims_of(folder: Path, quantization: dict[str, Any]) -> tuple[Claims, TensorReader]:
    checkpoint = open_checkpoint(str(folder))
    fmt, faults = read_format(checkpoint, quantization)
    assert not faults, faults
    scales = ("scale", "zero_point")
    wanted = {name: place.shape for name, place in checkpoint.tensors.items() if not name.endswith(scales)}
    matrices = {name.removesuffix(".weight"): (shape[0], shape[1]) for name, shape in wanted.items() if len(shape) == 2}
    return claim_all(checkpoint, FAMILIES["llama"], fmt, wanted, matrices, {}), TensorReader(checkpoint)


def read(source: Any, reader: TensorReader) -> list[float]:
    assert isinstance(source, Quantized)
    found = source.read({leaf: reader[tensor] for leaf, tensor in source.tensors.items()})
    assert isinstance(found, torch.Tensor) and found.dtype == torch.float32
    return found.tolist()


@pytest.mark.parametrize("shape", [(1,), ()])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_scales_beside_the_projections_are_extras_of_the_attention(stored_llama, shape, dtype) -> None:
    for number, attention in enumerate(ATTENTIONS):
        stored_llama.tensors[f"{attention}.k_scale"] = torch.full(shape, 0.5 + number, dtype=dtype)
        stored_llama.tensors[f"{attention}.v_scale"] = torch.full(shape, 0.25, dtype=dtype)
    claims, reader = claims_of(stored_llama.save(config()), config())
    assert set(claims.extras) == set(ATTENTIONS)
    assert read(claims.extras[ATTENTIONS[1]], reader) == [1.5, 0.25]
    assert claims.extras[ATTENTIONS[0]].scheme == "kv fp8_e4m3 (one scale each for K and V)"
    assert not claims.schemes


def test_the_older_single_scale_is_for_both(stored_llama) -> None:
    for attention in ATTENTIONS:
        stored_llama.tensors[f"{attention}.kv_scale"] = torch.tensor([0.75])
    claims, reader = claims_of(stored_llama.save(config()), config())
    assert [read(claims.extras[one], reader) for one in ATTENTIONS] == [[0.75, 0.75]] * 2


@pytest.mark.parametrize("left", ["k_scale", "v_scale", None])
def test_a_scheme_without_scales_is_a_fault_of_every_layer(stored_llama, left: str | None) -> None:
    for attention in ATTENTIONS:
        if left is not None:
            stored_llama.tensors[f"{attention}.{left}"] = torch.ones(1)
    with pytest.raises(EngineError) as caught:
        claims_of(stored_llama.save(config()), config())
    message = str(caught.value)
    assert "its attention has no k_scale and v_scale, though there is a kv_cache_scheme (2): " in message
    assert all(f"{attention}.k_proj" in message for attention in ATTENTIONS)


@pytest.mark.parametrize(
    ("leaf", "value", "expected"),
    [
        ("k_scale", torch.tensor([torch.nan]), "k_scale is [nan]; it must be a positive number"),
        ("v_scale", torch.tensor([0.0]), "v_scale is [0.0]; it must be a positive number"),
        ("k_scale", torch.ones(2), "k_scale is F32 [2], not one float"),
        ("v_scale", torch.ones(1, dtype=torch.int8), "v_scale is I8 [1], not one float"),
        ("k_zero_point", torch.ones(1), "the config says symmetric, but k_zero_point is not 0"),
    ],
)
def test_scales_that_cannot_be_right_are_named(stored_llama, leaf: str, value: torch.Tensor, expected: str) -> None:
    for attention in ATTENTIONS:
        stored_llama.tensors |= {f"{attention}.{one}": torch.ones(1) for one in ("k_scale", "v_scale")}
    stored_llama.tensors[f"{ATTENTIONS[1]}.{leaf}"] = value
    with pytest.raises(EngineError, match=ATTENTIONS[1]) as caught:
        claims_of(stored_llama.save(config()), config())
    assert expected in str(caught.value)


def test_scales_without_a_scheme_are_left_over(stored_llama) -> None:
    stored_llama.tensors[f"{ATTENTIONS[0]}.k_scale"] = torch.ones(1)
    plain = {**config(None), "sparsity_config": {"format": "dense"}}
    with pytest.raises(EngineError, match="not part of the model .1.: model.layers.0.self_attn.k_scale"):
        claims_of(stored_llama.save(plain), plain)


def test_scales_made_as_values_come_need_none_in_the_files(stored_llama) -> None:
    dynamic = config({**FP8_CACHE, "dynamic": True})
    claims, _ = claims_of(stored_llama.save(dynamic), dynamic)
    assert not claims.extras


@pytest.mark.parametrize(
    "scheme", [{**FP8_CACHE, "strategy": "attn_head"}, {**FP8_CACHE, "num_bits": 4}, {**FP8_CACHE, "symmetric": False}]
)
def test_other_schemes_are_refused_by_name(stored_llama, scheme: dict[str, Any]) -> None:
    _, faults = read_format(open_checkpoint(str(stored_llama.save(config(scheme)))), config(scheme))
    assert len(faults) == 1 and f"kv_cache_scheme of float{scheme['num_bits']} by {scheme['strategy']}" in faults[0]


def test_a_cache_by_the_scales_is_run(stored_llama, run_folder) -> None:
    plain = run_folder(stored_llama.save(None)).logits
    for attention in ATTENTIONS:
        stored_llama.tensors |= {f"{attention}.{one}": torch.tensor([0.01]) for one in ("k_scale", "v_scale")}
    folder = stored_llama.save(config())
    assert open_model(str(folder), dtype="float32", device="cpu", scheme=None).info.kv_cache.startswith("fp8_e4m3, ")
    difference = (run_folder(folder).logits - plain).abs().max()
    assert 0 < float(difference) < 0.5 * float(plain.abs().max())


def test_scales_made_as_values_come_are_read_but_not_run(stored_llama) -> None:
    folder = stored_llama.save(config({**FP8_CACHE, "dynamic": True}))
    with pytest.raises(EngineError, match="kv_cache_scheme: a dynamic scale of the whole tensor .* static ones are"):
        open_model(str(folder), dtype="float32", device="cpu", scheme=None)
