"""Whatever is wrong with a checkpoint is told at once, for every format, before any weight is made."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from evalcard_engine.errors import EngineError
from evalcard_engine.inspection import inspect
from evalcard_engine.models import identify, open_model

SPOILED = ("model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.o_proj", "model.layers.1.mlp.up_proj")
EXTRA, LOST = "model.layers.0.mlp.adapter.weight", "model.norm.weight"
OPEN: dict[str, Any] = {"dtype": "float32", "device": "cpu", "scheme": None}


def spoil(tensor: torch.Tensor) -> torch.Tensor:
    """With a NaN as its first value, or the code of one."""
    changed = tensor.clone().reshape(-1)
    if tensor.dtype == torch.uint8:
        changed[0] = 255  # of E8M0 the only code that is no number
    elif tensor.dtype == torch.float8_e4m3fn:
        changed.view(torch.uint8)[0] = 0x7F
    else:
        changed[0] = float("nan")
    return changed.view(tensor.shape)


def test_scales_extra_and_missing_tensors_are_named_together(
    kind: Any,
    whole: tuple[Any, dict[str, torch.Tensor]],
    save_whole: Callable[[Any], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    llama, _ = whole
    for module in SPOILED:
        for leaf in kind.scales or ("bitmask",):
            stored = llama.tensors[f"{module}.{leaf}"]
            llama.tensors[f"{module}.{leaf}"] = spoil(stored) if kind.scales else torch.full_like(stored, 0x7F)
    folder = save_whole(llama)
    monkeypatch.setattr("evalcard_engine.models.fill", lambda *_: pytest.fail("weights were made"))
    with pytest.raises(EngineError) as caught:
        open_model(str(folder), **OPEN)
    text = str(caught.value)
    assert all(module in text for module in SPOILED)
    assert "Correct its config, fetch the model again, or compress it anew." in text
    llama.tensors[EXTRA] = torch.ones(3)
    del llama.tensors[LOST]
    save_whole(llama)
    with pytest.raises(EngineError) as caught:
        identify(str(folder), **OPEN)
    faults = caught.value.faults
    told = "\n".join(faults)
    assert f"tensors missing (1): {LOST}" in faults and f"tensors not part of the model (1): {EXTRA}" in faults
    for module in SPOILED:
        assert module in told
    assert len(faults) == 2 + len(kind.scales or "b") and inspect(str(folder)).faults == faults


def test_a_file_that_is_cut_off_and_a_scale_that_is_no_number(
    kind: Any, whole: tuple[Any, dict[str, torch.Tensor]], save_whole: Callable[[Any], Path]
) -> None:
    """In two files with an index, as exporters cut them: the layers of the one that is whole are still looked at."""
    if kind.metadata is not None:
        pytest.skip("torchao's metadata belongs to one file")
    llama, _ = whole
    module = SPOILED[-1]
    for leaf in kind.scales:
        llama.tensors[f"{module}.{leaf}"] = spoil(llama.tensors[f"{module}.{leaf}"])
    folder = save_whole(llama)
    tensors = load_file(folder / "model.safetensors")
    files = {name: f"model-0000{2 if '.layers.1.' in name else 1}-of-00002.safetensors" for name in tensors}
    for file in set(files.values()):
        save_file({name: tensors[name] for name, its in files.items() if its == file}, folder / file)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    first = folder / "model-00001-of-00002.safetensors"
    os.truncate(first, first.stat().st_size - 7)
    with pytest.raises(EngineError) as caught:
        identify(str(folder), **OPEN)
    cut, *rest = caught.value.faults
    assert cut.startswith(f"{first.name} cannot be read as safetensors (it is cut off after")
    assert len(rest) == len(kind.scales) and all(fault.startswith(module) for fault in rest)
