"""Whole files written in one step, records as JSON, and file names made from task names."""

import contextlib
import glob
import hashlib
import json
import math
import os
import re
import secrets
import time
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from evalcard.errors import UserError
from evalcard.results.records import SCHEMA, Record

R = TypeVar("R", bound=Record)

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME = 120
_TEMPORARY = re.compile(r"\..{1,40}\.(?:[0-9]+|[0-9a-f]{12})\.tmp", re.DOTALL)
"""The second part is a process id where an older evalcard wrote it."""
_LEFT_AFTER = 3600.0
"""Seconds: nobody takes so long to write one file."""
_WINDOWS_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))}


def safe_name(name: str) -> str:
    """A file name for a task or slug; names that had to change get 8 hex of their sha256, so none can meet."""
    safe = _UNSAFE.sub("-", name).strip(".-")[:_MAX_NAME]
    if safe and safe == name and safe.split(".")[0].lower() not in _WINDOWS_DEVICES:
        return safe
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{safe}-{digest}" if safe else digest


def finite(value: Any) -> Any:
    """``value`` with every NaN and infinity replaced by None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def encode(data: Any, indent: int | None = None) -> bytes:
    """JSON in UTF-8. Text with a lone surrogate, which UTF-8 cannot hold, is written with escapes instead."""
    separators = (",", ": ") if indent else (",", ":")
    options: dict[str, Any] = {"indent": indent, "separators": separators}
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, **options)
    except ValueError:
        data = finite(data)
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, **options)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(data, ensure_ascii=True, **options).encode("ascii")


def encode_record(record: Record, indent: int | None = None) -> bytes:
    """A record as JSON, with ``schema`` under its stored name."""
    return encode(record.model_dump(by_alias=True), indent)


def decode_record(text: bytes, kind: type[R], where: str, advice: str) -> R:
    """Parse and check one record.

    Raises UserError naming ``where`` for text that is no such record, or that a newer evalcard wrote.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise UserError(f"{where} is damaged: {error}. {advice}") from None
    except RecursionError:
        raise UserError(f"{where} is damaged: it is nested too deeply. {advice}") from None
    version = data.get("schema") if isinstance(data, dict) else None
    if isinstance(version, int) and version > SCHEMA:
        raise UserError(
            f"{where} has schema {version}, but this evalcard knows schemas up to {SCHEMA}. "
            "Use the newer evalcard that wrote it."
        )
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(str(part) for part in fault["loc"]) or "the whole"
        raise UserError(f"{where} is not a {kind.__name__}: {place}: {fault['msg']}. {advice}") from None


def read_record(path: Path, kind: type[R], advice: str) -> R:
    """Read one record from a file of its own."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error, advice) from None
    return decode_record(text, kind, str(path), advice)


def unreadable(path: Path, error: OSError, advice: str) -> UserError:
    """What is to be raised where ``path`` cannot be read. ``advice`` is how to get what is not there; what is there,
    and may not be read, need not be made again."""
    if isinstance(error, PermissionError):
        advice = "Make it readable, then give the same command again."
    return UserError(f"cannot read {path}: {error.strerror or error}. {advice}")


def is_file(path: Path) -> bool:
    """Whether a file is there; no path of a user's is too long or too entangled to ask about."""
    try:
        return path.is_file()
    except OSError:
        return False


def exists(path: Path) -> bool:
    """Likewise."""
    try:
        return path.exists()
    except OSError:
        return False


def is_temporary(path: Path) -> bool:
    """Whether it is, by its name, a file that ``write_whole`` was writing when it was killed."""
    return _TEMPORARY.fullmatch(path.name) is not None


def write_whole(path: Path, content: bytes) -> None:
    """Replace ``path`` in one step: whoever reads it sees the old content or the new, also after a crash.

    What an earlier writer of ``path`` left when it was killed, an hour ago or more, is removed.
    """
    # Cut, so that a name may be as long as the file system allows; by chance, as containers that share a folder may
    # give their processes the same number.
    temporary = path.with_name(f".{path.name[:40]}.{secrets.token_hex(6)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_left(path)
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):  # what kept it from being written may keep it from being removed
            temporary.unlink(missing_ok=True)
        raise UserError(
            f"cannot write {path}: {error.strerror or error}. What was there before is unchanged. "
            "Free space or change the permissions, then give the same command again."
        ) from None


def _remove_left(path: Path) -> None:
    """Temporary files of writers that were killed. By age, as one on another machine may write at this moment."""
    for left in path.parent.glob(f".{glob.escape(path.name[:40])}.*.tmp"):
        with contextlib.suppress(OSError):  # another process was quicker, or it is not ours to remove
            if is_temporary(left) and time.time() - left.stat().st_mtime > _LEFT_AFTER:
                left.unlink()


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable; Windows cannot open folders and needs no such step."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
