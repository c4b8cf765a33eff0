"""Checks that several formats share."""

from pathlib import Path

import pytest
import torch

from evalcard_engine.checkpoint.expected import Part, check_parts, is_listed, is_plain, names_in, positive
from evalcard_engine.checkpoint.source import TensorFile
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
    assert positive("a", "input_scale", torch.tensor([0.5]).bfloat16()).shape == ()
    with pytest.raises(EngineError, match="^a: input_scale is"):
        positive("a", "input_scale", torch.tensor([value]))


def test_lists_of_names() -> None:
    faults: list[str] = []
    assert names_in({"one": ["a"], "two": None, "three": ["b"]}, ("one", "two", "three", "four"), faults) == ("a", "b")
    assert not faults
    assert names_in({"one": "a", "two": [1]}, ("one", "two"), faults) == ()
    assert faults == ["one is 'a'; it must be a list of module names", "two is [1]; it must be a list of module names"]
