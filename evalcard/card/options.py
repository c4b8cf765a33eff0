"""What a user adds to a run's cards: licence, language, a template, notes. Kept in the run's card.json, so that whoever
renders the cards again gets the same."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pydantic import Field

from evalcard.errors import UserError
from evalcard.results.files import encode_record, is_file, read_record
from evalcard.results.lock import cards_lock
from evalcard.results.records import SCHEMA, Record

CARD_FILE = "card.json"
NOTES_FILE = "notes.md"
MARKER = re.compile(r"<!--\s*evalcard:")
"""What bounds evalcard's part of a card; no text that goes into it may hold it."""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""Values that a template prints are freed of them; what stands in the template itself goes to the card as it is."""
_MOST = 200_000
"""Characters of notes or of a template: the Hub shows no longer page."""


class CardOptions(Record):
    """card.json. What is None or empty was not said."""

    schema_version: int = Field(alias="schema", default=SCHEMA)
    base_model: str | None = None
    """Hub id of the model that was compressed."""
    repo: str | None = None
    """Hub id that the compressed model is, or will be, published as."""
    license: str | None = None
    license_name: str | None = None
    license_link: str | None = None
    language: list[str] = []
    template_name: str | None = None
    """File name of the user's template."""
    template: str | None = None
    """Its text, so that cards can be rendered again wherever the folder lies."""
    notes: str | None = None
    """Words of the user's own, as Markdown."""

    @property
    def own_templates(self) -> dict[str, str]:
        return {self.template_name: self.template} if self.template_name and self.template is not None else {}


class HasPath(Protocol):
    """A run's folder."""

    @property
    def path(self) -> Path: ...

    def write_bytes(self, relative: str, content: bytes) -> Path: ...


@dataclass(frozen=True, slots=True)
class Given:
    """What one command was given; None leaves as stored, an empty text forgets it."""

    template: Path | None = None
    notes: Path | None = None
    words: Mapping[str, str | None] | None = None
    """By field of CardOptions: base_model, repo, license, license_name, license_link."""
    language: tuple[str, ...] = ()


def read_options(folder: Path) -> CardOptions:
    """What is stored with a run; notes.md in its folder where none were given. Raises UserError for a damaged file."""
    path = folder / CARD_FILE
    stored = CardOptions()
    if is_file(path):
        stored = read_record(path, CardOptions, "Remove it, and give the flags of `evalcard card` again.")
        check_options(stored, str(path))
    return _with_notes(stored, folder)


@contextmanager
def store_options(folder: HasPath, given: Given) -> Iterator[CardOptions]:
    """Add what was given to what is stored, checked first; yields what is to be rendered with. It is kept once the
    block ends well, so that a template which cannot be rendered is not. Nobody else's words are added meanwhile, as one
    of the two would be lost."""
    with cards_lock(folder.path):
        before, after = _added(folder, given)
        noted = _with_notes(after, folder.path)
        if noted.notes != before.notes:
            _check_notes(noted.notes, "--notes" if given.notes is not None else str(folder.path / NOTES_FILE))
        yield noted
        if after != before:
            folder.write_bytes(CARD_FILE, encode_record(after, indent=1) + b"\n")


def _added(folder: HasPath, given: Given) -> tuple[CardOptions, CardOptions]:
    """What is stored, and that with what was given."""
    path = folder.path / CARD_FILE
    before = read_record(path, CardOptions, "Remove it first.") if is_file(path) else CardOptions()
    changes: dict[str, Any] = {key: value or None for key, value in (given.words or {}).items() if value is not None}
    if changes.get("license", "other") != "other":
        # A name and a link that were given for another licence do not go with this one.
        changes = {"license_name": None, "license_link": None} | changes
    if given.language:
        changes["language"] = [one for one in given.language if one]
    if given.template is not None:
        is_none = str(given.template) in ("", ".")
        changes["template"] = None if is_none else _template(given.template)
        changes["template_name"] = None if is_none else given.template.name
    if given.notes is not None:
        changes["notes"] = None if str(given.notes) in ("", ".") else read_text(given.notes, "--notes")
    after = before.model_copy(update=changes)
    check_options(after)
    return before, after


def _with_notes(options: CardOptions, folder: Path) -> CardOptions:
    """With the notes.md that lies in the folder, where no others were given."""
    if options.notes is not None or not is_file(folder / NOTES_FILE):
        return options
    noted = options.model_copy(update={"notes": read_text(folder / NOTES_FILE, NOTES_FILE)})
    check_options(noted, str(folder / NOTES_FILE))
    return noted


def check_options(options: CardOptions, where: str = "") -> None:
    """Raises UserError for what the Hub would refuse, or that a card cannot hold: what, allowed, next step."""
    from evalcard.card.hubwords import fault_of_ids, fault_of_languages, fault_of_license

    faults = [fault_of_ids(options), fault_of_license(options), fault_of_languages(options.language)]
    if options.notes is not None and MARKER.search(options.notes):
        faults.append("the notes hold `<!-- evalcard:`, which bounds evalcard's own part of a card. Take it out.")
    faults += [_open_in(options.notes), _unprintable(options.template)]
    fault = next((one for one in faults if one), None)
    if fault:
        raise UserError(f"{where}: {fault}" if where else fault)


def _open_in(notes: str | None) -> str | None:
    """What would swallow, or hide, all that a card says below the notes."""
    if notes is None:
        return None
    from evalcard.card.check.openmarkup import left_open

    found = left_open(notes)
    if found is None:
        return None
    line, what, end = found
    return (
        f"line {line} of the notes opens {what} which nothing closes, so that the card below them would be part of it. "
        f"Close it with {end}."
    )


def _unprintable(template: str | None) -> str | None:
    found = _CONTROL.search(template or "")
    if found is None:
        return None
    line = found.string.count("\n", 0, found.start()) + 1
    return (
        f"line {line} of the template holds the control character {found[0]!r}, which no page shows. Take it out; a "
        "template is a text file."
    )


def _check_notes(notes: str | None, where: str) -> None:
    """Raises UserError for what would make an error of every card with them."""
    from evalcard.card.check.notes import fault_of_notes

    fault = fault_of_notes(notes) if notes is not None else None
    if fault:
        raise UserError(f"{where}: {fault}")


def _template(path: Path) -> str:
    text = read_text(path, "--template")
    if not text.strip():
        raise UserError(f"--template: {path} is empty, and so would the card be. Give a template, or leave it out.")
    return text


def read_text(path: Path, flag: str) -> str:
    """A file of the user's; raises UserError naming the flag."""
    if path.expanduser().exists() and not path.expanduser().is_file():
        raise UserError(f"{flag}: {path} is no file. Give a text file.")
    try:
        text = path.expanduser().read_bytes().decode("utf-8").removeprefix("\ufeff")
    except OSError as error:
        raise UserError(f"{flag}: cannot read {path}: {error.strerror or error}. Give a text file.") from None
    except UnicodeDecodeError:
        raise UserError(f"{flag}: {path} is not text in UTF-8. Save it as that.") from None
    if len(text) > _MOST:
        raise UserError(f"{flag}: {path} has {len(text):,} characters, and a card takes {_MOST:,}. Shorten it.")
    return text.replace("\r\n", "\n").replace("\r", "\n")
