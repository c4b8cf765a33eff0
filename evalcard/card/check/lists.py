"""What the Hub knows: licences, languages, pipeline tags, libraries, benchmarks. Dated data files, no network.

The Hub's lists grow, so what is not here is told with the date of the list it was looked up in.
"""

import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

_DATA = Path(__file__).parent / "data"


@cache
def _read(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((_DATA / f"{name}.json").read_text(encoding="utf-8"))
    return data


def date_of(name: str) -> str:
    """When the list was taken down, as an ISO date."""
    return str(_read(name)["date"])


@cache
def licenses() -> frozenset[str]:
    """Identifiers that the Hub takes for ``license``."""
    return frozenset(_read("licenses")["identifiers"])


@cache
def pipeline_tags() -> frozenset[str]:
    """Tasks of the Hub."""
    return frozenset(_read("pipeline_tags")["identifiers"])


@cache
def libraries() -> frozenset[str]:
    """Libraries for which the Hub has a button, and those that many cards name without one."""
    data = _read("libraries")
    return frozenset(data["identifiers"]) | frozenset(data["in_use"])


@cache
def benchmarks() -> dict[str, tuple[str, ...]]:
    """Data sets registered as benchmarks, each with the task ids seen for it."""
    return {name: tuple(tasks) for name, tasks in _read("benchmarks")["benchmarks"].items()}


@cache
def languages() -> frozenset[str]:
    """Codes of ISO 639-1, 639-2 and 639-3, and the Hub's special words."""
    data = _read("languages")
    return frozenset(data["two_letters"]) | frozenset(data["three_letters"].split()) | frozenset(data["special"])


def meant_language(text: str) -> str | None:
    """The code that a country's code, a name, a regional tag or capitals probably stand for; None for no idea."""
    data = _read("languages")
    word = text.strip().lower().replace("_", "-")
    by_name = {name.lower(): code for code, name in data["two_letters"].items()}
    for one in (word, word.partition("-")[0]):
        found = data["slips"].get(one) or by_name.get(one) or (one if one in languages() else None)
        if found:
            return str(found)
    return None


def nearest(text: str, known: Iterable[str]) -> str:
    """The one of ``known`` that was most likely meant; empty where none is near. Case and separators do not count."""
    import difflib

    plain = {_plain(one): one for one in sorted(known)}
    word = _plain(text)
    if word in plain:
        return plain[word]
    found = difflib.get_close_matches(word, plain, n=1, cutoff=0.6)
    return plain[found[0]] if found else ""


def _plain(text: str) -> str:
    return re.sub(r"licen[cs]e|version|[^a-z0-9+]", "", text.lower())
