"""Checks that several formats share."""

from pathlib import Path

import pytest
import torch

from evalcard_engine.checkpoint.expected import (
    Part,
    beyond_bits,
    check_parts,
    is_listed,
    is_plain,
    names_in,
    nan_codes,
    not_finite,
    not_positive,
    refuse_values,
)
from evalcard_engine.checkpoint.tensor_files import TensorFile
from evalcard_engine.errors import EngineError


def place(dtype: str, *shape: int) -> TensorFile:
    return TensorFile(Path("x"), dtype, shape, 0)


@pytest.mark.parametrize(
    ("entry", "name", "means"),
    [
        ("lm_head", "lm_head", True),
        ("model.layers.1", "model.layers.1.mlp.up_proj", True),
        ("model.layers.1", "model.layers.11.mlp.up_proj", False),
        ("mlp.gate", "model.layers.0.mlp.gate", True),
        ("mlp.gate", "model.layers.0.mlp.gate_proj", False),
        ("proj", "model.layers.0.mlp.gate_proj", False),
        ("re:.*mlp.gate$", "model.layers.0.mlp.gate", True),
        ("re:.*mlp.gate$", "model.layers.0.mlp.gate_proj", False),
        ("model.layers.0*", "model.layers.0.mlp.up_proj", True),
        ("*lm_head", "model.lm_head", True),
        ("*.mlp.gate", "model.layers.0.mlp.gate_proj", False),
    ],
)
def test_names_match_at_dots(entry: str, name: str, means: bool) -> None:
    assert is_listed(name, ["other", entry]) is means


def test_parts_are_checked_together() -> None:
    expected = {
        "weight": Part(("I8",), ((2, 3),)),
        "scale": Part(("F32", "BF16"), ((2,), (2, 1))),
        "zero": Part(("I8",), ((2,),)),
        "extra": Part(("U8",), ((1,),), is_optional=True),
    }
    found, faults = check_parts(
        "a", {"weight": place("U8", 2, 3), "scale": place("F32", 3), "new": place("U8")}, expected
    )
    assert found == {"weight", "scale"}
    assert faults == [
        "a: zero missing",
        "a.scale is F32 [3], not F32 or BF16 [2] or [2, 1]",
        "a.weight is U8 [2, 3], not I8 [2, 3]",
    ]


def test_plain_is_an_ordinary_weight_without_marks() -> None:
    assert is_plain({"weight": place("BF16", 2, 2), "bias": place("BF16", 2)}, ("weight_scale",))
    assert is_plain({"bias": place("BF16", 2)}, ("weight_scale",))
    assert not is_plain({"weight": place("F8_E4M3", 2, 2)}, ("weight_scale",))
    assert not is_plain({"weight": place("BF16", 2, 2), "weight_scale_inv": place("F32")}, ("weight_scale",))


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_what_is_divided_by_is_positive(value: float) -> None:
    assert not_positive("a", "input_scale", torch.tensor([0.5]).bfloat16()) == []
    (fault,) = not_positive("a", "input_scale", torch.tensor([value]))
    assert fault.startswith("a: input_scale is")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.int8])
def test_every_tensor_with_a_value_that_is_no_number_is_named(dtype: torch.dtype) -> None:
    good = torch.ones(2, 3, dtype=dtype)
    tensors = {"scale": good.clone(), "zero": good, "other": torch.tensor([float("inf")])}
    if dtype.is_floating_point:
        tensors["scale"][1, 2] = float("nan")
    found = list(not_finite("a", ("scale", "zero", "nowhere", "other"), tensors))
    assert found == ["a: scale is not finite"] * dtype.is_floating_point + ["a: other is not finite"]


def test_all_wrong_values_of_a_layer_are_raised_at_once() -> None:
    refuse_values([])
    advice = "Correct its config, fetch the model again, or compress it anew."
    with pytest.raises(EngineError, match=f"^a: x; a: y. {advice}$") as caught:
        refuse_values(iter(["a: x", "a: y"]))
    assert caught.value.faults == ("a: x", "a: y")


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_codes_that_are_no_number(dtype: torch.dtype) -> None:
    """Each of the 256 codes alone among good ones."""
    for code in range(256):
        codes = torch.zeros(2, 3, dtype=torch.uint8)
        codes[1, 1] = code
        is_number = bool(codes.view(dtype).float().isfinite().all())
        assert nan_codes("a", codes.view(dtype)) == ([] if is_number else ["a: some of its weights are NaN"]), code


@pytest.mark.parametrize("bits", [2, 4, 7])
def test_integers_that_do_not_fit_their_bits(bits: int) -> None:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    assert beyond_bits("a", torch.tensor([[low, 0, high]], dtype=torch.int8), bits) == []
    for wrong in (low - 1, high + 1):
        (fault,) = beyond_bits("a", torch.tensor([[0, wrong]], dtype=torch.int8), bits)
        assert fault == f"a: its weights are no integers of {bits} bits ({min(wrong, 0)} to {max(wrong, 0)})"


def test_lists_of_names() -> None:
    faults: list[str] = []
    assert names_in({"one": ["a"], "two": None, "three": ["b"]}, ("one", "two", "three", "four"), faults) == ("a", "b")
    assert not faults
    assert names_in({"one": "a", "two": [1]}, ("one", "two"), faults) == ()
    assert faults == ["one is 'a'; it must be a list of module names", "two is [1]; it must be a list of module names"]
