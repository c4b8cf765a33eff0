"""YAML that says exactly what it is expected to say: no unknown key, none given twice, every message with its place."""

import reprlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

from evalcard.errors import UserError
from evalcard.yamltext import read_yaml

T = TypeVar("T")


def shown(value: Any) -> str:
    """A value as a message can hold it: a few lines of YAML with aliases say more than fits into memory."""
    short = reprlib.Repr()
    short.maxlevel, short.maxstring, short.maxother, short.maxlong = 3, 80, 80, 40
    return short.repr(value)


@dataclass(frozen=True, slots=True)
class Place:
    """A part of a file that is being read."""

    path: Path
    where: str
    """Keys from the top, with dots; empty at the top."""
    data: Any

    def at(self, key: str) -> "Place":
        """Below this one; its data is taken where it is needed."""
        below = self.data.get(key) if isinstance(self.data, dict) else None
        return Place(self.path, f"{self.where}.{key}" if self.where else key, below)

    def mapping(self, key: str, known: Sequence[str] | None = None) -> "Place":
        """The mapping under ``key``, empty where it is not there; ``known`` are its keys, None allows any text."""
        below = self.at(key)
        data = self.data.get(key, {})
        if not isinstance(data, dict):
            raise below.error(f"is {shown(data)}; give a mapping")
        below.check_keys(data, known)
        return Place(below.path, below.where, data)

    def entries(self, key: str, known: Sequence[str]) -> list["Place"]:
        """The list of mappings under ``key``, empty where it is not there."""
        data = self.data.get(key, [])
        if not isinstance(data, list) or not all(isinstance(one, dict) for one in data):
            raise self.at(key).error("must be a list of mappings")
        places = [Place(self.path, f"{self.where or ''}{key}[{number}]", one) for number, one in enumerate(data)]
        for place in places:
            place.check_keys(place.data, known)
        return places

    def check_keys(self, data: dict[Any, Any], known: Sequence[str] | None) -> None:
        unknown = [key for key in data if not isinstance(key, str) or (known is not None and key not in known)]
        if unknown:
            allowed = f"Known keys: {', '.join(known)}" if known is not None else "Put it in quotes to make it text"
            raise self.error(
                f"has the key {shown(unknown[0])}, which is {'unknown' if known else 'no text'}. {allowed}"
            )

    def number(self, key: str, default: float) -> float:
        return self.at(key).as_number(self.data[key]) if key in self.data else default

    def as_number(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(f"is {shown(value)}; give a number")
        try:
            return float(value)
        except OverflowError:
            raise self.error("is a number beyond all bounds") from None

    def text(self, key: str) -> str:
        """YAML reads a bare date as one; that is text too."""
        value = self.data.get(key)
        if isinstance(value, date):
            return value.isoformat()
        if not isinstance(value, str):
            raise self.at(key).error(f"is {shown(value)}; give text")
        return value

    def text_or_none(self, key: str) -> str | None:
        return None if self.data.get(key) is None else self.text(key)

    def made(self, make: Callable[[], T]) -> T:
        """``make()``, its UserError with this place before it."""
        try:
            return make()
        except UserError as error:
            raise UserError(f"{self.path}: {self.where or 'at the top'}: {error}") from None

    def error(self, said: str) -> UserError:
        return UserError(f"the gate file {self.path} is not right: {self.where or 'its top'} {said}.")


def read_mapping(path: Path, known: Sequence[str]) -> Place:
    """The top of a YAML file, with none but the known keys."""
    data = read_yaml(path, "the gate file", "Give a YAML file of limits.")
    top = Place(path, "", data)
    if data is None:
        raise UserError(f"the gate file {path} is empty. Give it a limit, such as `min_recovery: 99`.")
    if not isinstance(data, dict):
        raise top.error(f"holds {type(data).__name__}; give keys such as min_recovery: 99")
    top.check_keys(data, known)
    return top
