"""Round to nearest into a folder that appears whole or not at all, and what is refused before that."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalcard.errors import UserError
from evalcard.modelspec import ModelSpec
from evalcard.progress import Silent
from evalcard.quantize import Job, quantize, whole_folder


@pytest.fixture
def job(tiny_model: Path, tmp_path: Path) -> Callable[..., Job]:
    def make(**changes: Any) -> Job:
        given = {"model": ModelSpec(source=str(tiny_model)), "scheme": "w4a16-g32", "out": tmp_path / "a" / "out"}
        return Job(**given | changes)  # type: ignore[arg-type]

    return make


def test_a_checkpoint_with_its_tokenizer_and_its_recipe(job, tiny_model: Path):
    made = job(ignore=("re:.*layers.1.*",))
    found = quantize(made, Silent())
    assert found.scheme_words == "compressed-tensors: w4a16 (int4, groups of 32)" and not found.faults
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        assert (made.out / name).read_bytes() == (tiny_model / name).read_bytes()
    text = (made.out / "recipe.yaml").read_text()
    recipe = yaml.safe_load(text)
    assert (recipe["method"], recipe["scheme"], recipe["model"]) == ("rtn", "w4a16-g32", tiny_model.name)
    assert recipe["ignore"] == ["re:.*layers.1.*", "lm_head"] and str(tiny_model.parent) not in text
    assert [file.name for file in made.out.parent.iterdir()] == ["out"]  # nothing is left beside it
    assert made.out.stat().st_mode & 0o777 == 0o777 & ~(mask := os.umask(0o022)) and os.umask(mask) == 0o022


@pytest.mark.parametrize("mask", [0o022, 0o007])
def test_files_have_the_mode_that_umask_gives(job, mask: int):
    before = os.umask(mask)
    try:
        made = job()
        quantize(made, Silent())
    finally:
        os.umask(before)
    modes = {file.name: file.stat().st_mode & 0o777 for file in made.out.iterdir()}
    assert "model.safetensors" in modes and set(modes.values()) == {0o666 & ~mask}, modes


def test_an_empty_folder_may_be_there(job):
    made = job()
    made.out.mkdir(parents=True)
    quantize(made, Silent())
    assert (made.out / "config.json").is_file()


def test_nothing_is_written_over(job):
    made = job()
    made.out.mkdir(parents=True)
    (made.out / "mine").write_text("x")
    with pytest.raises(UserError, match="--out .* exists already"):
        quantize(made, Silent())
    assert [file.name for file in made.out.iterdir()] == ["mine"]


def test_a_file_is_no_folder(tmp_path: Path, job):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="cannot be made"):
        quantize(job(out=tmp_path / "file" / "out"), Silent())


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_what_ends_early_leaves_nothing(tmp_path: Path, error: type[BaseException]):
    with pytest.raises(error), whole_folder(tmp_path / "out") as folder:
        (folder / "half").write_text("x")
        assert not (tmp_path / "out").exists()
        raise error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scheme": "w9"}, "--scheme: unknown scheme"),
        ({"scheme": "nf4"}, "no form for nf4"),
        ({"ignore": ("mlp",)}, "'mlp' matches no linear"),
        ({"method": "gptq"}, "gptq needs texts to calibrate with: --data FILE"),
        ({"method": "gptq", "scheme": "fp8"}, "makes int4 and int8 weights, not fp8"),
        ({"method": "awq", "scheme": "w8a8"}, "awq makes"),
        ({"method": "smoothquant"}, "smoothquant makes w8a8, not w4a16-g32"),
        ({"method": "gptq", "scheme": "sparse24+w4a16"}, r"not sparse24\+w4a16"),
        ({"data": Path("x.jsonl")}, "rtn looks at weights alone"),
        ({"model": ModelSpec(source="m", scheme="w8a8")}, "names a scheme already"),
    ],
)
def test_what_cannot_be_made(job, changes: dict[str, Any], message: str):
    made = job(**changes)
    with pytest.raises(UserError, match=message):
        quantize(made, Silent())
    assert not made.out.exists() and (not made.out.parent.exists() or not list(made.out.parent.iterdir()))
