"""Collects what is wrong with one piece of YAML: each fault at its key, with the line on which that is written."""

import math
from collections.abc import Mapping
from typing import Any, TypeGuard

from evalcard.card.check.frontmatter import Path, dotted, kind_of
from evalcard.card.check.problem import Level, Problem, shown

MISSING = object()
"""Stands for a key that is not there, as None is one that is there and empty."""


class Faults:
    """Problems of one YAML text. The checks return what they looked at, or None where it cannot be used."""

    def __init__(self, lines: Mapping[Path, int], file: str | None = None) -> None:
        """lines: of each part. file: name of a file beside the card; its lines are told with its name."""
        self.problems: list[Problem] = []
        self._lines = lines
        self._file = file

    def add(self, path: Path, what: str, advice: str, level: Level = "error") -> None:
        """One fault of what stands at ``path``."""
        at = path
        while at and at not in self._lines:
            at = at[:-1]
        line, where = self._lines.get(at), dotted(*path)
        if self._file is not None:
            place = self._file if line is None else f"{self._file}, line {line}"
            line, where = None, f"{place}: {where}" if where else place
        self.problems.append(Problem(line, where or "front matter", what, advice, level))

    def text(self, path: Path, value: Any, need: bool = True, advice: str = "") -> str | None:
        """A text that is not empty; where ``need`` is not set it may be missing. Null is told elsewhere."""
        if value is MISSING or value is None:
            if need:
                self.add(path, "it is required and missing", advice or "Give it.")
            return None
        if isinstance(value, str):
            if value.strip():
                return value
            self.add(path, "it is empty", advice or "Give it, or leave the key out.")
            return None
        self.add(path, f"it must be text and is the {kind_of(value)} {shown(value)}", advice or "Put it in quotes.")
        return None

    def mapping(self, path: Path, value: Any, need: bool = True) -> Mapping[str, Any] | None:
        """Keys with values."""
        if isinstance(value, Mapping):
            return value
        if value is MISSING or value is None:
            if need:
                self.add(path, "it is required and missing", "Give it.")
        else:
            self.add(path, f"it must have keys and is a {kind_of(value)}", "Write `key: value` below it.")
        return None

    def array(self, path: Path, value: Any, need: bool = True) -> list[Any] | None:
        """A list with something in it."""
        if isinstance(value, list) and value:
            return value
        if value is MISSING or value is None:
            if need:
                self.add(path, "it is required and missing", "Give it.")
        elif value == []:
            self.add(path, "it is an empty list", "Leave the key out where there is nothing to say.")
        else:
            self.add(path, f"it must be an array and is a {kind_of(value)}", "Write its items with `- ` before each.")
        return None

    def number(self, path: Path, value: Any) -> float | None:
        """A finite number that is no text and no truth value."""
        if is_number(value) and math.isfinite(value):
            return float(value)
        if value is MISSING or value is None:
            self.add(
                path, "it is required and missing", "Give the score; leave the whole entry out where there is none."
            )
        elif isinstance(value, str):
            self.add(path, f"it must be a number and is the text {shown(value)}", "Write it without quotes and units.")
        else:
            self.add(
                path, f"it must be a finite number and is {shown(value)}", "Leave the entry out where there is none."
            )
        return None


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether it is a number; to Python truth values are some too."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def get(data: Mapping[str, Any], key: str) -> Any:
    """The value, or MISSING."""
    return data.get(key, MISSING)
