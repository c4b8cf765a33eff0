"""Where a model's config comes from: a folder, a file, or the Hub, of which config.json alone is fetched."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalcard.errors import UserError
from evalcard.footprint.headers import Measured, measured
from evalcard.modelspec import HUB_ID, ModelSpec, parse_model

CONFIG = "config.json"


@dataclass(frozen=True, slots=True)
class Source:
    """A model's config and, where its files are at hand, what they hold."""

    name: str
    """The Hub id, or the last part of the path; never a path."""
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
        return Source(model.name, _read(path / CONFIG, text), model.scheme, measured(path))
    if path.is_file():
        return Source(_named_after(path), _read(path, text), model.scheme, None)
    if not HUB_ID.fullmatch(model.source) or model.source.startswith("."):
        raise UserError(f"there is no {text}. Give a model's folder, its {CONFIG}, or a Hub id such as org/name.")
    return Source(model.source, _read(_fetched(model), text), model.scheme, None)


def _named_after(path: Path) -> str:
    """A bare config.json is named after its folder."""
    return path.stem if path.name != CONFIG else path.resolve().parent.name or path.stem


def _read(path: Path, text: str) -> dict[str, Any]:
    if path.suffix.lower() == ".gguf":
        raise UserError(f"{text} is a GGUF file; give the original model's {CONFIG}, its folder or its Hub id.")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{text}: its {CONFIG} is no JSON ({type(error).__name__}). Give another file.") from None
    if not isinstance(found, dict):
        raise UserError(f"{text}: its {CONFIG} holds no JSON object. Give a model's {CONFIG}.")
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
            at, f"gated: accept its terms at {_page(model.source)} and set HF_TOKEN (a read token)"
        ) from None
    except RepositoryNotFoundError:
        raise _refused(at, "the Hub knows no such model, or it is private. Check the name, and set HF_TOKEN") from None
    except (EntryNotFoundError, HfHubHTTPError, OSError, ValueError) as error:
        if forbidden:
            raise _refused(at, f"it is not in the cache, and the Hub was not asked ({forbidden} is set)") from None
        if away:
            raise _refused(at, f"it is not in the cache, and the Hub cannot be reached ({away})") from None
        raise _refused(at, f"the Hub said: {first_line(error).rstrip('.')}") from None


def _page(hub_id: str) -> str:
    from huggingface_hub import constants

    return f"{constants.ENDPOINT}/{hub_id}"


def _refused(at: str, why: str) -> UserError:
    return UserError(f"{at}: no {CONFIG}: {why}; or give a local folder or {CONFIG}.")
