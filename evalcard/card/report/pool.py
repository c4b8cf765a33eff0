"""Strings stored once and parted into blocks, and JSON that can stand inside an HTML page whatever is in it."""

import base64
import gzip
import json
from collections.abc import Iterable, Sequence
from typing import Any

from evalcard.results.files import encode

BLOCK_CHARS = 1 << 19
"""A block is closed once it is as long: a reader's browser unpacks one at a time."""
PACK_FROM = 1 << 18
"""Characters of JSON from which a page is packed: smaller ones can be read as they are, with any text editor."""
_ESCAPES = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}


class Pool:
    """Numbers strings in the order of their first use; equal ones are stored once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def add(self, text: str | None) -> int | None:
        """The string's number; None has none."""
        return None if text is None else self._numbers.setdefault(text, len(self._numbers))

    def __len__(self) -> int:
        return len(self._numbers)

    def blocks(self, num_chars: int = BLOCK_CHARS) -> list[list[str]]:
        """All strings in the order of their numbers; each block but the last has ``num_chars`` characters or more."""
        found: list[list[str]] = []
        room = 0
        for text in self._numbers:
            if room <= 0:
                found.append([])
                room = num_chars
            found[-1].append(text)
            room -= len(text)
        return found


def starts_of(blocks: Iterable[list[str]]) -> list[int]:
    """Number of the first string of each block."""
    found, start = [], 0
    for block in blocks:
        found.append(start)
        start += len(block)
    return found


def plain_json(data: Any) -> str:
    """JSON in ASCII that ends no script element and starts no markup: ``<``, ``>`` and ``&`` are escapes, as is all
    that is not ASCII (U+2028 and lone surrogates as well)."""
    return json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)


def packed_json(data: Any) -> str:
    """The same data as a JSON string: base64 of gzip of JSON; equal data give equal text."""
    return f'"{base64.b64encode(gzip.compress(encode(data), 9, mtime=0)).decode("ascii")}"'


def embedded(parts: Sequence[Any]) -> list[str]:
    """Each part as the text of a JSON script element: plain while the whole is small, else packed."""
    plain: list[str] = []
    size = 0
    for part in parts:
        plain.append(plain_json(part))
        size += len(plain[-1])
        if size >= PACK_FROM:
            return [packed_json(one) for one in parts]
    return plain
