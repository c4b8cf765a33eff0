"""What lies beside a model's weights: its config, how it was compressed, what its README.md states. No weights, no
engine, and no path of this machine in what comes out."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalcard.backends.backend import Description
from evalcard.modelspec import ModelSpec

_DROPPED = frozenset({"_name_or_path", "name_or_path", "id2label", "label2id"})
"""Keys of config.json that name a place on the machine that saved it, or list labels without end."""
_STATED = ("license", "license_name", "license_link", "language")
_PLACE = re.compile(r"(?:^|[\s'\"=(\[,:])(?:~?/(?!/)|\.{1,2}/|[A-Za-z]:\\|\\\\|file://)[^\s'\",)\]]+")
_FRONT = re.compile(r"^\s*---\r?\n(.*?)\r?\n---\s*(?:\r?\n|$)", re.DOTALL)
_MOST = 20_000
"""Characters of a recipe that a card can show; a longer one is left to its file."""


def described(model: ModelSpec) -> Description:
    """Of a folder, or of what the Hub's cache has of a model; never fetches anything."""
    if model.hub_id is None:
        folder = Path(model.location).expanduser()
        return described_files(folder) if folder.is_dir() else Description()
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(model.hub_id, "config.json", revision=model.revision)
    return described_files(Path(found).parent) if isinstance(found, str) else Description()


def described_files(folder: Path | None, config: Mapping[str, Any] | None = None) -> Description:
    """``config``: where it was read already, as of a GGUF file. What cannot be read is not described."""
    if config is None:
        config = _json(folder / "config.json") if folder else None
    return Description(
        config=None if config is None else without_places(dict(config)),
        recipe=_recipe(folder / "recipe.yaml") if folder else None,
        stated=_stated(folder / "README.md") if folder else None,
    )


def without_places(value: Any) -> Any:
    """JSON without what is, or holds, an absolute or dotted path."""
    if isinstance(value, dict):
        kept = {str(key): without_places(one) for key, one in value.items() if key not in _DROPPED}
        return {key: one for key, one in kept.items() if one is not _NOTHING}
    if isinstance(value, list | tuple):
        return [one for one in map(without_places, value) if one is not _NOTHING]
    if isinstance(value, str):
        return _NOTHING if _PLACE.search(value) else value
    return value if value is None or isinstance(value, bool | int | float) else str(value)


_NOTHING = object()


def _recipe(file: Path) -> str | None:
    text = _text(file)
    if text is None or len(text) > _MOST:
        return None
    return _PLACE.sub(lambda match: _last_part(match[0]), text)


def _last_part(place: str) -> str:
    """A path with the sign before it, cut to the sign and the path's last part."""
    before = "" if place[0].isalnum() or place[0] in "~/.\\" else place[0]
    return before + (re.split(r"[/\\]+", place.rstrip("/\\"))[-1] or "FOLDER")


def _stated(file: Path) -> dict[str, str | list[str]] | None:
    text = _text(file)
    front = _FRONT.match(text.lstrip("\ufeff")) if text else None
    if front is None:
        return None
    import yaml

    try:
        data = yaml.safe_load(front[1])
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    found = {key: data[key] for key in _STATED if key in data} if isinstance(data, dict) else {}
    kept = {key: value for key, value in found.items() if _is_words(value)}
    return kept or None


def _is_words(value: Any) -> bool:
    many = value if isinstance(value, list) else [value]
    return bool(many) and all(isinstance(one, str) and one and not _PLACE.search(one) for one in many)


def _json(file: Path) -> dict[str, Any] | None:
    text = _text(file)
    try:
        data = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
