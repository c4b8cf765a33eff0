"""What a user says of a card, held against what the Hub takes, before anything is written or sent."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evalcard.card.check.license import FILES, is_link, is_name
from evalcard.card.check.lists import languages, licenses, meant_language, nearest
from evalcard.card.check.names import fault_of_id

if TYPE_CHECKING:
    from evalcard.card.options import CardOptions

OTHER = "other"


def fault_of_ids(options: "CardOptions") -> str | None:
    """Of the two Hub ids."""
    for flag, value in (("--base-model", options.base_model), ("--repo", options.repo)):
        fault = fault_of_id(value, "model") if value else None
        if fault is None and value and "/" not in value and flag == "--repo":
            fault = f"{value!r} lacks its owner", "Write owner/name."
        if fault:
            return f"{flag}: {fault[0]}. {fault[1]}"
    return None


def fault_of_license(options: "CardOptions") -> str | None:
    """Of the three flags, which go together."""
    known, name, link = options.license, options.license_name, options.license_link
    if known and known not in licenses():
        near = nearest(known, licenses())
        advice = f"Did you mean {near}? " if near else ""
        return (
            f"--license: {known!r} is no licence that the Hub knows. {advice}It takes identifiers such as apache-2.0, "
            f"mit, llama3.1, gemma and cc-by-4.0; anything else is `{OTHER}` with --license-name and --license-link."
        )
    if known == OTHER and not (name and link):
        return (
            f"--license {OTHER} needs --license-name, an identifier of your own, and --license-link, which is "
            f"{', '.join(FILES)} or a URL."
        )
    if known != OTHER and name:
        return f"--license-name goes with --license {OTHER} only; the licence is {known or 'not given'}."
    if link and not is_link(link):
        return f"--license-link: {link!r} is neither {' nor '.join(FILES)} nor a URL. Give one of these."
    if name and not is_name(name):
        return f"--license-name: {name!r} is no identifier. Give one in lower case, such as my-license-1.0."
    return None


def fault_of_languages(given: Sequence[str]) -> str | None:
    """Of the codes."""
    for one in given:
        if one not in languages():
            meant = meant_language(one)
            advice = f"Did you mean {meant}?" if meant else "Give a code such as en, de or zh."
            return f"--language: {one!r} is no code of ISO 639-1, 639-2 or 639-3. {advice}"
    return None
