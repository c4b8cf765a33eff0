"""What would change in a repository: the README merged, the files that are new or others, and nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from evalcard.card.hub.local import LocalCard
from evalcard.card.hub.merge import README, merge
from evalcard.errors import UserError


@dataclass(frozen=True, slots=True)
class Change:
    """One file that the commit would add or replace."""

    path: str
    kind: Literal["new", "changed"]
    before: bytes | None
    after: bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """All of them; none where the repository says all of it already."""

    changes: tuple[Change, ...]
    same: tuple[str, ...]
    """Paths of the card that are there as they should be."""

    @property
    def readme(self) -> Change | None:
        return next((change for change in self.changes if change.path == README), None)


def make_plan(card: LocalCard, there: Mapping[str, bytes], *, overwrite: bool = False) -> Plan:
    """``there``: what the repository has at the paths of the card, by path.

    A figure is the same where it draws the same data, as its bytes carry versions of what drew it. Raises UserError
    where a file of the card's would replace one that evalcard did not make, unless ``overwrite`` allows it, and what
    ``merge`` raises.
    """
    foreign = [path for path, after in card.files.items() if path in there and not _is_ours(path, there[path], after)]
    if foreign and not overwrite:
        raise UserError(
            f"the repository has {', '.join(foreign)}, which evalcard did not make. Rename or remove what is there, or "
            "allow its replacement with --overwrite."
        )
    wanted = {README: merge(there.get(README), card.text), **card.files}
    changes, same = [], []
    for path, after in wanted.items():
        before = there.get(path)
        if before is not None and is_same(path, before, after):
            same.append(path)
        else:
            changes.append(Change(path, "new" if before is None else "changed", before, after))
    _check_merged(wanted[README])
    return Plan(tuple(changes), tuple(same))


def is_same(path: str, before: bytes, after: bytes) -> bool:
    """Whether nothing would be said by replacing one with the other."""
    if before == after:
        return True
    if not path.endswith(".png"):
        return False
    from evalcard.card.pngdata import data_digest

    return data_digest(before) is not None and data_digest(before) == data_digest(after)


def _is_ours(path: str, before: bytes, after: bytes) -> bool:
    from evalcard.card.evalresults import WRITTEN_BY
    from evalcard.card.pngdata import data_digest

    if before == after:
        return True
    if path.endswith(".png"):
        return data_digest(before) is not None
    # The Hub puts its token into what it verified.
    return before.startswith(WRITTEN_BY.encode()) and b"verifyToken" not in before


def _check_merged(readme: bytes) -> None:
    """The Hub refuses a commit by anything in the metadata, also by what was there before; told before it is asked."""
    from evalcard.card.check.check import check_card
    from evalcard.card.hub.frontmatter import parted

    try:
        text = readme.decode("utf-8")
    except UnicodeDecodeError as error:
        line = readme[: error.start].count(b"\n") + 1
        raise UserError(
            f"the README on the Hub is no UTF-8 (byte {error.start}, line {line}, as it would be), and its client "
            "sends nothing else. Save it there as UTF-8, then publish again."
        ) from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise UserError(
            f"line {line} of the README on the Hub, as it would be, holds a null byte, and the Hub takes no text with "
            "one. Remove it there, then publish again."
        )
    last = text[: len(text) - len(parted(text).body)].count("\n")
    found = [one for one in check_card(text) if one.level == "error" and one.line is not None and one.line <= last]
    if found:
        faults = [f"line {one.line}: {one.message}" for one in found]
        advice = "The Hub refuses every commit to such a README. Correct it there, then publish again."
        said = f"the metadata of the README, as it would be on the Hub, has errors: {' '.join(faults)} {advice}"
        raise UserError(said, faults=faults, advice=advice)
