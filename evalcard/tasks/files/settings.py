"""What a task file says to evalcard alone, under ``metadata: evalcard:``."""

from collections.abc import Mapping
from typing import Any

from evalcard.errors import UserError
from evalcard.tasks.files.suggest import near

SETTINGS = {
    "category": "text: the heading of the card under which the task's score is averaged",
    "chance": "a number from 0 to 1: the share of right answers that guessing gives",
    "judge": "text: what compares answers with golds instead of the file's filters and metrics, such as math",
    "id_field": "text: the column that names the items",
    "note": "text: printed with the plan",
}


def check_settings(where: str, settings: Any) -> None:
    """Raise UserError for unknown keys and values of the wrong kind. ``where``: the task, for the message."""
    if not isinstance(settings, Mapping):
        raise UserError(f"{where}: 'metadata: evalcard:' must hold keys such as category, chance; got {settings!r}.")
    for key, value in settings.items():
        if key not in SETTINGS:
            hint = near(str(key), SETTINGS) or f"; known: {', '.join(SETTINGS)}"
            raise UserError(f"{where}: unknown key {key!r} under 'metadata: evalcard:'{hint}.")
        if not _fits(key, value):
            raise UserError(f"{where}: 'metadata: evalcard: {key}:' must be {SETTINGS[key]}; got {value!r}.")


def _fits(key: str, value: Any) -> bool:
    if key == "chance":
        return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1
    return isinstance(value, str) and bool(value.strip())


def group_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """A group's ``metadata: evalcard:``, in the form in which it is handed down to its tasks; empty without one."""
    metadata = config.get("metadata")
    stated = metadata.get("evalcard") if isinstance(metadata, dict) else None
    return {"metadata": {"evalcard": stated}} if stated is not None else {}


def merged_metadata(under: Any, over: Any) -> dict[str, Any]:
    """Metadata key by key, and so the settings in it; ``over`` wins."""
    under, over = under if isinstance(under, dict) else {}, over if isinstance(over, dict) else {}
    merged = {**under, **over}
    settings = [one["evalcard"] for one in (under, over) if one.get("evalcard") is not None]
    if len(settings) == 2 and all(isinstance(one, dict) for one in settings):
        merged["evalcard"] = {**settings[0], **settings[1]}
    return merged
