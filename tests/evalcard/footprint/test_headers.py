"""Bytes read from the headers of weights."""

import json
import struct
from pathlib import Path

import pytest

from evalcard.errors import UserError
from evalcard.footprint.headers import INDEX, measured


def write(path: Path, *sizes: int) -> None:
    tensors: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for number, size in enumerate(sizes):
        tensors[f"t{number}"] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    header = json.dumps(tensors).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(at))


def test_one_file_and_many(tmp_path: Path):
    assert measured(tmp_path) is None
    write(tmp_path / "model-2.safetensors", 5, 7)
    write(tmp_path / "model-1.safetensors", 11)
    found = measured(tmp_path)
    assert found is not None and (found.num_bytes, found.num_files) == (23, 2)


def test_what_a_folder_holds_twice_counts_once(tmp_path: Path):
    write(tmp_path / "consolidated.safetensors", 100)
    for name in ("a", "b"):
        write(tmp_path / f"model-{name}.safetensors", 40)
    weight_map = {"x": "model-a.safetensors", "y": "model-b.safetensors", "z": "model-a.safetensors"}
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": weight_map}))
    found = measured(tmp_path)
    assert found is not None and (found.num_bytes, found.num_files) == (80, 2)
    (tmp_path / "model-b.safetensors").unlink()
    assert measured(tmp_path) is None, "half of a model is not measured"
    (tmp_path / INDEX).unlink()
    write(tmp_path / "model.safetensors", 9)
    found = measured(tmp_path)
    assert found is not None and (found.num_bytes, found.num_files) == (9, 1)


@pytest.mark.parametrize(
    "content",
    [b"", b"\x01", struct.pack("<Q", 2**40) + b"{}", struct.pack("<Q", 2) + b"[]", struct.pack("<Q", 9) + b'{"a": 1}'],
)
def test_damaged_files_are_named(tmp_path: Path, content: bytes):
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(UserError, match=r"^model\.safetensors cannot be read .*Fetch the file again"):
        measured(tmp_path)


def test_a_damaged_index_is_named(tmp_path: Path):
    (tmp_path / INDEX).write_text('{"weight_map": []}')
    with pytest.raises(UserError, match="index.json cannot be read"):
        measured(tmp_path)
