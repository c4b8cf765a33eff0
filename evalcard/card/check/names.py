"""Ids of the Hub: what is one, and what is a path, a link or prose instead."""

import re

from evalcard.card.check.problem import shown

_PART = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")
_LINK = re.compile(r"https?://(?:www\.)?(?:huggingface\.co|hf\.co)/(?:datasets/|models/)?([^/\s]+/[^/\s?#]+)/?$")
_MAX = 96


def is_hub_id(text: str) -> bool:
    """``name`` or ``owner/name`` as the Hub allows it: letters, digits, ``-_.``, 96 signs at most."""
    parts = text.split("/")
    if len(parts) > 2 or len(text) > _MAX or "--" in text or ".." in text or text.endswith(".git"):
        return False
    return all(_PART.fullmatch(part) for part in parts)


def is_path(text: str) -> bool:
    """Whether it can only be a place in a file system."""
    if "://" in text:
        return text.lower().startswith("file:")
    starts = ("/", "./", "../", "~", ".\\", "..\\")
    return (
        text.startswith(starts)
        or "\\" in text
        or text in (".", "..")
        or bool(re.match(r"[A-Za-z]:[/\\]", text))
        or (text.count("/") > 1)
    )


def id_of_link(text: str) -> str | None:
    """``owner/name`` out of a link to a page of the Hub."""
    found = _LINK.fullmatch(text.strip())
    return found[1] if found else None


def fault_of_id(text: str, kind: str) -> tuple[str, str] | None:
    """What is wrong with an id and what to do; None for a good one. ``kind``: ``model`` or ``data set``."""
    if is_path(text):
        return (
            f"{shown(text)} is a local path, and the Hub refuses it",
            f"Give the {kind}'s Hub id, owner/name, or leave the key out.",
        )
    linked = id_of_link(text)
    if linked:
        return f"it is a link, and the Hub takes ids: {shown(text)}", f"Write {linked}."
    if not is_hub_id(text):
        return f"{shown(text)} is no id of a {kind} on the Hub", "Write owner/name: letters, digits, `-`, `_` and `.`."
    return None
