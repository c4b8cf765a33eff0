"""``language`` of a card: codes of ISO 639, and the traps that YAML lays for them."""

from typing import Any

from evalcard.card.check.faults import MISSING, Faults
from evalcard.card.check.frontmatter import Path, kind_of
from evalcard.card.check.lists import languages, meant_language
from evalcard.card.check.problem import shown

_NO = 'In quotes, as "no": without them YAML 1.1 reads the code of Norwegian as false.'


def check_languages(faults: Faults, value: Any) -> None:
    """One code or a list of them."""
    if value is MISSING or value is None:
        return
    if value == []:
        faults.array(("language",), value)
    many = value if isinstance(value, list) else [value]
    for number, one in enumerate(many):
        _check_one(faults, ("language", number) if isinstance(value, list) else ("language",), one)


def _check_one(faults: Faults, path: Path, value: Any) -> None:
    if value is False:
        faults.add(path, "it is read as false, not as a language", f"Write Norwegian in quotes. {_NO}")
    elif not isinstance(value, str):
        if value is not None:
            faults.add(path, f"it must be text and is the {kind_of(value)} {shown(value)}", "Give a code of ISO 639.")
    elif value not in languages():
        faults.add(path, f"{shown(value)} is no code of ISO 639-1, 639-2 or 639-3", _advice(value))


def _advice(text: str) -> str:
    code = meant_language(text)
    if code is None:
        return "Give a code such as en, or `multilingual` or `code`; leave the key out where it is not known."
    quoted = '"no", in quotes' if code == "no" else code
    is_tag = "-" in text.strip("-") or "_" in text.strip("_")
    return f"Write {quoted}{f', and {text} under language_bcp47' if is_tag else ''}."
