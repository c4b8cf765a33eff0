"""Finding a checkpoint: a folder, a GGUF file or a Hub id becomes a Checkpoint whose files are known to be complete."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalcard_engine.checkpoint.gguf_file import gguf_in, read_gguf
from evalcard_engine.checkpoint.gguf_model import describe
from evalcard_engine.errors import EngineError, ModelNotFound, UnsupportedModel

HUB_PATTERNS = ("*.json", "*.safetensors", "*.jinja", "*.model", "*.txt", "*.tiktoken")
"""What an evaluation needs of a Hub repository: weights, configs and the tokenizer's files."""

DTYPE_BITS = {
    "F64": 64, "F32": 32, "BF16": 16, "F16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "I64": 64, "I32": 32,
    "I16": 16, "I8": 8, "U64": 64, "U32": 32, "U16": 16, "U8": 8, "BOOL": 8, "F4": 4, "C64": 64,
}  # fmt: skip
"""As safetensors spells dtypes."""

EXPORTER_CONFIG = "hf_quant_config"
"""Where ModelOpt describes its quantization, beside config.json or instead of it."""

OTHER_WEIGHTS = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx")


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
class TensorFile:
    """Where a tensor lies, and what its header says."""

    file: Path
    dtype: str
    """As safetensors spells it: F32, BF16, F16 ...; of a GGUF's blocks ggml's name of their type: Q4_K ..."""
    shape: tuple[int, ...]
    num_bytes: int
    mapped: Mapped | None = None
    """None in safetensors."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder whose config is readable and whose shards are all there, or a GGUF file."""

    name: str
    """As the user wrote it."""
    path: Path
    """The folder; of a GGUF model the file."""
    config: Mapping[str, Any]
    """config.json, or what a GGUF's metadata say in its words."""
    tensors: Mapping[str, TensorFile]


def open_checkpoint(model: str, revision: str | None = None) -> Checkpoint:
    """Find the model and read its headers; no weights.

    Raises ModelNotFound where there is nothing to open, UnsupportedModel for weights in other files than safetensors,
    EngineError for a damaged or incomplete checkpoint.
    """
    path = locate(model, revision)
    if (gguf := gguf_in(path, model)) is not None:
        return _open_gguf(gguf, model)
    config = read_config(path, model)
    tensors: dict[str, TensorFile] = {}
    for file in weight_files(path, model):
        for tensor, found in read_header(file).items():
            if tensor in tensors:
                raise EngineError(f"{model}: the tensor {tensor} is in {tensors[tensor].file.name} and in {file.name}.")
            tensors[tensor] = found
    if not tensors:
        raise EngineError(f"{model}: its *.safetensors hold no tensor. Fetch the model again.")
    return Checkpoint(model, path, config, tensors)


def _open_gguf(file: Path, model: str) -> Checkpoint:
    found = describe(read_gguf(file), model)
    tensors = {
        name: TensorFile(
            file, one.place.type, one.place.shape, one.place.num_bytes, Mapped(one.place.offset, one.heads, one.shift)
        )
        for name, one in found.tensors.items()
    }
    return Checkpoint(model, file, found.config, tensors)


def locate(model: str, revision: str | None = None) -> Path:
    """The folder of a model given as a folder or as a Hub id (downloaded unless it is in the cache), or a GGUF file."""
    path = Path(model).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file() and not any(path.glob("*.gguf")):
            raise ModelNotFound(f"{model} is a folder without config.json, so it holds no model that can be opened.")
        return path
    if path.is_file() and path.suffix.lower() == ".gguf":
        return path
    if not path.exists() and path.suffix.lower() == ".gguf":
        raise ModelNotFound(f"there is no file {model}.")
    if path.exists():
        raise ModelNotFound(f"{model} is a file; give the folder with config.json and *.safetensors, or a .gguf file.")
    if len(Path(model).parts) > 2 or model.startswith((".", "/", "~")):
        raise ModelNotFound(f"there is no folder {model}.")
    return _download(model, revision)


def _download(model: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=list(HUB_PATTERNS)))
    except HFValidationError as error:
        raise ModelNotFound(f"{model} is neither a folder nor a Hub id (ORG/NAME).") from error
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        at = f" at {revision}" if revision else ""
        raise ModelNotFound(
            f"{model}{at} is no folder here and could not be fetched from the Hub ({type(error).__name__}). "
            "Check the name, your network and HF_HUB_OFFLINE, log in for gated models, or give a local folder."
        ) from error


def read_config(path: Path, model: str) -> dict[str, Any]:
    """config.json as a dict; raises EngineError where it is not a JSON object, ModelNotFound where there is none.

    hf_quant_config.json is put in under that name: what it says changes answers, so it belongs to the digest too.
    """
    if not (path / "config.json").is_file():
        raise ModelNotFound(
            f"{model} has no config.json, so it holds no model that can be opened. Of a Hub repository of GGUF files "
            "download the one to evaluate (hf download ORG/NAME FILE.gguf) and give its path."
        )
    config = _read_object(path / "config.json", model)
    exported = path / f"{EXPORTER_CONFIG}.json"
    if exported.is_file():
        config[EXPORTER_CONFIG] = _read_object(exported, model)
    for name in ("text_config", "quantization_config"):
        if not isinstance(config.get(name) or {}, dict):
            raise EngineError(f"{model}: {name} in config.json is {config[name]!r}; it must be an object. Correct it.")
    return config


def _read_object(file: Path, model: str) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise EngineError(f"{model}: {file.name} is not valid JSON ({error}).") from error
    if not isinstance(found, dict):
        raise EngineError(f"{model}: {file.name} holds a {type(found).__name__}, not an object.")
    return found


def weight_files(path: Path, model: str) -> list[Path]:
    """The safetensors files of a folder, all of which exist, in name order."""
    index = path / "model.safetensors.index.json"
    if index.is_file():
        names = sorted(set(_weight_map(index, model).values()))
    else:
        single = path / "model.safetensors"
        names = [single.name] if single.is_file() else sorted(file.name for file in path.glob("*.safetensors"))
    missing = [name for name in names if not (path / name).is_file()]
    if missing:
        raise EngineError(f"{model} is incomplete: {len(missing)} of {len(names)} files are missing: {_few(missing)}.")
    if not names:
        others = sorted(file.name for file in path.iterdir() if file.suffix in OTHER_WEIGHTS)
        if others:
            raise UnsupportedModel(
                f"{model} holds its weights as {_few(others)}; this engine reads safetensors only. "
                "Save the model with safetensors (save_pretrained does), or try --backend hf."
            )
        raise ModelNotFound(f"{model} holds a config.json but no *.safetensors.")
    return [path / name for name in names]


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
    """Names, dtypes and shapes of a safetensors file; raises EngineError for a damaged or cut-off one."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as opened:
            return {
                name: TensorFile(file, part.get_dtype(), tuple(part.get_shape()), _num_bytes(part))
                for name in opened.keys()  # noqa: SIM118 - not a dict
                for part in (opened.get_slice(name),)
            }
    except (SafetensorError, OSError) as error:
        raise EngineError(f"{file} cannot be read as safetensors ({error}). Fetch it again.") from error


def _num_bytes(part: Any) -> int:
    dtype, count = part.get_dtype(), math.prod(part.get_shape())
    return count * DTYPE_BITS.get(dtype, 8) // 8


def _few(names: list[str], limit: int = 5) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
