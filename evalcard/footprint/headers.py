"""Bytes of the tensors in a folder's safetensors files, read from their headers."""

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalcard.errors import UserError

INDEX = "model.safetensors.index.json"
_LARGEST_HEADER = 100_000_000
"""Bytes; the format's own limit."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Tensors of the files that make up the model."""

    num_bytes: int
    num_files: int


def measured(folder: Path) -> Measured | None:
    """None where the folder holds no weights, or not all that its index names; raises UserError for a damaged file."""
    files = _files(folder)
    if not files or not all(file.is_file() for file in files):
        return None
    return Measured(sum(map(_tensor_bytes, files)), len(files))


def _files(folder: Path) -> list[Path]:
    """Those that the index names; without one model.safetensors, or else all there are. A folder may hold the same
    weights twice, in another form's files."""
    if (folder / INDEX).is_file():
        return sorted({folder / name for name in _indexed(folder / INDEX)})
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    return sorted(folder.glob("*.safetensors"))


def _indexed(path: Path) -> list[str]:
    try:
        names = json.loads(path.read_text(encoding="utf-8"))["weight_map"].values()
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise _damaged(path, error) from None
    return [name for name in names if isinstance(name, str) and "/" not in name and "\\" not in name]


def _tensor_bytes(path: Path) -> int:
    try:
        with path.open("rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            if size > _LARGEST_HEADER:
                raise ValueError(f"a header of {size} bytes")
            tensors: dict[str, Any] = json.loads(file.read(size))
        spans = [one["data_offsets"] for name, one in tensors.items() if name != "__metadata__"]
        return sum(int(end) - int(begin) for begin, end in spans)
    except (ValueError, KeyError, TypeError, AttributeError, struct.error, OSError) as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> UserError:
    return UserError(f"{path.name} cannot be read ({type(error).__name__}: {error}). Fetch the file again.")
