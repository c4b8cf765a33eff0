"""Finding checkpoints, and saying kindly why one cannot be opened."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from evalcard_engine.checkpoint.source import locate, open_checkpoint, read_checkpoint
from evalcard_engine.errors import EngineError, ModelNotFound, UnsupportedModel


def write(folder: Path, shards: dict[str, dict[str, torch.Tensor]], config: object = None) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config or {"model_type": "llama"}))
    for name, tensors in shards.items():
        save_file(tensors, folder / name)
    return folder


def index(folder: Path, weight_map: dict[str, str]) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


def test_headers_of_all_shards(tmp_path: Path) -> None:
    write(
        tmp_path, {"model-1.safetensors": {"a": torch.ones(2, 3)}, "model-2.safetensors": {"b": torch.ones(4).half()}}
    )
    index(tmp_path, {"a": "model-1.safetensors", "b": "model-2.safetensors"})
    tensors = open_checkpoint(str(tmp_path)).tensors
    assert {name: (place.dtype, place.shape) for name, place in tensors.items()} == {
        "a": ("F32", (2, 3)),
        "b": ("F16", (4,)),
    }


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"model-1.safetensors": {"a": torch.ones(2)}})
    index(tmp_path, {"a": "model-1.safetensors", "b": "model-2.safetensors"})
    with pytest.raises(EngineError, match="model-2.safetensors"):
        open_checkpoint(str(tmp_path))


def test_whatever_is_wrong_with_the_files_comes_at_once(tmp_path: Path) -> None:
    """One shard missing, one cut off, one empty, one a pointer; and an index that names neither all nor only theirs."""
    shards = {f"model-{number}.safetensors": {f"t{number}": torch.ones(500)} for number in range(1, 7)}
    write(tmp_path, {**shards, "model-7.safetensors": {"t7": torch.ones(2), "unnamed": torch.ones(2)}})
    files = {f"t{number}": f"model-{number}.safetensors" for number in range(1, 8)}
    index(tmp_path, {**files, "t5": "model-6.safetensors", "t6": "model-6.safetensors", "gone": "model-7.safetensors",
                     "lost": "model-1.safetensors", "other": "model-5.safetensors"})  # fmt: skip
    (tmp_path / "model-1.safetensors").unlink()
    whole = (tmp_path / "model-2.safetensors").read_bytes()
    (tmp_path / "model-2.safetensors").write_bytes(whole[:-3])
    (tmp_path / "model-3.safetensors").write_bytes(b"")
    (tmp_path / "model-4.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    found = read_checkpoint(str(tmp_path))
    listed = "model.safetensors.index.json"
    cut, empty, pointer = (f"model-{number}.safetensors cannot be read as safetensors" for number in (2, 3, 4))
    assert found.faults == (
        "1 of 7 files are missing: model-1.safetensors",
        f"{cut} (it is cut off after {len(whole) - 3} of {len(whole)} bytes)",
        f"{empty} (its 0 bytes end before its header does)",
        f"{pointer} (it is a Git LFS pointer to the file, which `git lfs pull` fetches)",
        f"tensors that {listed} does not name (1): unnamed",
        f"tensors that are not in the file which {listed} names (2): gone (model-7.safetensors), "
        "other (model-5.safetensors)",
        f"tensors in another file than {listed} says (1): t5 in model-5.safetensors, not model-6.safetensors",
    )
    assert found.absent == {"t1", "t2", "t3", "t4", "lost"}
    with pytest.raises(EngineError) as caught:
        open_checkpoint(str(tmp_path))
    assert caught.value.faults == found.faults


def test_files_without_an_index_say_nothing_of_what_they_held(tmp_path: Path) -> None:
    write(tmp_path, {"x.safetensors": {"a": torch.ones(9)}, "y.safetensors": {"b": torch.ones(9)}})
    (tmp_path / "y.safetensors").write_bytes(b"")
    found = read_checkpoint(str(tmp_path))
    assert found.absent is None and list(found.tensors) == ["a"] and len(found.faults) == 1


def test_a_header_that_is_longer_than_the_file(tmp_path: Path) -> None:
    write(tmp_path, {})
    (tmp_path / "model.safetensors").write_bytes((1 << 60).to_bytes(8, "little") + b"{" * 50)
    with pytest.raises(EngineError, match="its 58 bytes end before its header does"):
        open_checkpoint(str(tmp_path))


def test_a_cut_off_file_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"model.safetensors": {"a": torch.ones(1000)}})
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(EngineError, match="model.safetensors cannot be read"):
        open_checkpoint(str(tmp_path))


def test_a_tensor_in_two_files_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"x.safetensors": {"a": torch.ones(2)}, "y.safetensors": {"a": torch.zeros(2)}})
    with pytest.raises(EngineError, match="x.safetensors and in y.safetensors"):
        open_checkpoint(str(tmp_path))


def test_other_weight_formats_are_named(tmp_path: Path) -> None:
    write(tmp_path, {})
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(UnsupportedModel, match="pytorch_model.bin.*safetensors"):
        open_checkpoint(str(tmp_path))


def test_folders_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="config.json"):
        open_checkpoint(str(tmp_path))
    write(tmp_path, {})
    with pytest.raises(ModelNotFound, match="no \\*.safetensors"):
        open_checkpoint(str(tmp_path))
    with pytest.raises(ModelNotFound, match="is a file"):
        open_checkpoint(str(tmp_path / "config.json"))
    with pytest.raises(ModelNotFound, match="no folder"):
        open_checkpoint(str(tmp_path / "nowhere"))


@pytest.mark.parametrize("text", ["[1]", "{"])
def test_a_damaged_config_is_said_to_be_damaged(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(EngineError, match="config.json"):
        open_checkpoint(str(tmp_path))


def test_a_hub_id_that_cannot_be_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    def offline(model: str, **kwargs: object) -> str:
        assert (model, kwargs["revision"]) == ("org/name", "v2")
        raise LocalEntryNotFoundError("offline")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(ModelNotFound, match="org/name at v2.*HF_HUB_OFFLINE"):
        locate("org/name", "v2")


def test_a_hub_id_gives_the_downloaded_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda model, **kwargs: str(tmp_path))
    assert locate("org/name") == tmp_path


@pytest.mark.parametrize("text", ['{"weight_map": []}', '{"weight_map": {}}', '{"weight_map": {"a": 1}}', "{}", "[]"])
def test_an_index_without_a_map_is_malformed(tmp_path: Path, text: str) -> None:
    write(tmp_path, {"model-1.safetensors": {"a": torch.ones(1)}})
    (tmp_path / "model.safetensors.index.json").write_text(text)
    with pytest.raises(EngineError, match="index.json is malformed"):
        open_checkpoint(str(tmp_path))


@pytest.mark.parametrize("name", ["text_config", "quantization_config"])
def test_a_part_of_the_config_that_is_no_object_is_named(tmp_path: Path, name: str) -> None:
    write(tmp_path, {"model.safetensors": {"a": torch.ones(1)}}, {"model_type": "gemma3", name: "x"})
    with pytest.raises(EngineError, match=f"{name} in config.json is 'x'"):
        open_checkpoint(str(tmp_path))


def test_files_without_tensors_are_refused(tmp_path: Path) -> None:
    write(tmp_path, {"model.safetensors": {}})
    with pytest.raises(EngineError, match="hold no tensor"):
        open_checkpoint(str(tmp_path))
