"""The Hub, asked as little as can be: never when offline, once in a process whether it can be reached at all."""

import contextlib
import functools
import logging
import os
import re
import threading
from collections.abc import Iterator
from typing import Any

_SECONDS = 3.0
"""How long the Hub may take to answer at all; where it cannot be reached a request waits for ten times that."""
_OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")
_TOKEN = re.compile(r"\bhf_[A-Za-z0-9]{8,}")


def offline_by() -> str | None:
    """The environment variable by which the user forbids connections; None where they are allowed."""
    given = (name for name in _OFFLINE if os.environ.get(name, "").upper() in {"1", "TRUE", "YES", "ON"})
    return next(given, None)


@functools.lru_cache(maxsize=1)
def unreachable() -> str | None:
    """Why the Hub cannot be reached, None where it answers. Asked once in a process, for a few seconds at most; a Hub
    that does not answer is said at once, and later loads take the cache without waiting."""
    answer: list[str | None] = []
    # A name look-up has no time limit of its own, so the question waits in a thread that the process can leave behind.
    thread = threading.Thread(target=lambda: answer.append(_asked()), daemon=True)
    thread.start()
    thread.join(_SECONDS + 1)
    reason = answer[0] if answer else f"no answer within {_SECONDS:g} s"
    if reason is not None:
        logging.getLogger("evalcard").warning(
            "Hub not reachable (%s: %s); only its cache on this machine is looked into", _endpoint(), reason
        )
    return reason


def _endpoint() -> str:
    from huggingface_hub import constants

    return constants.ENDPOINT


def _asked() -> str | None:
    """Any response will do: proxies and certificates are those of the Hub's own client."""
    from huggingface_hub.utils import get_session

    try:
        get_session().head(_endpoint(), timeout=_SECONDS)
    except Exception as error:  # the client and what lies below it fail in many types
        return first_line(error)
    return None


@contextlib.contextmanager
def hub_or_cache() -> Iterator[None]:
    """Within the block ``datasets`` asks the Hub where that can be reached, and only looks into its cache where not."""
    with local_only() if offline_by() or unreachable() else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def local_only() -> Iterator[None]:
    """Within the block ``datasets`` makes no connection; it would even count the loads of local files somewhere.

    Of what it takes from its cache it would say two lines for every subset, so its warnings are left out; errors show.
    """
    import datasets
    from huggingface_hub import constants

    before, verbosity = (datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE), datasets.logging.get_verbosity()
    datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    datasets.logging.set_verbosity_error()
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before
        datasets.logging.set_verbosity(verbosity)


def is_asked_of_the_hub(path: str, options: Any) -> bool:
    """Whether ``datasets.load_dataset(path, **options)`` has to connect: not for folders and local files."""
    from datasets.packaged_modules import _PACKAGED_DATASETS_MODULES

    is_local = path in _PACKAGED_DATASETS_MODULES or os.path.isdir(path)
    return not is_local or "://" in str(options)


def why_missing(dataset_id: str, error: Exception) -> str:
    """Why the Hub gives no documents, in words a user can act on; a token in the Hub's text is left out."""
    page = f"https://huggingface.co/datasets/{dataset_id}"
    text = " ".join(str(part) for part in _chain(error))
    if name := offline_by():
        return f"the Hub was not asked ({name} is set)"
    if reason := unreachable():
        return f"the Hub cannot be reached ({reason})"
    if re.search(r"\bgated\b", text, re.IGNORECASE):
        return f"gated: accept terms at {page}, set HF_TOKEN (a read token from https://huggingface.co/settings/tokens)"
    said = f"the Hub said: {first_line(error)}"
    if "cannot be accessed" in text or "401" in text or "403" in text:
        return f"{said} If it is private or gated: accept terms at {page}, set HF_TOKEN."
    return said


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def first_line(error: Exception) -> str:
    """The first line of an error's text, or its type; without tokens."""
    line = (str(error) or type(error).__name__).strip().split("\n")[0][:300]
    return _TOKEN.sub("(token)", line)
