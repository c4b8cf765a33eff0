"""Scales of a KV cache in every place where exporters put them, and what is wrong where they are not."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from evalcard_engine.cache.kv_codes import KVCodes
from evalcard_engine.checkpoint.kv_scales import stored_codes
from evalcard_engine.errors import EngineError
from evalcard_engine.inspection import inspect, open_claims
from evalcard_engine.models import open_model

ATTENTIONS = ["model.layers.0.self_attn", "model.layers.1.self_attn"]
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "kv_cache_scheme": "static"}
SCHEME = {"dynamic": False, "num_bits": 8, "type": "float"}
MODELOPT = {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_scheme": SCHEME}
TENSORS = {"num_bits": 8, "type": "int", "strategy": "tensor", "dynamic": False, "symmetric": True}
COMPRESSED = {"quant_method": "compressed-tensors", "config_groups": {}, "kv_cache_scheme": TENSORS}
LAYOUTS = {
    "attention": {"k_scale": 0.5, "v_scale": 0.25},
    "older": {"kv_scale": 0.75},
    "projections": {"k_proj.k_scale": 0.5, "v_proj.v_scale": 0.25},
}


def store(stored_llama: Any, layout: str, shape: tuple[int, ...] = ()) -> None:
    """The layout's scales, times the layer's number from 1."""
    for number, attention in enumerate(ATTENTIONS, start=1):
        for leaf, scale in LAYOUTS[layout].items():
            stored_llama.tensors[f"{attention}.{leaf}"] = torch.full(shape, scale * number)


def codes_of(folder: Path) -> tuple[KVCodes, ...] | None:
    opened = open_claims(str(folder))
    assert not opened.faults, opened.faults
    return stored_codes(opened.claims, opened.reader, ATTENTIONS)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("config", [FP8, MODELOPT, COMPRESSED], ids=lambda one: one["quant_method"])
def test_every_layout_is_read_in_every_format(stored_llama, layout: str, config: dict[str, Any]) -> None:
    store(stored_llama, layout, (1,) if layout == "older" else ())
    element = "int8" if config is COMPRESSED else "fp8_e4m3"
    one, two = (0.75, 0.75) if layout == "older" else (0.5, 0.25)
    folder = stored_llama.save(config)
    assert codes_of(folder) == (KVCodes(element, one, two), KVCodes(element, 2 * one, 2 * two))
    assert open_model(str(folder), dtype="float32", device="cpu", scheme=None).info.kv_cache.startswith(element)
    shown = inspect(str(folder)).extras
    halves = ("one scale for K", "one scale for V") if layout == "projections" else ("one scale each for K and V",)
    assert shown == {f"kv {element} ({words})": 2 for words in halves}


def test_what_the_scales_are_for(stored_llama, run_folder) -> None:
    """Two scales that are exchanged give other logits."""
    store(stored_llama, "attention")
    found = run_folder(stored_llama.save(FP8)).logits
    for attention in ATTENTIONS:
        key, value = (f"{attention}.{leaf}" for leaf in ("k_scale", "v_scale"))
        stored_llama.tensors |= {key: stored_llama.tensors[value] * 0.9, value: stored_llama.tensors[key] * 0.9}
    assert float((run_folder(stored_llama.save(FP8)).logits - found).abs().max()) > 1e-3


@pytest.mark.parametrize("told", [{"kv_cache_quant_algo": "FP8"}, {"kv_cache_quant_algo": "fp8", "group_size": None}])
def test_either_config_of_modelopt_may_ask_for_the_cache(stored_llama, told: dict[str, Any]) -> None:
    store(stored_llama, "projections")
    folder = stored_llama.save({"quant_method": "modelopt", "quant_algo": "FP8"})
    assert "not part of the model (4)" in "; ".join(open_claims(str(folder)).faults)  # scales that nothing asks for
    (folder / "hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": "FP8", **told}}))
    assert codes_of(folder) == (KVCodes("fp8_e4m3", 0.5, 0.25), KVCodes("fp8_e4m3", 1.0, 0.5))


@pytest.mark.parametrize("left", [None, "k_scale", "v_proj.v_scale"])
@pytest.mark.parametrize("config", [FP8, MODELOPT, COMPRESSED], ids=lambda one: one["quant_method"])
def test_a_cache_without_scales_is_a_fault_beside_all_others(stored_llama, left: str | None, config) -> None:
    if left is not None:
        stored_llama.tensors[f"{ATTENTIONS[0]}.{left}"] = torch.tensor(1.0)
    del stored_llama.tensors["model.norm.weight"]
    with pytest.raises(EngineError) as caught:
        open_model(str(stored_llama.save(config)), dtype="float32", device="cpu", scheme=None)
    message = str(caught.value)
    names = ", ".join(f"{attention}.k_proj" for attention in ATTENTIONS)
    assert f"its attention has no k_scale and v_scale, though there is a kv_cache_scheme (2): {names}" in message
    assert "tensors missing (1): model.norm.weight" in message


@pytest.mark.parametrize(
    ("leaf", "value", "expected"),
    [
        ("k_proj.k_scale", torch.tensor(float("nan")), "k_proj: k_scale is nan; it must be a positive number"),
        ("v_proj.v_scale", torch.tensor([-1.0]), "v_proj: v_scale is [-1.0]; it must be a positive number"),
        ("v_proj.v_scale", torch.ones(3), "v_proj.v_scale is F32 [3], not one float"),
        ("v_proj.v_bias", torch.ones(1), "not part of the model (1): model.layers.1.self_attn.v_proj.v_bias"),
    ],
)
def test_scales_that_cannot_be_right_are_named_beside_all_other_faults(
    stored_llama, leaf: str, value: torch.Tensor, expected: str
) -> None:
    store(stored_llama, "projections")
    del stored_llama.tensors["model.norm.weight"]
    stored_llama.tensors[f"{ATTENTIONS[1]}.{leaf}"] = value
    with pytest.raises(EngineError, match="layers.1.self_attn") as caught:
        open_model(str(stored_llama.save(MODELOPT)), dtype="float32", device="cpu", scheme=None)
    assert expected in str(caught.value) and "tensors missing (1): model.norm.weight" in str(caught.value)


def test_two_sets_of_scales_are_not_chosen_from(stored_llama) -> None:
    store(stored_llama, "attention")
    store(stored_llama, "projections")
    with pytest.raises(EngineError, match=r"not so: model.layers.0.self_attn \(2 for keys, 2 for values\), model"):
        codes_of(stored_llama.save(MODELOPT))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({**FP8, "kv_cache_scheme": "dynamic"}, "kv_cache_scheme is 'dynamic': another KV cache than fp8"),
        ({**FP8, "kv_cache_scheme": SCHEME}, "another KV cache than fp8 with one stored scale each"),
        ({**MODELOPT, "kv_cache_quant_algo": "NVFP4"}, "kv_cache_quant_algo NVFP4: a KV cache in FP8"),
        ({**MODELOPT, "kv_cache_scheme": {**SCHEME, "num_bits": 4}}, "'num_bits': 4"),
        ({**MODELOPT, "kv_cache_scheme": {**SCHEME, "dynamic": True}}, "'dynamic': True"),
        ({**COMPRESSED, "kv_cache_scheme": {**TENSORS, "dynamic": True}}, "would make an answer depend on its batch"),
        ({**COMPRESSED, "kv_cache_scheme": {**TENSORS, "strategy": "token"}}, "of int8 by token"),
    ],
)
def test_other_caches_are_refused_by_name(stored_llama, config: dict[str, Any], expected: str) -> None:
    store(stored_llama, "attention")
    with pytest.raises(EngineError, match="settings cannot be honoured") as caught:
        open_model(str(stored_llama.save(config)), dtype="float32", device="cpu", scheme=None)
    assert expected in str(caught.value)


def test_no_scales_no_codes(stored_llama) -> None:
    assert codes_of(stored_llama.save(None)) is None
