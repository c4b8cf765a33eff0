"""Finding a checkpoint: a folder, a GGUF file or a Hub id becomes a Checkpoint whose files are known to be complete."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalcard_engine.checkpoint.gguf_file import gguf_in, read_gguf
from evalcard_engine.checkpoint.gguf_model import describe
from evalcard_engine.checkpoint.tensor_files import Mapped, TensorFile, read_files
from evalcard_engine.errors import EngineError, ModelNotFound

HUB_PATTERNS = ("*.json", "*.safetensors", "*.jinja", "*.model", "*.txt", "*.tiktoken")
"""What an evaluation needs of a Hub repository: weights, configs and the tokenizer's files."""

ADVICE = "Correct its config, fetch the model again, or compress it anew."
"""What can be done about a checkpoint that is damaged or wrong."""
EXPORTER_CONFIG = "hf_quant_config"
"""Where ModelOpt describes its quantization, beside config.json or instead of it."""


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
    faults: tuple[str, ...] = ()
    """What is wrong with its files; only `read_checkpoint` gives a checkpoint that has any."""
    absent: frozenset[str] | None = frozenset()
    """Tensors in files that are missing or damaged, by the index; None where no index names them."""


def open_checkpoint(model: str, revision: str | None = None) -> Checkpoint:
    """Find the model and read its headers; no weights.

    Raises ModelNotFound where there is nothing to open, UnsupportedModel for weights in other files than safetensors,
    EngineError listing all that is damaged or missing.
    """
    checkpoint = read_checkpoint(model, revision)
    if checkpoint.faults:
        raise refused(model, checkpoint.faults)
    return checkpoint


def read_checkpoint(model: str, revision: str | None = None) -> Checkpoint:
    """Likewise, but files that are damaged or missing are told by the checkpoint's ``faults``."""
    path = locate(model, revision)
    if (gguf := gguf_in(path, model)) is not None:
        return _open_gguf(gguf, model)
    config = read_config(path, model)
    found = read_files(path, model)
    if not found.tensors and not found.faults:
        raise EngineError(f"{model}: its *.safetensors hold no tensor. Fetch the model again.")
    return Checkpoint(model, path, config, found.tensors, found.faults, found.absent)


def refused(model: str, faults: Sequence[str]) -> EngineError:
    """The error that lists everything which keeps a checkpoint from being loaded."""
    texts = [fault.removeprefix(f"{model}: ").rstrip(". ") for fault in dict.fromkeys(faults)]
    return EngineError(f"{model} cannot be loaded as it is: {'; '.join(texts)}. {ADVICE}", texts, ADVICE)


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
        raise EngineError(f"{model}: {file.name} is not valid JSON ({error}). Fetch it again.") from error
    if not isinstance(found, dict):
        raise EngineError(f"{model}: {file.name} holds a {type(found).__name__}, not an object. Fetch it again.")
    return found
