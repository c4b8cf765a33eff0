"""The safetensors files of a checkpoint: which there are, what their headers say, and whether the index agrees."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalcard_engine.errors import EngineError, ModelNotFound, OutOfMemory, UnsupportedModel

DTYPE_BITS = {
    "F64": 64, "F32": 32, "BF16": 16, "F16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "I64": 64, "I32": 32,
    "I16": 16, "I8": 8, "U64": 64, "U32": 32, "U16": 16, "U8": 8, "BOOL": 8, "F4": 4, "C64": 64,
}  # fmt: skip
"""As safetensors spells dtypes."""

INDEX = "model.safetensors.index.json"
OTHER_WEIGHTS = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx")
_LFS_POINTER = b"version https://git-lfs"
_LENGTH = 8
"""Bytes of the number at a file's head: the length of its JSON header (safetensors' format)."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """A tensor's place in a file that is not safetensors, and what is done to the bytes there."""

    offset: int
    """Bytes from the beginning of the file."""
    heads: int = 0
    """The rows of so many heads have their two halves interleaved and are put apart; 0 leaves rows as they are."""
    shift: float = 0.0
    """Added to unquantized values, which become float32."""


@dataclass(frozen=True, slots=True)
class Cut:
    """One expert's share of a tensor [experts, ...] in a safetensors file."""

    tensor: str
    """Its name in the file."""
    expert: int
    start: int
    stop: int
    """Outputs [start, stop) of the expert."""
    is_turned: bool
    """Outputs are the tensor's last dimension and come first in the share; else they are its second."""


@dataclass(frozen=True, slots=True)
class TensorFile:
    """Where a tensor lies, and what its header says."""

    file: Path
    dtype: str
    """As safetensors spells it: F32, BF16, F16 ...; of a GGUF's blocks ggml's name of their type: Q4_K ..."""
    shape: tuple[int, ...]
    num_bytes: int
    mapped: Mapped | None = None
    """None in safetensors."""
    cut: Cut | None = None
    """None for a tensor that is in the file as it is."""


@dataclass(frozen=True, slots=True)
class Files:
    """What the files of a folder hold, and what is wrong with them."""

    tensors: Mapping[str, TensorFile]
    faults: tuple[str, ...]
    absent: frozenset[str] | None
    """Tensors that the index puts in files which are missing or damaged; None where such files have no index."""


def read_files(path: Path, model: str) -> Files:
    """The headers of all safetensors files of a folder.

    Raises EngineError for a malformed index, UnsupportedModel where the weights are in files of another kind.
    """
    index = _weight_map(path / INDEX, model) if (path / INDEX).is_file() else None
    names = weight_files(path, model, index)
    missing = [name for name in names if not (path / name).is_file()]
    faults = [f"{len(missing)} of {len(names)} files are missing: {_few(missing)}"] if missing else []
    tensors: dict[str, TensorFile] = {}
    lost = set(missing)
    for name in (name for name in names if name not in lost):
        try:
            found = read_header(path / name)
        except EngineError as error:
            faults.append(str(error))
            lost.add(name)
            continue
        twice = sorted(tensors.keys() & found.keys())
        faults += [f"the tensor {tensor} is in {tensors[tensor].file.name} and in {name}" for tensor in twice]
        tensors |= found
    if index is None:
        return Files(tensors, tuple(faults), None if lost else frozenset())
    faults += _disagreements(index, tensors, lost)
    return Files(tensors, tuple(faults), frozenset(tensor for tensor, name in index.items() if name in lost))


def _disagreements(index: Mapping[str, str], tensors: Mapping[str, TensorFile], lost: set[str]) -> Iterator[str]:
    """Where the index and the headers of the files that can be read differ."""
    beside = sorted(tensors.keys() - index.keys())
    if beside:
        yield f"tensors that {INDEX} does not name ({len(beside)}): {_few(beside)}"
    nowhere = [
        f"{tensor} ({name})" for tensor, name in sorted(index.items()) if tensor not in tensors and name not in lost
    ]
    if nowhere:
        yield f"tensors that are not in the file which {INDEX} names ({len(nowhere)}): {_few(nowhere)}"
    places = {tensor: name for tensor, name in index.items() if tensor in tensors and name not in lost}
    moved = [
        f"{tensor} in {tensors[tensor].file.name}, not {name}"
        for tensor, name in sorted(places.items())
        if tensors[tensor].file.name != Path(name).name
    ]
    if moved:
        yield f"tensors in another file than {INDEX} says ({len(moved)}): {_few(moved)}"


def weight_files(path: Path, model: str, index: Mapping[str, str] | None) -> list[str]:
    """Names of the safetensors files that make up a folder's model, in order; whether they exist is another matter.

    Raises UnsupportedModel where the weights are stored as something else, ModelNotFound where there are none.
    """
    if index is not None:
        return sorted(set(index.values()))
    if (path / "model.safetensors").is_file():
        return ["model.safetensors"]
    names = sorted(file.name for file in path.glob("*.safetensors"))
    others = sorted(file.name for file in path.iterdir() if file.suffix in OTHER_WEIGHTS)
    if not names and others:
        raise UnsupportedModel(
            f"{model} holds its weights as {_few(others)}; this engine reads safetensors only. "
            "Save the model with safetensors (save_pretrained does), or try --backend hf."
        )
    if not names:
        raise ModelNotFound(f"{model} holds a config.json but no *.safetensors.")
    return names


def _weight_map(index: Path, model: str) -> dict[str, str]:
    try:
        found = json.loads(index.read_text(encoding="utf-8"))
    except ValueError as error:
        raise EngineError(f"{model}: {index.name} cannot be read ({type(error).__name__}: {error}).") from error
    names = found.get("weight_map") if isinstance(found, dict) else None
    if not isinstance(names, dict) or not names or not all(isinstance(file, str) for file in names.values()):
        raise EngineError(
            f"{model}: {index.name} is malformed: its weight_map must name a file for each tensor. Fetch it again."
        )
    return names


def read_header(file: Path) -> dict[str, TensorFile]:
    """Names, dtypes and shapes of a safetensors file.

    Raises EngineError for a damaged or cut-off one, OutOfMemory where the system has no room to map it.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as opened:
            return {
                name: TensorFile(file, part.get_dtype(), tuple(part.get_shape()), _num_bytes(part))
                for name in opened.keys()  # noqa: SIM118 - not a dict
                for part in (opened.get_slice(name),)
            }
    except (SafetensorError, OSError) as error:
        raise EngineError(f"{file.name} cannot be read as safetensors ({_damage(file) or error})") from error
    except RuntimeError as error:  # torch's, which maps the file as a whole
        if "mmap" not in str(error):
            raise
        raise OutOfMemory(
            f"{file.name} has {file.stat().st_size / 2**30:.2f} GiB, and this machine cannot map so much into memory. "
            "Use a machine with more memory, or save the model in smaller files (max_shard_size of save_pretrained)."
        ) from error


def _damage(file: Path) -> str | None:
    """What befell a file, where its first bytes tell."""
    with file.open("rb") as opened:
        head = opened.read(max(_LENGTH, len(_LFS_POINTER)))
        size = file.stat().st_size
        if head.startswith(_LFS_POINTER):
            return "it is a Git LFS pointer to the file, which `git lfs pull` fetches"
        whole = _LENGTH + int.from_bytes(head[:_LENGTH], "little")
        if len(head) < _LENGTH or whole > size:
            return f"its {size} bytes end before its header does"
        opened.seek(_LENGTH)
        whole += _data_bytes(opened.read(whole - _LENGTH))
    return f"it is cut off after {size} of {whole} bytes" if size < whole else None


def _data_bytes(header: bytes) -> int:
    """Bytes that a header promises after itself; 0 where it does not say."""
    try:
        entries = json.loads(header)
        return max(int(one["data_offsets"][1]) for name, one in entries.items() if name != "__metadata__")
    except (ValueError, LookupError, TypeError, AttributeError):
        return 0


def _num_bytes(part: Any) -> int:
    dtype, count = part.get_dtype(), math.prod(part.get_shape())
    return count * DTYPE_BITS.get(dtype, 8) // 8


def _few(names: list[str], limit: int = 5) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
