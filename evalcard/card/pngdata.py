"""What a figure draws, as a digest inside its PNG: the same data drawn by another matplotlib has other bytes."""

import hashlib
import json
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import asdict, is_dataclass
from typing import Any

KEYWORD = "evalcard-data"
"""Of the tEXt chunk."""
DRAWING_VERSION = 1
"""Counts up when the same data are drawn in another way, so that published figures are replaced."""
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_DIGITS = 10
_DIGEST = re.compile(rb"[0-9a-f]{64}")


def digest_of(name: str, data: Any) -> str:
    """sha256, in hex, of the canonical JSON of ``data`` (dataclasses, sequences, numbers, words) under the figure's
    name and the drawing's version. Floats count to ten digits: sums may differ in the last ones between machines."""
    canonical = {"figure": name, "version": DRAWING_VERSION, "data": _plain(data)}
    text = json.dumps(canonical, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def data_digest(png: bytes) -> str | None:
    """The digest that evalcard wrote into a figure; None for any other file, and for one that is damaged or cut off."""
    try:
        chunks = dict(_texts(png))
    except (ValueError, struct.error):
        return None
    digest = chunks.get(KEYWORD.encode(), b"")
    return digest.decode() if _DIGEST.fullmatch(digest) else None


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def _texts(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """(keyword, text) of every tEXt chunk. Raises ValueError or struct.error for a file that is damaged or cut off."""
    if not png.startswith(_SIGNATURE):
        raise ValueError("no PNG")
    at = len(_SIGNATURE)
    while True:
        (length,) = struct.unpack_from(">I", png, at)
        kind, content = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        (checksum,) = struct.unpack_from(">I", png, at + 8 + length)
        if zlib.crc32(kind + content) != checksum:
            raise ValueError(f"the chunk at byte {at} is damaged")
        if kind == b"tEXt":
            keyword, _, text = content.partition(b"\0")
            yield keyword, text
        if kind == b"IEND":
            return
        at += 12 + length
