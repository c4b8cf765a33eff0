"""Licence and languages of a card: as the user said, else as the baseline's own README.md states. Never guessed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evalcard.card.options import CardOptions
from evalcard.results.records import RunRecord


@dataclass(frozen=True, slots=True)
class Terms:
    """What may be done with a model, and what it speaks; None and empty where nobody says."""

    license: str | None = None
    name: str | None = None
    """With the licence ``other``."""
    link: str | None = None
    languages: tuple[str, ...] = ()
    is_stated: bool = False
    """Whether the licence is what lies beside the baseline's weights, and not what the user said."""


def terms_of(run: RunRecord, options: CardOptions, base_model: str | None) -> Terms:
    """What the base model's README.md states in words that the Hub does not know is left out."""
    from evalcard.card.check.lists import languages, licenses

    stated = (run.models[0].stated if run.models else None) or {}
    codes = tuple(options.language) or tuple(code for code in _listed(stated.get("language")) if code in languages())
    if options.license:
        return Terms(options.license, options.license_name, options.license_link, codes)
    known = stated.get("license")
    if not isinstance(known, str) or known not in licenses():
        return Terms(languages=codes)
    name, link = _word(stated, "license_name"), _link(_word(stated, "license_link"), base_model)
    if known != "other":
        return Terms(known, None, link, codes, is_stated=True)
    return Terms(known, name, link, codes, is_stated=True) if name and link else Terms(languages=codes)


def _link(stated: str | None, base_model: str | None) -> str | None:
    """A file beside the base model's card is not beside ours."""
    if stated is None or stated.startswith(("https://", "http://")):
        return stated
    return f"https://huggingface.co/{base_model}/blob/main/{stated}" if base_model else None


def _word(stated: Mapping[str, str | list[str]], key: str) -> str | None:
    value = stated.get(key)
    return value if isinstance(value, str) else None


def _listed(value: str | list[str] | None) -> Sequence[str]:
    return [value] if isinstance(value, str) else value or []
