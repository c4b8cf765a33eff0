"""Where a model's config comes from: a folder, a file, or the Hub, of which config.json alone is fetched."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalcard.errors import UserError
from evalcard.footprint.headers import Measured, measured
from evalcard.modelspec import HUB_ID, ModelSpec, parse_model

CONFIG = "config.json"
_ENDINGS = (".json", ".safetensors", ".gguf", ".bin", ".pt", ".pth")
"""Of files."""


@dataclass(frozen=True, slots=True)
class Source:
    """A model's config and, where its files are at hand, what they hold."""

    name: str
    """The Hub id, or the last part of the path; never a path."""
    origin: str
    """The config as a message to the user names it: the file as given, or the Hub id."""
    config: dict[str, Any]
    scheme: str | None
    """As given after MODEL."""
    measured: Measured | None


def read_source(text: str) -> Source:
    """Of MODEL[:scheme]; raises UserError where there is no config to read."""
    model = parse_model(text)
    path = Path(model.location).expanduser()
    if path.is_dir():
        if not (path / CONFIG).is_file():
            raise UserError(f"{text} is a folder without {CONFIG}. Give a model's folder, its {CONFIG} or a Hub id.")
        origin = os.path.join(model.source, CONFIG)
        return Source(model.name, origin, _read(path / CONFIG, origin), model.scheme, measured(path))
    if path.is_file():
        return Source(_named_after(path), model.source, _read(path, model.source), model.scheme, None)
    if not HUB_ID.fullmatch(model.source) or _is_path(model.source):
        raise UserError(
            f"there is no such file or folder: {model.source}. Give a model's folder, its {CONFIG}, or a Hub id such "
            "as org/name."
        )
    return Source(model.source, model.source, _read(_fetched(model), model.source), model.scheme, None)


def _is_path(name: str) -> bool:
    """Whether it can be no Hub id although it has the form of one: those do not end like files."""
    return name.startswith(".") or name.endswith("/") or Path(name).suffix.lower() in _ENDINGS


def _named_after(path: Path) -> str:
    """A bare config.json is named after its folder."""
    return path.stem if path.name != CONFIG else path.resolve().parent.name or path.stem


def _read(path: Path, origin: str) -> dict[str, Any]:
    if path.suffix.lower() == ".gguf":
        raise UserError(f"{origin} is a GGUF file; give the original model's {CONFIG}, its folder or its Hub id.")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{origin} is no JSON ({type(error).__name__}). Give a model's {CONFIG}.") from None
    if not isinstance(found, dict):
        raise UserError(f"{origin} holds no JSON object. Give a model's {CONFIG}.")
    return found


def _fetched(model: ModelSpec) -> Path:
    """From the cache or the Hub, with the user's token and settings."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

    from evalcard.tasks.data.hub import first_line, offline_by, unreachable

    at = f"{model.source}@{model.revision}" if model.revision else model.source
    forbidden = offline_by()
    away = None if forbidden else unreachable()  # asked first: the Hub's client would try for half a minute
    is_local = forbidden is not None or away is not None
    try:
        return Path(hf_hub_download(model.source, CONFIG, revision=model.revision, local_files_only=is_local))
    except GatedRepoError:
        raise _refused(
            f"{at} is gated. Accept its terms at {_page(model.source)} and set HF_TOKEN (a read token)"
        ) from None
    except RepositoryNotFoundError:
        raise _refused(
            f"{at}: the Hub knows no such model, or it is private. Check the name, and set HF_TOKEN"
        ) from None
    except (EntryNotFoundError, HfHubHTTPError, OSError, ValueError) as error:
        missing = f"{at}: its {CONFIG} is not in the Hub's cache on this machine."
        if forbidden:
            raise _refused(f"{missing} The Hub was not asked ({forbidden} is set). Unset that") from None
        if away:
            raise _refused(f"{missing} The Hub cannot be reached ({away}). Try again when it can") from None
        raise _refused(f"{at}: the Hub gave no {CONFIG}: {first_line(error).rstrip('.')}. Check the name") from None


def _page(hub_id: str) -> str:
    from huggingface_hub import constants

    return f"{constants.ENDPOINT}/{hub_id}"


def _refused(said: str) -> UserError:
    return UserError(f"{said}, or give a model's folder or a {CONFIG}.")
