"""What lies beside a card on disk, as far as a check looks at it: nothing else is opened, as weights lie there too."""

from pathlib import Path

from evalcard.card.check.evalresults import FOLDER
from evalcard.card.check.frontmatter import read_front_matter
from evalcard.card.check.images import image_sources, place_of
from evalcard.card.check.prose import prose_of
from evalcard.errors import UserError

_MAX_BYTES = 2**24
"""Of a card; the Hub's own limit lies below."""
_HEAD = 64
"""Bytes of an image that are read: enough to know its kind."""
_LICENSES = ("LICENSE", "LICENSE.md")


def read_card(path: Path) -> str:
    """A card's text, with its line ends and a byte order mark as they are. Raises UserError where it cannot be read."""
    try:
        if not path.is_file():
            raise UserError(f"{path} is no file. Give a run, a README.md or a folder with one.")
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise UserError(f"{path} has more than {_MAX_BYTES} bytes, which no card has. Give another file.")
        return content.decode("utf-8")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}. Give another file.") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is no UTF-8 at byte {error.start}, and the Hub takes no other. Save it so.") from None


def files_beside(path: Path, text: str) -> dict[str, bytes]:
    """For ``check_card``: images that the card names (their first bytes), ``.eval_results``, licence files, and itself.

    path: of the card; text: what it holds.
    """
    found = {path.name: b""}
    prose = prose_of(text, read_front_matter(text).body_line)
    for _, source, _ in image_sources(prose):
        place = place_of(source)
        if place is not None and not place.startswith(("/", "~", "..")) and _is_file(path.parent / place):
            found[place] = _head(path.parent / place)
    for name in _LICENSES:
        if _is_file(path.parent / name):
            found[name] = b""
    for file in _results(path.parent / FOLDER):
        found[f"{FOLDER}/{file.name}"] = _head(file, _MAX_BYTES)
    return found


def _results(folder: Path) -> list[Path]:
    try:
        return sorted(file for file in folder.iterdir() if file.suffix in (".yaml", ".yml") and file.is_file())
    except OSError:
        return []


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False  # a name that no file system takes


def _head(path: Path, most: int = _HEAD) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(most)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}. Change its permissions.") from None
