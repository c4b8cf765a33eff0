"""Which format a checkpoint is in, by what it says of itself."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from evalcard_engine.checkpoint.formats import format_of
from evalcard_engine.checkpoint.plain import PlainFormat
from evalcard_engine.checkpoint.source import Checkpoint, open_checkpoint
from evalcard_engine.errors import UnsupportedModel


def checkpoint(folder: Path, config: dict) -> Checkpoint:
    (folder / "config.json").write_text(json.dumps(config))
    save_file({"a": torch.ones(2)}, folder / "model.safetensors")
    return open_checkpoint(str(folder))


@pytest.mark.parametrize(
    ("config", "method"),
    [
        ({"quantization_config": {"quant_method": "hqq"}}, "hqq"),
        ({"text_config": {"quantization_config": {"quant_method": "quip"}}}, "quip"),
        ({"quantization_config": {"bits": 4}}, "unknown method"),
    ],
)
def test_quantized_checkpoints_are_refused_by_method(tmp_path: Path, config: dict, method: str) -> None:
    with pytest.raises(UnsupportedModel, match=method):
        format_of(checkpoint(tmp_path, config))


@pytest.mark.parametrize("config", [{}, {"quantization_config": {}}, {"quantization_config": None}])
def test_no_word_of_quantization_is_plain(tmp_path: Path, config: dict) -> None:
    assert isinstance(format_of(checkpoint(tmp_path, config)), PlainFormat)
