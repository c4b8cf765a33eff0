"""inspect_ai's log files: one JSON object, or a zip of JSON members (.eval) whose samples are read one by one.

Shapes as in inspect_ai 0.3 (log/_log.py, log/_recorders/eval.py). Newer logs are compressed with zstd, which Python's
zipfile reads from 3.14 on; here pyarrow does.
"""

import lzma
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evalcard.errors import UserError
from evalcard.results.imported.files import MAX_JSON, damaged, parse_object, read_json

_HEADER, _START, _SAMPLES = "header.json", "_journal/start.json", "samples/"
_ZSTD = 93
_SMALL, _MOST_TIMES = 1 << 26, 250
"""Bytes up to which a member may be packed as tightly as it likes, and how tightly beyond: text packs far less so."""
_LOCAL_HEADER = 30
"""Bytes of a member's own header before its name."""


def read_header(path: Path) -> dict[str, Any]:
    """The log without its samples. An archive that was never finished has its plan only and no results."""
    if not _is_archive(path):
        data = read_json(path)
        header = {key: value for key, value in data.items() if key != "samples"}
        return header | {"has_samples": bool(data.get("samples"))}
    with _open(path) as archive:
        names = set(archive.namelist())
        name = _HEADER if _HEADER in names else _START
        if name not in names:
            raise damaged(str(path), f"it has no {_HEADER}")
        has_samples = any(_is_sample(name) for name in names)
        return parse_object(_member(path, archive, name), f"{path}, {name},") | {"has_samples": has_samples}


def read_samples(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place for messages, sample), each sample once: an archive's later member of a name stands for earlier ones."""
    if not _is_archive(path):
        samples = read_json(path).get("samples")
        for number, sample in enumerate(samples if isinstance(samples, list) else (), start=1):
            place = f"{path}, sample {number},"
            if not isinstance(sample, dict):
                raise damaged(place, "it is no object")
            yield place, sample
        return
    with _open(path) as archive:
        for name in dict.fromkeys(name for name in archive.namelist() if _is_sample(name)):
            place = f"{path}, {name},"
            yield place, parse_object(_member(path, archive, name), place)


def _is_archive(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"PK\x03\x04"
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}.") from None


def _is_sample(name: str) -> bool:
    return name.startswith(_SAMPLES) and name.endswith(".json")


def _open(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError) as error:
        raise damaged(str(path), str(error)) from None


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> bytes:
    """A member's content, into memory and nowhere else; never more than it says, nor than the bound."""
    info, place = archive.getinfo(name), f"{path}, {name},"
    if info.file_size > MAX_JSON:
        raise UserError(f"{place} has more than {MAX_JSON >> 20} MiB, which is no sample that evalcard reads.")
    if info.file_size > _SMALL and info.file_size > _MOST_TIMES * max(info.compress_size, 1):
        raise damaged(
            place, f"it unpacks {info.compress_size} bytes to {info.file_size >> 20} MiB, which no sample does"
        )
    try:
        if info.compress_type == _ZSTD:
            return _unpack(path, info, place)
        with archive.open(info) as file:
            return file.read(MAX_JSON)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, RuntimeError, zlib.error, lzma.LZMAError) as error:
        raise damaged(place, _first_words(error)) from None


def _first_words(error: Exception) -> str:
    """zipfile's own texts show a member's whole record."""
    return "it is encrypted" if "encrypted" in str(error) else str(error)[:200]


def _unpack(path: Path, info: zipfile.ZipInfo, place: str) -> bytes:
    import pyarrow  # type: ignore[import-untyped]

    with open(path, "rb") as file:
        file.seek(info.header_offset)
        header = file.read(_LOCAL_HEADER)
        if header[:4] != b"PK\x03\x04" or len(header) < _LOCAL_HEADER:
            raise damaged(place, "its header is not where the archive says")
        file.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), 1)
        packed = file.read(info.compress_size)
    try:
        content = pyarrow.Codec("zstd").decompress(packed, decompressed_size=info.file_size, asbytes=True)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise damaged(place, str(error)) from None
    if zlib.crc32(content) != info.CRC:
        raise damaged(place, "its checksum is another one")
    return bytes(content)
