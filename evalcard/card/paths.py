"""A card is read elsewhere: folders of the machine that measured, and its URLs, do not belong on it."""

import re
from collections.abc import Collection, Sequence

from evalcard.card.escape import shell

_SEPARATORS = re.compile(r"([=,])")
_PATTERN = re.compile(r"[:=]regex=")
_HARNESS_TASK = re.compile(r"lm_eval/[\w.-]+")
_POSIX_PATH = re.compile(r"(?<![\w/.:~])~?(?:/[^\s/'\",;:()]+){2,}/?")
_WINDOWS_PATH = re.compile(r"(?<!\w)[A-Za-z]:\\[^\s'\",;()]+")
_PRINTING = frozenset({"-q", "--quiet", "--json"})
_FOLDER, _URL = "FOLDER", "URL"


def without_paths(text: str) -> str:
    """``text`` with every absolute path cut to its last part."""
    return _WINDOWS_PATH.sub(lambda match: _last_part(match[0]), _POSIX_PATH.sub(lambda m: _last_part(m[0]), text))


def measuring_command(command: Sequence[str]) -> list[str]:
    """Without the flags that only say what is printed: with them the same is measured, and less of it is seen."""
    return [word for word in command if word not in _PRINTING]


def portable_command(command: Sequence[str], hub_ids: Collection[str]) -> str:
    """A command line for a shell, options on lines of their own, each path cut to its last part.

    ``hub_ids`` are the names with a slash that stay as they are, with any revision or scheme behind them.
    """
    words = [shell([portable_word(word, hub_ids)]) for word in command]
    lines: list[str] = []
    for word in words:
        if word.startswith("--") and lines:
            lines.append(word)
        elif lines:
            lines[-1] += f" {word}"
        else:
            lines = [word]
    return " \\\n    ".join(lines)


def portable_word(word: str, hub_ids: Collection[str]) -> str:
    """One word of a command: a path in it is cut to its last part, a URL to that word."""
    match = _PATTERN.search(word)  # what a judge looks for is no path, whatever is in it
    end = match.start() if match else len(word)
    return _portable_word(word[:end], hub_ids) + word[end:]


def _portable_word(word: str, hub_ids: Collection[str]) -> str:
    if "://" in word:
        return re.sub(r"[^=,]*://.*", _URL, word)
    return "".join(_portable_part(part, hub_ids) for part in _SEPARATORS.split(word))


def _portable_part(part: str, hub_ids: Collection[str]) -> str:
    named = any(part == hub_id or part.startswith((f"{hub_id}:", f"{hub_id}@")) for hub_id in hub_ids)
    if named or _HARNESS_TASK.fullmatch(part) or not re.search(r"[/\\]|^~", part):
        return part
    return _last_part(part)


def _last_part(path: str) -> str:
    parts = [part for part in re.split(r"[/\\]+", path) if part]
    return parts[-1] if parts and parts[-1] not in (".", "..", "~") else _FOLDER
