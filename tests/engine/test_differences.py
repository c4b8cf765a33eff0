"""Distances of weights from a baseline, and what each kind of damage is called."""

import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from evalcard_engine.differences import Difference, differences
from evalcard_engine.errors import EngineError
from evalcard_engine.export import export
from evalcard_engine.quant.scheme import parse_scheme

SIZES = {
    "vocab_size": 40, "hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 6,
    "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip
HIT = "model.layers.1.mlp.down_proj"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("plain")
    torch.manual_seed(5)
    LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=True)).bfloat16().save_pretrained(folder)
    return folder


@pytest.fixture
def changed(plain: Path, tmp_path: Path) -> Callable[..., Difference]:
    """What is found of ``HIT`` in a model written by ``scheme`` whose file was changed."""

    def make(scheme: str | None, change: Callable[[dict[str, torch.Tensor]], None]) -> Difference:
        folder = tmp_path / "changed"
        folder.mkdir()
        if scheme is None:
            shutil.copytree(plain, folder, dirs_exist_ok=True)
        else:
            export(str(plain), parse_scheme(scheme), folder)
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        found = {one.name: one for one in differences(str(folder), str(plain))}
        others = {name for name, one in found.items() if one.finding is not None}
        assert others <= {HIT, "model.layers.0.input_layernorm"}, others
        return found[HIT]

    return make


def test_a_model_against_itself(plain: Path):
    found = list(differences(str(plain), str(plain)))
    assert len(found) == 1 + 14 + 5 and "lm_head" not in {one.name for one in found}  # the head is the embedding
    assert all((one.error, one.finding) == (0.0, None) for one in found)
    assert all(one.cosine == pytest.approx(1, abs=1e-6) for one in found)


@pytest.mark.parametrize(
    ("scheme", "least", "most"),
    [("w8a8", 1e-3, 0.02), ("fp8", 0.01, 0.05), ("w4a16-g32", 0.05, 0.15), ("w4a16_asym-g32", 0.05, 0.15),
     ("nvfp4a16", 0.05, 0.15), ("mxfp4a16", 0.05, 0.2)],
)  # fmt: skip
def test_rounding_alone_is_no_finding(changed: Callable, scheme: str, least: float, most: float):
    found = changed(scheme, lambda tensors: None)
    assert least < found.error < most and found.cosine > 0.98 and found.finding is None
    assert found.scheme and found.shape == (96, 160) and found.bits == (8 if "8" in scheme else 4)


def test_measures_by_their_definition(plain: Path, changed: Callable):
    found = changed("w4a16-g32", lambda tensors: None)
    wanted = load_file(plain / "model.safetensors")[f"{HIT}.weight"].double()
    codes = wanted.view(96, -1, 32)
    scales = (codes.abs().amax(-1, keepdim=True).float() / 7.5).bfloat16().double()
    value = ((codes / scales).round().clamp(-8, 7) * scales).view(96, 160)
    assert found.error == pytest.approx(float((wanted - value).norm() / wanted.norm()), rel=1e-5)
    assert found.cosine == pytest.approx(float((wanted * value).sum() / wanted.norm() / value.norm()), rel=1e-5)


def test_a_wrong_packing_is_another_matrix(changed: Callable):
    def turn(tensors: dict[str, torch.Tensor]) -> None:
        words = tensors[f"{HIT}.weight_packed"]
        tensors[f"{HIT}.weight_packed"] = words.flip(1).contiguous()

    found = changed("w4a16-g32", turn)
    assert 1.2 < found.error < 1.6 and abs(found.cosine) < 0.1
    assert found.finding is not None and "wrong packing" in found.finding


def test_rows_in_another_order(changed: Callable):
    def roll(tensors: dict[str, torch.Tensor]) -> None:
        tensors[f"{HIT}.weight"] = tensors[f"{HIT}.weight"].roll(1, 0).contiguous()

    found = changed(None, roll)
    assert found.finding is not None and "another matrix" in found.finding and 1.2 < found.error < 1.6


def test_a_factor_that_was_left_out(changed: Callable):
    def scale(tensors: dict[str, torch.Tensor]) -> None:
        tensors[f"{HIT}.weight_scale"] = tensors[f"{HIT}.weight_scale"] * 4

    found = changed("w4a16-g32", scale)
    assert found.error == pytest.approx(3, rel=0.1) and found.ratio == pytest.approx(0.25, rel=0.02)
    assert found.finding is not None and "one factor, 4" in found.finding


def test_columns_that_were_smoothed(changed: Callable):
    factors = torch.logspace(-1, 1, 160, base=10.0)

    def smooth(tensors: dict[str, torch.Tensor]) -> None:
        tensors[f"{HIT}.weight"] = (tensors[f"{HIT}.weight"].float() * factors).bfloat16()
        tensors["model.layers.0.input_layernorm.weight"] *= 0.5

    found = changed(None, smooth)
    assert found.error > 1 and found.fitted_error is not None and found.fitted_error < 0.01
    assert found.finding is not None and "SmoothQuant and AWQ" in found.finding


def test_zero_points_that_are_off_by_one(changed: Callable):
    def shift(tensors: dict[str, torch.Tensor]) -> None:
        # Every code one higher: 0x11111111 added to words whose codes are far from 15 would carry, so codes are capped.
        words = tensors[f"{HIT}.weight_packed"]
        codes = (words[..., None] >> (torch.arange(8, dtype=torch.int32) * 4)) & 15
        raised = (codes + 2).clamp_max(15).long() << (torch.arange(8) * 4)
        packed = raised.sum(-1)
        tensors[f"{HIT}.weight_packed"] = torch.where(packed >= 2**31, packed - 2**32, packed).int()

    found = changed("w4a16-g32", shift)
    assert 0.3 < found.error < 1 and found.cosine > 0.5
    assert found.finding is not None and "zero points" in found.finding


def test_values_that_are_not_finite(changed: Callable):
    def spoil(tensors: dict[str, torch.Tensor]) -> None:
        tensors[f"{HIT}.weight"][3, 4] = math.inf

    found = changed(None, spoil)
    assert math.isnan(found.error) and found.finding == "holds values that are not finite"


def test_a_matrix_of_zeros(changed: Callable):
    found = changed(None, lambda tensors: tensors[f"{HIT}.weight"].zero_())
    assert (found.error, found.cosine) == (1.0, 0.0) and found.finding is not None


def test_another_model_is_no_baseline(plain: Path, tmp_path: Path):
    from transformers import LlamaConfig, LlamaForCausalLM

    LlamaForCausalLM(LlamaConfig(**SIZES | {"num_hidden_layers": 1})).save_pretrained(tmp_path)
    with pytest.raises(EngineError, match="not the same model.*layers.1.*as the baseline"):
        list(differences(str(tmp_path), str(plain)))


def test_a_real_model_rounded_to_nearest(tmp_path: Path):
    """EVALCARD_TEST_MODEL is a folder with an uncompressed model."""
    model = os.environ.get("EVALCARD_TEST_MODEL")
    if not model:
        pytest.skip("EVALCARD_TEST_MODEL names no folder with a model")
    export(model, parse_scheme("w4a16-g64"), tmp_path)
    found = list(differences(str(tmp_path), model))
    quantized = [one for one in found if one.scheme]
    assert len(quantized) >= 7 and all(one.finding is None for one in found)
    assert all(0.05 < one.error < 0.2 and one.cosine > 0.98 for one in quantized)
    assert all(one.error == 0 for one in found if not one.scheme)
