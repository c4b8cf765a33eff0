"""What is not run exactly is refused by name, with the reason and the way out."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from evalcard_engine.errors import UnsupportedModel
from evalcard_engine.families import FAMILIES, REFUSED, family_of
from evalcard_engine.models import open_model

ROPE = {"rope_theta": 1e4, "original_max_position_embeddings": 128}
FACTORS = {"short_factor": [1.0, 1.1, 1.3, 1.6], "long_factor": [1.5, 2.0, 5.0, 9.0]}


def open_with(folder: Path, made, name: str, **changes) -> None:
    config = json.loads((made(name).folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    save_file({"x": torch.ones(1)}, folder / "model.safetensors")
    open_model(str(folder), dtype="float32", device="cpu", scheme=None)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_families_that_share_keys_and_values_between_layers(name: str) -> None:
    with pytest.raises(UnsupportedModel, match=f"{name}.*keys and values of earlier ones.*--backend vllm or --backend"):
        family_of({"model_type": name}, "org/model")
    assert name not in FAMILIES


@pytest.mark.parametrize("name", ["llama", "gemma3_text"])
def test_a_known_family_that_shares_keys_and_values(name: str) -> None:
    with pytest.raises(UnsupportedModel, match="keys and values of earlier ones"):
        family_of({"model_type": name, "num_kv_shared_layers": 2}, "m")
    assert family_of({"model_type": name, "num_kv_shared_layers": 0}, "m").model_type == name


@pytest.mark.parametrize(
    ("name", "rope", "reason"),
    [
        ("llama", {"rope_type": "dynamic", "factor": 2.0}, "'dynamic', which changes with the length of the batch"),
        ("qwen2", {"rope_type": "longrope", **FACTORS}, "'longrope', which changes with the length of the batch"),
        ("llama4_text", {"rope_type": "dynamic", "factor": 2.0}, "'dynamic', which changes with the length"),
    ],
)
def test_position_encodings_that_go_by_the_batch(made, tmp_path: Path, name: str, rope: dict, reason: str) -> None:
    with pytest.raises(UnsupportedModel, match=reason):
        open_with(tmp_path, made, name, rope_parameters=ROPE | rope)


def test_settings_of_another_family(made, tmp_path: Path) -> None:
    """A chunk size in a family that does not read it would change what its layers see."""
    with pytest.raises(UnsupportedModel, match="attention_chunk_size = 8192.*'qwen3_moe' does not read it"):
        open_with(tmp_path, made, "qwen3_moe", attention_chunk_size=8192)
