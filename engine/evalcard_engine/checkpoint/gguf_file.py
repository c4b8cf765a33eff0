"""Reading a GGUF file's header: metadata, and where each tensor lies. No torch, and no tensor is read.

Layout: the format's specification (ggml, docs/gguf.md), versions 2 and 3, little-endian. Everything that the header
says is checked against the file's size before it is believed.
"""

import math
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalcard_engine.errors import EngineError, UnsupportedModel

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
MAX_DIMENSIONS = 4
"""GGML_MAX_DIMS."""

TYPES: Mapping[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17), 40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18),
}  # fmt: skip
"""ggml's number of a type -> (name, values in a block, bytes of a block); also of types that are not run."""

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Number of a metadata value's type -> its struct code."""
_STRING, _ARRAY = 8, 9
_LEAST_FIELD = 8 + 4 + 1
"""Bytes of the shortest metadata field: an empty key, a type and one byte."""
_LEAST_TENSOR = 8 + 4 + 8 + 4 + 8
"""Bytes of the shortest entry of the tensor table: an empty name, one dimension, a type and an offset."""


@dataclass(frozen=True, slots=True)
class GGUFTensor:
    """An entry of the tensor table."""

    type: str
    """ggml's name, such as Q4_K."""
    shape: tuple[int, ...]
    """As torch orders it: the dimension that is contiguous in the file comes last."""
    offset: int
    """Bytes from the beginning of the file."""
    num_bytes: int


@dataclass(frozen=True, slots=True)
class GGUFFile:
    """A header that agrees with the size of its file."""

    path: Path
    metadata: Mapping[str, Any]
    """Key -> bool, int, float, str or a list of them."""
    tensors: Mapping[str, GGUFTensor]


def read_gguf(path: Path) -> GGUFFile:
    """The header of a file.

    Raises UnsupportedModel for versions, byte orders and tensor types that are not known, EngineError for what is no
    GGUF file, is cut off, or contradicts itself.
    """
    try:
        with path.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Header(path, data).read()
    except (OSError, ValueError) as error:  # an empty file cannot be mapped: ValueError
        raise EngineError(f"{path} cannot be read as GGUF ({error}). Fetch it again.") from error


def gguf_in(path: Path, model: str) -> Path | None:
    """The GGUF file that ``path`` is, or that a folder without safetensors holds; None where there is none.

    Raises EngineError for a folder with several: nothing says which of them is meant.
    """
    if path.is_file():
        return path
    if any(path.glob("*.safetensors")) or (path / "model.safetensors.index.json").is_file():
        return None
    found = sorted(file.name for file in path.glob("*.gguf"))
    if len(found) > 1:
        raise EngineError(f"{model} holds {len(found)} GGUF files: {_few(found)}. Give one of them: {path / found[0]}.")
    return path / found[0] if found else None


class _Header:
    """A place in the mapped file that moves on as values are taken."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path, self._data, self._size, self._at = path, data, len(data), 0

    def read(self) -> GGUFFile:
        num_tensors, num_fields = self._start()
        metadata: dict[str, Any] = {}
        for _ in range(num_fields):
            key = self._name("a metadata key")
            if key in metadata:
                raise self._fault(f"the metadata key {key} comes twice")
            metadata[key] = self._value(self._scalar("I"), key)
        table: dict[str, tuple[int, tuple[int, ...], int]] = {}
        for _ in range(num_tensors):
            name = self._name("a tensor's name")
            if name in table:
                raise self._fault(f"the tensor {name} comes twice")
            table[name] = self._entry(name)
        return GGUFFile(self._path, metadata, self._places(table, self._alignment(metadata)))

    def _start(self) -> tuple[int, int]:
        """(tensors, metadata fields), both small enough for the file."""
        magic = bytes(self._data[:4])
        if magic != MAGIC:
            raise self._fault(f"it begins with {magic!r}, not {MAGIC!r}, so it is no GGUF file")
        self._at = 4
        version = self._scalar("I")
        if version & 0xFFFF == 0:
            raise UnsupportedModel(f"{self._path} is in big-endian byte order; this engine reads little-endian GGUF.")
        if version not in VERSIONS:
            known = " and ".join(map(str, VERSIONS))
            raise UnsupportedModel(f"{self._path} is GGUF version {version}; this engine reads versions {known}.")
        num_tensors, num_fields = self._scalar("Q"), self._scalar("Q")
        self._require(num_fields * _LEAST_FIELD + num_tensors * _LEAST_TENSOR, f"{num_fields} fields, "
                      f"{num_tensors} tensors")  # fmt: skip
        return num_tensors, num_fields

    def _entry(self, name: str) -> tuple[int, tuple[int, ...], int]:
        """(type, shape, offset in the data) of one tensor."""
        count = self._scalar("I")
        if not 1 <= count <= MAX_DIMENSIONS:
            raise self._fault(f"the tensor {name} has {count} dimensions; 1 to {MAX_DIMENSIONS} are allowed")
        sizes = tuple(self._scalar("Q") for _ in range(count))
        if 0 in sizes:
            raise self._fault(f"the tensor {name} has the shape {list(reversed(sizes))}, which holds nothing")
        return self._scalar("I"), tuple(reversed(sizes)), self._scalar("Q")

    def _alignment(self, metadata: Mapping[str, Any]) -> int:
        found = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
        if not isinstance(found, int) or found < 8 or found % 8:
            raise self._fault(f"general.alignment is {found!r}; it must be a multiple of 8")
        return found

    def _places(self, table: Mapping[str, tuple[int, tuple[int, ...], int]], alignment: int) -> dict[str, GGUFTensor]:
        """All tensors inside the file and apart from each other; one message lists those that are not."""
        start = -(-self._at // alignment) * alignment
        unknown = [f"{name} (type {number})" for name, (number, _, _) in table.items() if number not in TYPES]
        if unknown:
            raise UnsupportedModel(f"{self._path}: tensors of types that are not known: {_few(unknown)}.")
        found: dict[str, GGUFTensor] = {}
        faults = []
        for name, (number, shape, offset) in table.items():
            kind, per_block, block_bytes = TYPES[number]
            if shape[-1] % per_block:
                faults.append(f"{name}: rows of {shape[-1]} values do not divide into {kind}'s blocks of {per_block}")
            num_bytes = math.prod(shape) // per_block * block_bytes
            found[name] = GGUFTensor(kind, shape, start + offset, num_bytes)
            if offset % alignment or start + offset + num_bytes > self._size:
                faults.append(f"{name}: bytes {start + offset} to {start + offset + num_bytes} of {self._size}")
        ordered = sorted(found.items(), key=lambda item: item[1].offset)
        for (name, one), (other, after) in zip(ordered, ordered[1:], strict=False):
            if one.offset + one.num_bytes > after.offset:
                faults.append(f"{name} and {other} overlap")
        if faults:
            raise self._fault(f"tensors that cannot be where the header says ({len(faults)}): {_few(faults)}")
        return found

    def _value(self, kind: int, key: str) -> Any:
        if kind == _STRING:
            return self._text().decode("utf-8", errors="replace")
        if kind == _ARRAY:
            return self._array(key)
        if kind not in _SCALARS:
            raise self._fault(f"the metadata value {key} is of the unknown type {kind}")
        return self._scalar(_SCALARS[kind])

    def _array(self, key: str) -> list[Any]:
        kind, count = self._scalar("I"), self._scalar("Q")
        if kind == _STRING:
            self._require(8 * count, f"{count} strings of {key}")
            return [self._text().decode("utf-8", errors="replace") for _ in range(count)]
        if kind not in _SCALARS:
            raise self._fault(f"the metadata value {key} is an array of the unknown type {kind}")
        code = _SCALARS[kind]
        self._require(struct.calcsize(f"<{code}") * count, f"{count} values of {key}")
        return list(self._take(f"<{count}{code}"))

    def _name(self, what: str) -> str:
        text = self._text()
        try:
            return text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._fault(f"{what} is not UTF-8 ({text[:40]!r})") from error

    def _text(self) -> bytes:
        length = self._scalar("Q")
        self._require(length, f"a text of {length} bytes")
        self._at += length
        return self._data[self._at - length : self._at]

    def _scalar(self, code: str) -> Any:
        return self._take(f"<{code}")[0]

    def _take(self, form: str) -> tuple[Any, ...]:
        size = struct.calcsize(form)
        self._require(size, f"{size} bytes")
        self._at += size
        return struct.unpack_from(form, self._data, self._at - size)

    def _require(self, num_bytes: int, what: str) -> None:
        if num_bytes > self._size - self._at:
            raise self._fault(f"it is cut off or damaged: at byte {self._at} of {self._size} it announces {what}")

    def _fault(self, what: str) -> EngineError:
        return EngineError(f"{self._path}: {what}. Fetch it again.")


def _few(names: list[str], limit: int = 8) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return "; ".join(names[:limit]) + more
