"""What a config says of compressed weights."""

from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.footprint.stored import stored_as


def weights(**args: Any) -> dict[str, Any]:
    return {"config_groups": {"group_0": {"targets": ["Linear"], "weights": {"symmetric": True, **args}}}}


CT = "compressed-tensors"
CASES: list[tuple[dict[str, Any], tuple[str, int | None, bool] | None]] = [
    (weights(num_bits=8, type="int", strategy="channel"), ("int8", None, True)),
    (weights(num_bits=4, type="int", strategy="group", group_size=64), ("int4", 64, True)),
    (weights(num_bits=4, type="int", strategy="group", group_size=128, symmetric=False), ("int4", 128, False)),
    (weights(num_bits=8, type="float", strategy="channel"), ("fp8_e4m3", None, True)),
    (weights(num_bits=8, type="float", strategy="block", block_structure=[128, 128]), ("fp8_e4m3", 128, True)),
    (weights(num_bits=4, type="float", strategy="tensor_group", group_size=16), ("fp4_e2m1", 16, True)),
    (weights(num_bits=4, type="float", strategy="group", group_size=32), ("fp4_e2m1", 32, True)),
    (weights(num_bits=6, type="int", strategy="channel"), None),
    ({"config_groups": {"a": {}, "b": {}}}, None),
    ({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True}, ("int4", 128, True)),
    ({"quant_method": "gptq", "bits": 8, "group_size": -1, "sym": False}, ("int8", None, False)),
    ({"quant_method": "gptq", "bits": 3, "group_size": 128}, None),
    ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, ("int4", 128, False)),
    ({"quant_method": "fp8", "weight_block_size": [128, 128]}, ("fp8_e4m3", 128, True)),
    ({"quant_method": "fp8"}, ("fp8_e4m3", None, True)),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True}, None),
]


@pytest.mark.parametrize("given, wanted", CASES)
def test_schemes(given: dict[str, Any], wanted: tuple[str, int | None, bool] | None):
    found = stored_as({"quantization_config": given})
    assert found is not None and found.method == given.get("quant_method", CT)
    scheme = found.scheme
    assert (scheme and (scheme.element, scheme.group_size, scheme.symmetric)) == wanted


def test_what_is_left_out(published: dict[str, dict[str, Any]]):
    plain = weights(num_bits=8, type="int", strategy="channel")

    def kinds(*ignore: str) -> tuple[str, ...] | None:
        found = stored_as({"quantization_config": {**plain, "ignore": list(ignore)}})
        assert found is not None
        return found.kinds if found.scheme else None

    assert "attention" in (kinds("lm_head", "re:.*mlp.gate$", "model.layers.3.mlp.gate") or ())
    without = kinds("lm_head", "re:.*self_attn.*")
    assert without is not None and "attention" not in without and "mlp" in without
    assert kinds("model.layers.0.self_attn.q_proj") is None, "a single layer"
    assert kinds("re:.*down_proj") is None, "part of a kind"
    gpt_oss = stored_as(published["gpt-oss-20b"])
    assert gpt_oss is not None and gpt_oss.kinds == ("experts",)


def test_a_cache_that_a_checkpoint_has_scales_for():
    given = {**weights(num_bits=8, type="int", strategy="channel"), "kv_cache_scheme": {"type": "float", "num_bits": 8}}
    found = stored_as({"quantization_config": given})
    assert found is not None and found.kv_dtype == "fp8"


def test_nothing_compressed(published: dict[str, dict[str, Any]]):
    assert stored_as(published["Qwen3-8B"]) is stored_as({"quantization_config": None}) is None
    inside = stored_as({"text_config": {"quantization_config": {"quant_method": "fp8"}}})
    assert inside is not None and inside.method == "fp8"


@pytest.mark.parametrize("given", [["awq"], "awq", 4, True])
def test_what_is_no_object_is_refused(given: object):
    with pytest.raises(UserError, match="the config says quantization_config = .*; it must be an object"):
        stored_as({"quantization_config": given})
