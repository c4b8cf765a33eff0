"""What is told of a model, and when files count more than the config."""

import json
from dataclasses import replace
from typing import Any

import pytest

from evalcard.footprint.footprint import footprint_of
from evalcard.footprint.gpus import Room, parse_gpu
from evalcard.footprint.headers import Measured
from evalcard.footprint.report import AS_STORED, Asked, Report, as_json, report_of, usual_contexts
from evalcard.footprint.stored import stored_as

ASKED = Asked(Room(parse_gpu("80"), 1.0))


def report(config: dict[str, Any], found: Measured | None = None, asked: Asked = ASKED) -> Report:
    return report_of("m", footprint_of(config), asked, stored_as(config), found)


def rows(found: Report) -> list[tuple[str, bool]]:
    return [(row.scheme, row.is_measured) for row in found.weights]


def test_counted_where_there_are_no_files(published: dict[str, dict[str, Any]]):
    found = report(published["Meta-Llama-3-70B"])
    assert rows(found) == [("bf16", False), ("w8a8", False), ("w4a16", False)]
    assert found.counted_bytes == found.weights[0].num_bytes == 141_107_412_992
    assert found.weights[0].bits_per_parameter == 16 and 4 < found.weights[2].bits_per_parameter < 4.5
    assert found.difference is None


def test_measured_bytes_stand_for_counted_ones(published: dict[str, dict[str, Any]]):
    found = report(published["Meta-Llama-3-70B"], Measured(141_107_413_000, 30))
    assert rows(found)[0] == ("bf16", True) and found.weights[0].num_bytes == 141_107_413_000
    assert found.difference == 8
    assert found.fits[0].fit.free_bytes == 2 * 80 * 2**30 - 141_107_413_000


def test_a_compressed_checkpoint_has_a_row_of_its_own(published: dict[str, dict[str, Any]]):
    counted = report(published["gpt-oss-20b"])
    assert rows(counted)[0] == (AS_STORED, False) and counted.weights[0].num_bytes == counted.counted_bytes
    found = report(published["gpt-oss-20b"], Measured(13_761_264_768, 3))
    assert rows(found)[:2] == [(AS_STORED, True), ("bf16", False)]
    assert found.difference is not None and abs(found.difference) < 1e-3 * 13.76e9


def test_a_form_that_the_config_does_not_tell(published: dict[str, dict[str, Any]]):
    config = {**published["Qwen3-8B"], "quantization_config": {"quant_method": "hqq"}}
    unknown = report(config)
    assert rows(unknown)[0] == ("bf16", False) and unknown.counted_bytes is None
    found = report(config, Measured(5_000_000_000, 1))
    assert rows(found)[0] == (AS_STORED, True) and found.difference is None


@pytest.mark.parametrize("dtype, times", [("float32", 2), ("float16", 1), (None, 1)])
def test_wider_weights_are_stored_wider(published: dict[str, dict[str, Any]], dtype: str | None, times: int):
    config = {**published["SmolLM3-3B"], "torch_dtype": dtype}
    found = report(config)
    assert found.counted_bytes == times * 2 * 3_075_098_624
    assert rows(found)[0][0] == (AS_STORED if times == 2 else "bf16")


def test_cards_and_requests_are_as_asked(published: dict[str, dict[str, Any]]):
    asked = replace(ASKED, kv_dtypes=("fp8",), contexts=(32768,), schemes=("bf16",), gpus=4)
    (row,) = report(published["Meta-Llama-3-70B"], asked=asked).fits
    assert (row.fit.gpus, row.fit.requests) == (4, 37)
    more = replace(asked, gpus=None, requests=100)
    (row,) = report(published["Meta-Llama-3-70B"], asked=more).fits
    assert row.fit.gpus == 8 and row.fit.requests >= 100


def test_json_holds_what_is_told(published: dict[str, dict[str, Any]]):
    told = json.loads(json.dumps(as_json(report(published["DeepSeek-V3"], Measured(10**9, 1)))))
    assert told["parameters"]["total"] == 671_026_419_200 == sum(told["parameters"]["by_kind"].values())
    assert told["kv_cache"]["bytes_per_token"] == {"bf16": 70272, "fp8": 35136}
    assert told["kv_cache"]["expanded_bytes_per_token"]["bf16"] == 4_997_120
    assert told["weights"][0]["num_bytes"] == 10**9 and told["files"]["counted_bytes"] > 10**9
    assert len(told["fits"]) == 4 * 2 * 5 and told["fits"][4]["tokens"] == 163_840
    assert told["gpu"] == {"name": "80", "num_bytes": 80 * 2**30, "share": 1.0}
    assert not any(one["is_beyond_positions"] for one in told["kv_cache"]["requests"])


@pytest.mark.parametrize(
    ("most", "contexts"),
    [
        (None, (2048, 8192, 32768, 131072)),
        (512, (512,)),
        (2048, (2048,)),
        (40960, (2048, 8192, 32768, 40960)),
        (10**7, (2048, 8192, 32768, 131072, 10**7)),
    ],
)
def test_lengths_go_up_to_the_models_maximum(
    published: dict[str, dict[str, Any]], most: int | None, contexts: tuple[int, ...]
):
    assert usual_contexts(most) == contexts
    found = report({**published["Qwen3-8B"], "max_position_embeddings": most})
    assert found.contexts == contexts and not any(map(found.is_beyond, contexts))
    assert {row.context for row in found.fits} == set(contexts)


def test_a_kv_cache_that_is_said_is_the_only_one(published: dict[str, dict[str, Any]]):
    """By a scheme or by the checkpoint; other schemes have those asked for."""
    quantized = {"quant_method": "compressed-tensors", "kv_cache_scheme": {"type": "float", "num_bits": 8}}
    asked = replace(ASKED, schemes=("bf16", "w4a16+kv=fp8", "kv=int8"), kv_dtypes=("bf16",), contexts=(2048,))
    found = report(published["Qwen3-8B"], asked=asked)
    told = [(row.scheme, row.kv_dtype) for row in found.fits]
    assert told == [("bf16", "bf16"), ("w4a16+kv=fp8", "fp8"), ("kv=int8", "int8")]
    assert found.kv_dtypes == ("bf16", "fp8", "int8") == tuple(as_json(found)["kv_cache"]["bytes_per_token"])
    own = report({**published["Qwen3-8B"], "quantization_config": quantized}, Measured(10**9, 1), asked)
    assert [row.kv_dtype for row in own.fits if row.scheme == AS_STORED] == ["fp8"]
