"""The front matter of somebody's card: found as the Hub finds it, our keys set, every other character as it was."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml

from evalcard.card.hub.edits import (
    MOST_NODES,
    Edit,
    Loader,
    append_items,
    apply_edits,
    dumped,
    end_of,
    expanded_size,
    same,
    set_value,
)
from evalcard.card.hub.modelindex import index_edits, is_kept
from evalcard.card.section import OWN_KEYS
from evalcard.errors import UserError

_OPENING = re.compile(r"\ufeff?\s*---(?:\r\n|\r|\n)")
_CLOSING = re.compile(r"(?<=[\r\n])---[ \t]*(?:\r\n|\n|\Z)")
"""As huggingface_hub's card reader finds it; a byte order mark, and nothing between the two lines, are allowed too."""


@dataclass(frozen=True, slots=True)
class Card:
    """A README in three parts, which make it again when they are joined."""

    opening: str
    """Up to and with the line ``---``; empty where there is no front matter."""
    yaml: str
    """Whole lines, none or more."""
    closing: str
    """The line with the second ``---``."""
    body: str

    @property
    def text(self) -> str:
        return f"{self.opening}{self.yaml}{self.closing}{self.body}"

    @property
    def first_line(self) -> int:
        """Number of the line in the README that the YAML begins with."""
        return self.opening.count("\n") + 1


def parted(text: str) -> Card:
    """The README in its parts."""
    opening = _OPENING.match(text)
    closing = _CLOSING.search(text, opening.end()) if opening else None
    if opening is None or closing is None:
        return Card("", "", "", text)
    return Card(opening[0], text[opening.end() : closing.start()], closing[0], text[closing.end() :])


def line_break(text: str) -> str:
    """The one that most lines of a README end in, so that what is added in it changes nothing of the answer."""
    both = text.count("\r\n")
    return "\r\n" if 2 * both > text.count("\n") else "\n"


def set_keys(card: Card, ours: Mapping[str, Any]) -> Card:
    """The card with our values in its metadata; the very same where it says them already.

    A value that is there is replaced, of ``tags`` and ``model-index`` only what is ours; a key that we do not know
    the value of stays. Raises UserError with lines where the metadata cannot be changed without harm.
    """
    assert set(ours) <= set(OWN_KEYS), ours
    if not card.opening:
        mark = "\ufeff" if card.body.startswith("\ufeff") else ""
        front = _broken(f"---\n{dumped(dict(ours))}---\n\n", line_break(card.text))
        return parted(f"{mark}{front}{card.body.removeprefix(mark)}")
    root = _root(card)  # first: what is too large to be loaded is refused there
    before = _loaded(card)
    # Both may belong behind the last line: what is there is made longer before something new begins.
    ordered = sorted(ours, key=lambda key: key not in before)
    edits = [edit for key in ordered for edit in _edits(root, before, key, ours[key], card)]
    end = line_break(card.text)
    try:
        changed = apply_edits(card.yaml, [replace(edit, text=_broken(edit.text, end)) for edit in edits])
    except ValueError:
        raise UserError(_unchangeable(card)) from None
    new = replace(card, yaml=changed)
    if not _is_as_meant(new, before, ours):
        raise UserError(_unchangeable(card))
    return new


def _broken(text: str, end: str) -> str:
    return text.replace("\n", end)


def _root(card: Card) -> yaml.MappingNode | None:
    """The mapping's node, with marks; None where the metadata is empty."""
    try:
        root = yaml.compose(card.yaml, Loader=Loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise UserError(_unreadable(error, card)) from None
    if root is None:
        return None
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        raise UserError(_unchangeable(card))
    _check_twice(root, card)
    if expanded_size(root) > MOST_NODES:
        raise UserError(
            f"the metadata of the README on the Hub (from line {card.first_line}) stands for more than {MOST_NODES:,} "
            "values once its aliases are written out. Remove them there, then publish again."
        )
    return root


def _check_twice(root: yaml.MappingNode, card: Card) -> None:
    seen: dict[str, int] = {}
    for node, _ in root.value:
        line = node.start_mark.line + card.first_line
        if node.value in OWN_KEYS and node.value in seen:
            raise UserError(
                f"the README on the Hub has the key `{node.value}` twice, in lines {seen[node.value]} and {line}. "
                "Remove one of them there, then publish again."
            )
        seen[str(node.value)] = line


def _unreadable(error: Exception, card: Card) -> str:
    mark = getattr(error, "problem_mark", None)
    line = f", line {mark.line + card.first_line}," if mark else ""
    said = getattr(error, "problem", None) or getattr(error, "reason", None) or "it is damaged"
    return (
        f"the metadata of the README on the Hub{line} is no YAML: {said}. The Hub refuses every commit to it until "
        "that is mended: correct it there, then publish again."
    )


def _unchangeable(card: Card) -> str:
    return (
        f"the metadata of the README on the Hub (from line {card.first_line}) is written in a way that cannot be "
        "changed key by key. Write it there as plain `key: value` lines, then publish again."
    )


def _loaded(card: Card) -> dict[Any, Any]:
    try:
        return yaml.load(card.yaml, Loader=Loader) or {}  # noqa: S506 - a safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(_unreadable(error, card)) from None


def _edits(root: yaml.MappingNode | None, before: Mapping[Any, Any], key: str, value: Any, card: Card) -> list[Edit]:
    found = next((pair for pair in root.value if pair[0].value == key), None) if root else None
    if found is None:
        return [Edit(len(card.yaml), len(card.yaml), dumped({key: value}))]
    name, node = found
    if key == "model-index":
        return index_edits(node, before[key], value, card.yaml, card.first_line)
    if key == "tags" and isinstance(before[key], list):
        missing = [tag for tag in value if tag not in before[key]]
        return [append_items(node, missing, card.yaml)] if missing else []
    if key == "tags" and before[key] is not None:
        value = [before[key], *(tag for tag in value if tag != before[key])]
    if _alike(before[key], value):
        return []
    if isinstance(node, yaml.ScalarNode) and not isinstance(value, list | dict):
        return [set_value(node, value, card.yaml)]
    end = end_of(node, card.yaml)
    return [Edit(name.start_mark.index, end, dumped({key: value}).removesuffix("\n"))]


def _alike(there: Any, ours: Any) -> bool:
    """A list of one says what its item says."""
    return same(there, ours) or (isinstance(there, list) and len(there) == 1 and same(there[0], ours))


def _is_as_meant(new: Card, before: Mapping[Any, Any], ours: Mapping[str, Any]) -> bool:
    """The last word: what YAML reads in the new text is what was meant, and nothing of others went another way."""
    try:
        after = _loaded(new)
    except UserError:
        return False
    kept = {key: value for key, value in before.items() if key not in ours}
    still = {key: value for key, value in after.items() if key not in ours}
    plain = [key for key in ours if key not in ("tags", "model-index")]
    is_set = all(key in after for key in ours) and all(_alike(after[key], ours[key]) for key in plain)
    if not (is_set and same(kept, still) and parted(new.text).yaml == new.yaml):
        return False
    has_results = "model-index" not in ours or is_kept(
        before.get("model-index"), after["model-index"], ours["model-index"]
    )
    return has_results and all(tag in after["tags"] for tag in ours.get("tags", ()))
