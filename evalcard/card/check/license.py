"""The licence of a card: an identifier of the Hub's list, and for ``other`` a name and a link."""

import re
from collections.abc import Mapping
from typing import Any

from evalcard.card.check.faults import MISSING, Faults, get
from evalcard.card.check.lists import date_of, licenses, nearest
from evalcard.card.check.problem import shown

FILES = ("LICENSE", "LICENSE.md")
"""What license_link may name beside the card; else it is a URL."""
_NAME = re.compile(r"[a-z0-9][a-z0-9.+-]*")


def is_name(text: str) -> bool:
    """Whether it can be a license_name."""
    return _NAME.fullmatch(text) is not None


def is_link(text: str) -> bool:
    """Whether it can be a license_link."""
    return text in FILES or re.fullmatch(r"https?://\S+", text) is not None


def check_license(faults: Faults, data: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    """``license``, ``license_name`` and ``license_link``; files: what lies beside the card, empty for not known."""
    value = get(data, "license")
    if value is MISSING:
        what, advice = "there is none, so that readers cannot know what they may do", "Give that of the base model."
        faults.add(("license",), what, advice, "warning")
    elif value is not None:
        _identifiers(faults, value)
    others = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    if "other" in others:
        _other(faults, data)
    elif get(data, "license_name") not in (MISSING, None):
        what = "it is shown with `license: other` only"
        faults.add(("license_name",), what, "Write `license: other`, or leave the name out.", "warning")
    _link(faults, get(data, "license_link"), files)


def _identifiers(faults: Faults, value: Any) -> None:
    many = value if isinstance(value, list) else [value]
    if value == []:
        faults.array(("license",), value)
    for number, one in enumerate(many):
        path = ("license", number) if isinstance(value, list) else ("license",)
        text = faults.text(path, one)
        if text and text not in licenses():
            known = nearest(text, licenses())
            advice = f"Write {known}" if known else "Write `other` with license_name and license_link"
            what = f"{shown(text)} is not one of the Hub's licences (list of {date_of('licenses')})"
            more = ", or `other` with license_name and license_link." if known else "."
            faults.add(path, what, advice + more)


def _other(faults: Faults, data: Mapping[str, Any]) -> None:
    advice = "Give an identifier in lower case, such as my-license-1.0."
    name = faults.text(("license_name",), get(data, "license_name"), advice=advice)
    if name and not is_name(name):
        faults.add(("license_name",), f"{shown(name)} is no identifier", advice, "warning")
    if get(data, "license_link") in (MISSING, None):
        advice = f"Give {' or '.join(FILES)}, with that file beside the card, or a URL."
        faults.add(("license_link",), "it is required with `license: other` and missing", advice)


def _link(faults: Faults, value: Any, files: Mapping[str, bytes]) -> None:
    text = faults.text(("license_link",), value, need=False)
    if text and not is_link(text):
        what = f"{shown(text)} is neither {' nor '.join(FILES)} nor a URL"
        faults.add(("license_link",), what, "Give one of these.")
    elif text in FILES and files and text not in files:
        what, advice = f"there is no {text} beside the card", "Add it, or give a URL."
        faults.add(("license_link",), what, advice, "warning")
