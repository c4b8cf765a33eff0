"""Folders of the machine that measured have no place on a card."""

import re

_URL = re.compile(r"(?i)\b(?!file:)[a-z][a-z0-9+.-]*://[^\s<>\"'`)\]]+")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_POSIX = re.compile(r"(?<![\w/.:~$}%)\]-])(?:~|file://)?(?:/[\w.@+,=-]+){2,}")
_WINDOWS = re.compile(r"(?<!\w)[A-Za-z]:\\{1,2}[\w.-]+(?:\\{1,2}[\w.-]+)+")
_ROOTS = re.compile(
    r"(?:home|Users|Volumes|root|mnt|media|data|scratch|tmp|var|srv|private|nfs|lustre|gpfs|fsx|cluster|projects?|ssd|"
    r"nvme|raid|storage|workspace|work|content|kaggle)"
)
"""First parts of paths that name a person, a cluster or a container; others may be a choice of words: km/h/day."""
_FINE = ("/root/.cache/", "/path/to/", "~/.cache/", "/data/models/your", "/your/")
"""What is written into commands for others to copy."""


def local_paths(line: str, is_own: bool) -> list[str]:
    """Absolute paths in one line. Where a card ``is_own``, written by evalcard, all of them; else those below folders
    that name a person or a machine."""
    text = _TAG.sub(lambda found: " " * len(found[0]), _URL.sub(lambda found: " " * len(found[0]), line))
    found = [match[0] for match in _POSIX.finditer(text) if not f"{match[0]}/".startswith(_FINE)]
    kept = [path for path in found if is_own or path.startswith(("~", "file:")) or _ROOTS.fullmatch(path.split("/")[1])]
    return kept + [match[0] for match in _WINDOWS.finditer(text)]
