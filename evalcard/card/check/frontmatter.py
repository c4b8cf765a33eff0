"""The front matter of a card: found as the Hub finds it, read as YAML, with the line of every key."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evalcard.card.check.problem import Problem

if TYPE_CHECKING:
    import yaml

Path = tuple[str | int, ...]

# The block is what this pattern of the Hub's server and client finds: after blank space at most, three hyphens alone.
_BLOCK = re.compile(r"^(\s*---(?:\r\n|\r|\n))([\S\s]*?)((?:\r\n|\r|\n)---[ \t]*(?:\r\n|\n|$))")
_LINE_END = re.compile(r"\r\n|\r|\n")
_FRONT = "front matter"
_ADD = "Begin the file with a line `---`, the metadata as YAML, and another line `---`."


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """A card's metadata and where its parts are written."""

    data: dict[str, Any] | None
    """None where there is none that can be read; the problems say why."""
    body_line: int
    """Line of the card, from 1, on which the body begins."""
    problems: tuple[Problem, ...] = ()
    lines: dict[Path, int] = field(default_factory=dict)
    """Line of the card of each key and each item."""

    def line(self, *path: str | int) -> int | None:
        """Of a key, or of the nearest one above it that is there."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)


def read_front_matter(text: str) -> FrontMatter:
    """Find and read the front matter of a card. Never raises for what a text holds."""
    problems: list[Problem] = []
    if text.startswith("\ufeff"):
        problems.append(
            Problem(1, _FRONT, "a byte order mark stands before it, and some readers then find no metadata",
                    "Save the file as UTF-8 without one.", "warning")
        )  # fmt: skip
        text = text[1:]
    found = _BLOCK.search(text)
    if found is None:
        return FrontMatter(None, 1, (*problems, _missing(text)))
    first = _count_lines(found[1])
    body_line = 1 + _count_lines(found[0])
    data, lines, faults = read_yaml(found[2], first)
    if data is None and not faults:
        faults = [Problem(first, _FRONT, "it is empty", "Give at least license and base_model.", "warning")]
    elif data is not None and not isinstance(data, dict):
        what = f"it is a {kind_of(data)}, not keys with values"
        faults = [*faults, Problem(first + 1, _FRONT, what, "Write one `key: value` a line.", "error")]
    return FrontMatter(data if isinstance(data, dict) else None, body_line, (*problems, *faults), lines)


def _missing(text: str) -> Problem:
    """Why the Hub finds nothing."""
    lines = _LINE_END.split(text)
    at = next((number for number, line in enumerate(lines[:60]) if line.strip() == "---"), None)
    closes = at is not None and any(line.rstrip() == "---" for line in lines[at + 1 :])
    if at is None:
        return Problem(None, _FRONT, "there is none", _ADD, "warning")
    if any(line.strip() for line in lines[:at]):
        if not any(re.match(r"[\w-]+:(\s|$)", line) for line in lines[at + 1 : at + 2]):
            return Problem(None, _FRONT, "there is none", _ADD, "warning")
        return Problem(at + 1, _FRONT, "something stands before it, so that the Hub takes it for text", _ADD, "error")
    if lines[at] != lines[at].rstrip():
        what = "blanks behind its first `---` hide it from the Hub"
        return Problem(at + 1, _FRONT, what, "Remove them.", "error")
    if not closes:
        return Problem(at + 1, _FRONT, "it is opened and never closed", "End it with a line `---`.", "error")
    return Problem(at + 1, _FRONT, "it is empty", "Give at least license and base_model.", "warning")


def read_yaml(text: str, lines_before: int, where: str = _FRONT) -> tuple[Any, dict[Path, int], list[Problem]]:
    """Data, the line of each part, and what is wrong; ``lines_before``: how many lines stand before ``text``.

    ``where`` names the file or the place. A key that is given twice is an error to the Hub's reader, though PyYAML
    keeps the last of them.
    """
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is None:
            return None, {}, []
        lines = {path: mark + lines_before + 1 for path, mark in _marks(node)}
        twice = [
            Problem(mark + lines_before + 1, dotted(*path), "the key is given twice", "Keep one of them.", "error")
            for path, mark in _twice(node)
        ]
        # Built from the text again: a loader that is handed a node is no public way.
        return yaml.safe_load(text), lines, twice
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        said = getattr(error, "problem", None) or str(error).splitlines()[0]
        line = mark.line + lines_before + 1 if mark is not None else None
        return None, {}, [Problem(line, where, f"it is no YAML that can be read: {said}", _quote_advice(said), "error")]
    except (ValueError, OverflowError) as error:
        return None, {}, [Problem(None, where, f"a value cannot be read: {error}", "Put it in quotes.", "error")]
    except RecursionError:
        return None, {}, [Problem(None, where, "it is nested too deeply", "Make it flat.", "error")]


def _quote_advice(said: str) -> str:
    if "tab" in said or "\\t" in said:
        return "Indent with blanks, not with tabs."
    return "Put text that holds any of `: # { } [ ] & * ! %` in quotes."


def _marks(root: "yaml.Node") -> Iterator[tuple[Path, int]]:
    for path, node in _nodes(root):
        yield path, node.start_mark.line


def _nodes(root: "yaml.Node") -> Iterator[tuple[Path, "yaml.Node"]]:
    """Every node once, with its key's mark for values of a mapping; an alias is not followed again."""
    import yaml

    left: list[tuple[Path, yaml.Node]] = [((), root)]
    seen: set[int] = set()
    while left:
        path, node = left.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode):
                    yield (*path, key.value), key
                    left.append(((*path, key.value), value))
        elif isinstance(node, yaml.SequenceNode):
            for number, value in enumerate(node.value):
                yield (*path, number), value
                left.append(((*path, number), value))


def _twice(root: "yaml.Node") -> Iterator[tuple[Path, int]]:
    seen: set[Path] = set()
    for path, node in _nodes(root):
        if path in seen:
            yield path, node.start_mark.line
        seen.add(path)


def dotted(*path: str | int) -> str:
    """The name of a place in the metadata, in the Hub's form: ``model-index[0].results``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _count_lines(text: str) -> int:
    return len(_LINE_END.findall(text))


def kind_of(value: Any) -> str:
    """The kind of a value in words."""
    return {list: "list", str: "text", bool: "truth value", int: "number", float: "number"}.get(type(value), "value")
