"""Several reasons to refuse a checkpoint are one list; one reason is said as it is."""

import json
from typing import Any

import pytest

from evalcard_engine.errors import EngineError, UnsupportedModel
from evalcard_engine.models import open_model
from evalcard_engine.quant.scheme import parse_scheme

OPEN: dict[str, Any] = {"dtype": "float32", "device": "cpu"}


def change_config(folder: Any, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


def refusal(folder: Any, scheme: str | None = None) -> EngineError:
    with pytest.raises(EngineError) as caught:
        open_model(str(folder), **OPEN, scheme=parse_scheme(scheme) if scheme else None)
    return caught.value


def test_family_settings_and_files_are_told_together(stored_llama: Any) -> None:
    folder = stored_llama.save({"quant_method": "gptq", "bits": 5, "group_size": 32, "rotation": "random"})
    (folder / "model.safetensors").write_bytes(b"")
    change_config(folder, model_type="mamba9")
    faults = refusal(folder).faults
    assert len(faults) == 4
    for part, fault in zip(("its 0 bytes", "'mamba9'", "rotation is 'random'", "bits is 5"), faults, strict=True):
        assert part in fault


def test_a_config_that_builds_no_model_beside_a_damaged_file(stored_llama: Any) -> None:
    folder = stored_llama.save(None)
    (folder / "model.safetensors").write_bytes(b"")
    change_config(folder, num_hidden_layers=0)
    damaged, config = refusal(folder).faults
    assert "its 0 bytes" in damaged and "num_hidden_layers in config.json is 0" in config


def test_one_reason_keeps_its_kind_and_its_words(stored_llama: Any) -> None:
    folder = stored_llama.save(None)
    change_config(folder, model_type="mamba9")
    error = refusal(folder)
    assert isinstance(error, UnsupportedModel) and error.faults == (str(error),)


def test_all_layers_that_a_scheme_cannot_hold_are_named(stored_llama: Any) -> None:
    """Found while weights are made: the first one does not hide the others."""
    broken = ["model.layers.0.mlp.up_proj", "model.layers.1.self_attn.q_proj"]
    for module in broken:
        stored_llama.tensors[f"{module}.weight"][1, 2] = float("nan")
    faults = refusal(stored_llama.save(None), "w8a8").faults
    assert len(faults) == 2 and all(any(module in fault for fault in faults) for module in broken)
