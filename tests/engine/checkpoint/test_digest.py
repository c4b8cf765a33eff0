"""A digest of exactly what matters."""

import json
import os
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from evalcard_engine.checkpoint.digest import SETTLED_NS, weights_digest
from evalcard_engine.checkpoint.source import Checkpoint, open_checkpoint
from evalcard_engine.families import FAMILIES

LLAMA = FAMILIES["llama"]
TENSORS = {"model.a.weight": torch.arange(6.0).view(2, 3), "lm_head.weight": torch.ones(4).bfloat16()}


def checkpoint(folder: Path, tensors: dict[str, torch.Tensor] = TENSORS, **config: object) -> Checkpoint:
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", **config}))
    for file in folder.glob("*.safetensors"):
        file.unlink()
    save_file(tensors, folder / "model.safetensors")
    return open_checkpoint(str(folder))


def digest(opened: Checkpoint) -> str:
    return weights_digest(opened, LLAMA)


def test_digest_ignores_place_and_sharding(tmp_path: Path) -> None:
    one = checkpoint(tmp_path / "one", transformers_version="5.0")
    two = checkpoint(tmp_path / "two" / "deep", transformers_version="5.1")
    assert digest(one) == digest(two)
    for name, tensor in TENSORS.items():
        save_file({name: tensor}, two.path / f"{name}.safetensors")
    (two.path / "model.safetensors").unlink()
    assert digest(open_checkpoint(str(two.path))) == digest(one)


@pytest.mark.parametrize(
    "changed",
    [
        {**TENSORS, "lm_head.weight": torch.ones(4)},
        {**TENSORS, "lm_head.weight": torch.ones(2, 2).bfloat16()},
        {**TENSORS, "model.a.weight": torch.arange(6.0).view(2, 3) + 2**-20},
        {"model.b.weight": TENSORS["model.a.weight"], "lm_head.weight": TENSORS["lm_head.weight"]},
    ],
    ids=["dtype", "shape", "bytes", "name"],
)
def test_digest_sees_every_change(tmp_path: Path, changed: dict[str, torch.Tensor]) -> None:
    assert digest(checkpoint(tmp_path / "a")) != digest(checkpoint(tmp_path / "b", changed))


def test_digest_sees_the_config(tmp_path: Path) -> None:
    before = digest(checkpoint(tmp_path, rms_norm_eps=1e-5))
    assert digest(checkpoint(tmp_path, rms_norm_eps=1e-6)) != before


def test_digest_follows_a_file_that_is_rewritten(tmp_path: Path) -> None:
    before = digest(checkpoint(tmp_path))
    assert digest(checkpoint(tmp_path, {**TENSORS, "model.a.weight": torch.ones(2, 3)})) != before


def test_progress_ends_at_the_whole(tmp_path: Path) -> None:
    seen = []
    weights_digest(checkpoint(tmp_path), LLAMA, lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert seen[-1] == (6 * 4 + 4 * 2, 6 * 4 + 4 * 2)


@pytest.mark.parametrize("wait", [0.0, 2 * SETTLED_NS / 1e9])
def test_digest_sees_a_rewrite_that_keeps_size_and_mtime(tmp_path: Path, wait: float) -> None:
    file = tmp_path / "model.safetensors"
    opened = checkpoint(tmp_path)
    time.sleep(wait)
    before, times = digest(opened), file.stat()
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert (file.stat().st_mtime_ns, file.stat().st_size) == (times.st_mtime_ns, times.st_size)
    assert digest(opened) != before


def test_digest_of_settled_files_is_paid_for_once(tmp_path: Path) -> None:
    opened, seen = checkpoint(tmp_path), []
    time.sleep(2 * SETTLED_NS / 1e9)
    before = digest(opened)
    assert weights_digest(opened, LLAMA, lambda done, total: seen.append(done)) == before
    assert seen == []
