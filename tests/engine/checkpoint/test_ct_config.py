"""Settings of config.json: understood, or a fault that says which."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from evalcard_engine.checkpoint.ct_args import Args
from evalcard_engine.checkpoint.ct_config import matches, read_settings
from evalcard_engine.checkpoint.ct_inputs import unrunnable

W4 = {"num_bits": 4, "strategy": "group", "group_size": 32}


def config(weights: Any = W4, **more: Any) -> dict[str, Any]:
    return {"config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, **more}}}


def test_a_whole_config_as_the_library_writes_it() -> None:
    settings, faults = read_settings({
        "config_groups": {"group_0": {
            "format": "pack-quantized", "input_activations": None, "output_activations": None, "targets": ["Linear"],
            "weights": {
                "actorder": "static", "block_structure": None, "dynamic": False, "group_size": 64, "num_bits": 4,
                "observer": "memoryless_minmax", "observer_kwargs": {}, "scale_dtype": None, "strategy": "group",
                "symmetric": False, "type": "int", "zp_dtype": "torch.int8",
            },
        }},
        "format": "pack-quantized", "global_compression_ratio": None, "ignore": ["lm_head"], "kv_cache_scheme": None,
        "quant_method": "compressed-tensors", "quantization_status": "compressed", "sparsity_config": {},
        "transform_config": {}, "version": "0.19.0", "moe_sparsity_config": None,
    })  # fmt: skip
    assert not faults
    (group,) = settings.groups
    assert group.weights == Args(4, "int", False, "group", 64, None, False, "weight", None)
    assert (group.targets, group.inputs, group.format) == (("Linear",), None, "pack-quantized")
    assert (settings.ignore, settings.kv_cache, settings.is_sparse) == (("lm_head",), None, False)


@pytest.mark.parametrize(
    ("given", "strategy", "size"),
    [
        ({}, "tensor", None),
        ({"group_size": 64}, "group", 64),
        ({"group_size": -1}, "channel", None),
        ({"strategy": "CHANNEL", "group_size": None}, "channel", None),
    ],
)
def test_what_a_config_leaves_out_is_the_librarys_default(given: dict, strategy: str, size: int | None) -> None:
    settings, faults = read_settings(config({"num_bits": 8, **given}))
    assert not faults
    assert (settings.groups[0].weights.strategy, settings.groups[0].weights.group_size) == (strategy, size)


def test_a_setting_that_is_null_says_nothing() -> None:
    settings, faults = read_settings(config({"num_bits": 8, "symmetric": None, "dynamic": None, "group_size": "64"}))
    assert not faults and settings.groups[0].weights.symmetric and not settings.groups[0].weights.dynamic
    assert settings.groups[0].weights.group_size == 64


@pytest.mark.parametrize("block", [[128, 64], "128x64"])
def test_blocks_are_spelled_in_two_ways(block: Any) -> None:
    settings, faults = read_settings(config({"type": "float", "strategy": "block", "block_structure": block}))
    assert not faults and settings.groups[0].weights.block == (128, 64)


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "setting": ({**config(), "rotation": 1}, "unknown setting 'rotation' of quantization_config"),
    "group": (config(kernel="marlin"), "unknown setting 'kernel' of config_groups.group_0"),
    "args": (config({**W4, "twist": 2}), "unknown setting 'twist' of config_groups.group_0.weights"),
    "format": ({**config(), "format": "lut-b"}, "format 'lut-b' is not read"),
    "marlin": ({**config(), "format": "marlin-24"}, "format 'marlin-24' is not read"),
    "group's format": (config(format="mxfp6-pack-quantized"), "config_groups.group_0.format 'mxfp6-pack-quantized'"),
    "sparsity in a word": (
        {**config(), "sparsity_config": "sparse-24-bitmask"},
        "sparsity_config is 'sparse-24-bitmask'",
    ),
    "sparsity": ({**config(), "sparsity_config": {"format": "sparse-bitmask"}}, "sparsity_config.format is"),
    "structure": (
        {**config(), "sparsity_config": {"format": "sparse-24-bitmask", "sparsity_structure": "8:16"}},
        "sparse-24-bitmask with structure '8:16'",
    ),
    "transform": ({**config(), "transform_config": {"config_groups": {"R1": {}}}}, "transform_config"),
    "experts": ({**config(), "moe_sparsity_config": {"method": "prune"}}, "moe_sparsity_config"),
    "outputs": (config(output_activations={"num_bits": 8}), "output_activations are quantized"),
    "only inputs": (config(None, input_activations={"num_bits": 8}), "only activations are quantized"),
    "preset": ({"config_groups": {"W4A16": ["Linear"]}}, "config_groups.W4A16 is ['Linear']; it must be an object"),
    "groups": ({"config_groups": ["W4A16"]}, "config_groups is ['W4A16']; it must be an object"),
    "weights": (config("int4"), "config_groups.group_0.weights is 'int4'; it must be an object"),
    "number": (config({**W4, "group_size": "many"}), "group_0.weights cannot be read: group_size is 'many'"),
    "size": (config({**W4, "group_size": 0}), "group_size is 0; it must be a whole number from 1, or -1"),
    "truth for a size": (config({**W4, "group_size": True}), "group_size is True; it must be a whole number"),
    "block": (
        config({"type": "float", "strategy": "block", "block_structure": [128]}),
        "block_structure is [128]; it must be two whole numbers from 1, such as [128, 128]",
    ),
    "part of a bit": (config({**W4, "num_bits": 4.7}), "num_bits is 4.7; it must be a whole number"),
    "a number for a truth": (config({**W4, "symmetric": 0}), "symmetric is 0; it must be true or false"),
    "symmetry": (config({**W4, "symmetric": "no"}), "symmetric is 'no'; it must be true or false"),
    "strategy": (config({**W4, "strategy": "diagonal"}), "weights: strategy 'diagonal'"),
    "order": (config({**W4, "actorder": "random"}), "actorder is 'random'; it must be group"),
    "targets": (config(targets="Linear"), "config_groups.group_0.targets is 'Linear'; it must be a list"),
    "ignore": ({**config(), "ignore": "lm_head"}, "ignore is 'lm_head'; it must be a list"),
    "pattern": ({**config(), "ignore": ["re:("]}, "'re:(' is no regular expression"),
    "twice": (
        {"config_groups": {"a": {"targets": ["Linear"], "weights": W4}, "b": {"targets": ["Linear"], "weights": W4}}},
        "several config_groups target Linear",
    ),
    "nothing": ({"quant_method": "compressed-tensors"}, "no config_groups that quantize weights"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_not_understood_is_a_fault(name: str) -> None:
    found, expected = FAULTS[name]
    _, faults = read_settings(found)
    assert len(faults) == 1 and expected in faults[0], faults


def paths(found: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, value in found.items() if isinstance(found, dict) else ():
        yield (*path, key)
        yield from paths(value, (*path, key))


STRANGE = [None, "x", "", [], ["a"], {}, {"a": 1}, -3, 0, 7, True, 2.5, [16, 16], [0], float("nan"), 1e99]


@pytest.mark.parametrize("value", STRANGE, ids=repr)
def test_no_value_breaks_the_reading(value: Any) -> None:
    """Whatever stands in any place of the config, it is understood or a fault."""
    inputs = {"num_bits": 8, "strategy": "token", "dynamic": True, "type": "int"}
    whole = {
        **config({**W4, "symmetric": True, "actorder": None, "block_structure": None}, input_activations=inputs),
        "format": "pack-quantized", "ignore": ["lm_head"], "kv_cache_scheme": {"num_bits": 8, "type": "float"},
        "sparsity_config": {"format": "dense"}, "transform_config": {}, "moe_sparsity_config": None,
    }  # fmt: skip
    assert not read_settings(whole)[1]
    for path in paths(whole):
        changed = copy.deepcopy(whole)
        place = changed
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        settings, faults = read_settings(changed)
        assert all(isinstance(fault, str) for fault in faults)
        for group in settings.groups:
            unrunnable(group.inputs)
            settings.group_of("model.layers.0.mlp.gate_proj", "Linear")


def test_all_faults_are_listed() -> None:
    _, faults = read_settings({**config({**W4, "twist": 1}), "rotation": 1, "format": "lut-b"})
    assert len(faults) == 3


def test_matching_is_by_whole_names_and_patterns_from_the_start() -> None:
    router, proj = "model.layers.0.mlp.gate", "model.layers.0.mlp.gate_proj"
    for entry in ("re:.*mlp.gate$", router):
        assert matches(entry, router, "Linear") and not matches(entry, proj, "Linear")
    assert not matches("re:mlp.*", proj, "Linear")
    assert matches("Linear", proj, "Linear") and not matches("Linear", "model.embed_tokens", "Embedding")


def test_groups_are_chosen_in_the_librarys_order() -> None:
    compressed_tensors = pytest.importorskip("compressed_tensors", reason="the library whose order is followed")
    import torch

    assert compressed_tensors
    from compressed_tensors.utils import match_targets

    name = "model.layers.0.self_attn.q_proj"
    targets = ["Linear", "re:.*self_attn.*", "re:.*q_proj", name, "re:model.*"]
    for count in range(len(targets)):
        left = targets[: count + 1]
        groups = {str(n): {"targets": [one], "weights": {"num_bits": 8}} for n, one in enumerate(left)}
        settings, faults = read_settings({"config_groups": groups})
        found = settings.group_of(name, "Linear")
        assert not faults and found is not None
        assert found.targets[0] == match_targets(name, torch.nn.Linear(1, 1), left)[0]
    assert settings.group_of("lm_head", "Linear") is settings.groups[0]
    assert settings.group_of("model.embed_tokens", "Embedding") is settings.groups[4]


MX = {"group_size": 32, "scale_dtype": "torch.uint8"}
INPUTS: list[tuple[dict[str, Any], bool]] = [
    ({"num_bits": 8, "strategy": "token", "dynamic": True}, True),
    ({"num_bits": 8, "strategy": "tensor"}, True),
    ({"num_bits": 8, "type": "float", "strategy": "group", "dynamic": True, "group_size": 128}, True),
    ({"num_bits": 8, "type": "float", "strategy": "group", "dynamic": True, **MX}, True),
    ({"num_bits": 4, "type": "float", "strategy": "group", "dynamic": True, **MX}, True),
    ({"num_bits": 4, "type": "float", "strategy": "tensor_group", "dynamic": "local", "group_size": 16}, True),
    ({"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}, False),  # scales of groups given
    ({"num_bits": 8, "strategy": "token", "dynamic": True, "scale_dtype": "torch.bfloat16"}, False),
    ({"num_bits": 8, "strategy": "tensor", "dynamic": True}, False),  # a scale of the whole batch
    ({"num_bits": 8, "strategy": "token", "dynamic": True, "symmetric": False}, False),
    ({"num_bits": 4, "strategy": "token", "dynamic": True}, False),
    ({"num_bits": 4, "type": "float", "strategy": "group", "dynamic": True, "group_size": 32}, False),
    ({"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True, "scale_dtype": "torch.uint8"}, False),
    ({"num_bits": 8, "type": "float", "strategy": "group", "group_size": 128}, False),
    ({"num_bits": 8, "type": "float", "strategy": "attn_head"}, False),
]


@pytest.mark.parametrize(("given", "runs"), INPUTS)
def test_only_inputs_that_are_run_exactly_are_taken(given: dict[str, Any], runs: bool) -> None:
    settings, faults = read_settings(config(input_activations=given))
    assert not faults
    found = unrunnable(settings.groups[0].inputs)
    assert (not found) == runs and all("input_activations" in fault for fault in found), found
