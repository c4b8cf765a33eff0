"""Small changes to YAML that somebody wrote: lines put in, a value replaced, everything else as it was."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

MOST_NODES = 100_000
"""Of a card's metadata; with aliases a few lines can stand for more than any memory holds."""


class Loader(yaml.SafeLoader):
    """Safe types, but a date stays the text that it is: one that no calendar has is no reason to refuse a card."""

    def construct_date_as_text(self, node: yaml.ScalarNode) -> str:
        return str(self.construct_scalar(node))


Loader.add_constructor("tag:yaml.org,2002:timestamp", Loader.construct_date_as_text)


@dataclass(frozen=True, slots=True)
class Edit:
    """``text`` in the place of the characters ``start`` to ``end`` of the YAML."""

    start: int
    end: int
    text: str


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """All of them at once; of several at one place the first given comes first. Raises ValueError where they overlap,
    as they do where an alias leads two keys to one value."""
    ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
    parts, at = [], 0
    for edit in ordered:
        if edit.start < at:
            raise ValueError(f"two changes meet at character {edit.start}")
        parts += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*parts, text[at:]])


def expanded_size(node: yaml.Node) -> int:
    """Nodes of a document once every alias is written out; more than MOST_NODES where it holds itself."""
    sizes: dict[int, int] = {}

    def size(one: yaml.Node) -> int:
        known = sizes.setdefault(id(one), -1)
        if known >= 0:
            return known
        if known == -1 and id(one) in open_nodes:
            return MOST_NODES + 1
        open_nodes.add(id(one))
        children = one.value if isinstance(one, yaml.CollectionNode) else ()
        flat = (part for child in children for part in (child if isinstance(child, tuple) else (child,)))
        sizes[id(one)] = 1 + sum(map(size, flat))
        open_nodes.discard(id(one))
        return sizes[id(one)]

    open_nodes: set[int] = set()
    return size(node)


def end_of(node: yaml.Node, text: str) -> int:
    """Where the last character of a value is left behind. PyYAML ends a block where the next one begins, after the
    comments and blank lines between them, which are not the value's."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return end_of(last[1] if isinstance(last, tuple) else last, text)
    end: int = node.end_mark.index
    while end > node.start_mark.index and text[end - 1] in "\r\n":
        end -= 1
    return end


def line_after(text: str, at: int) -> int:
    """Start of the line after the one that ``at`` is in, or the end of the text."""
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def dumped(value: Any, indent: int = 0) -> str:
    """YAML of a value, in lines of their own, each indented; ends with a line break."""
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=10_000)
    return "".join(f"{' ' * indent}{line}\n" for line in text.removesuffix("\n").split("\n"))


def inline(values: Sequence[Any]) -> str:
    """YAML of several values on one line with commas between, as a flow sequence holds them."""
    text = yaml.safe_dump(list(values), sort_keys=False, allow_unicode=True, width=10_000, default_flow_style=True)
    return text.strip()[1:-1]


def set_value(node: yaml.Node, value: Any, text: str) -> Edit:
    """Another value in the place of one, on its line; a comment behind it stays."""
    start, end = node.start_mark.index, end_of(node, text)
    gap = " " if start and text[start - 1] == ":" else ""
    return Edit(start, end, f"{gap}{inline([value])}")


def append_items(node: yaml.Node, items: Sequence[Any], text: str) -> Edit:
    """Items behind the last one of a sequence, in its own style and at its own depth."""
    assert items and isinstance(node, yaml.SequenceNode), node
    if node.flow_style or not node.value:
        # Before the bracket that closes it.
        end = end_of(node, text) - 1
        gap = ", " if node.value else ""
        return Edit(end, end, f"{gap}{inline(items)}")
    at = line_after(text, end_of(node.value[-1], text))
    lines = "".join(dumped([item], node.start_mark.column) for item in items)
    return Edit(at, at, lines if at == 0 or text[at - 1] == "\n" else f"\n{lines}")


def same(one: Any, other: Any) -> bool:
    """Whether two values that YAML gave are the same, types too (true is not 1) and in the same order."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) or (isinstance(one, float) and math.isnan(one) and math.isnan(other))
