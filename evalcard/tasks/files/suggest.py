"""Near matches for what was probably a slip of the finger."""

import difflib
from collections.abc import Iterable


def near(name: str, known: Iterable[str]) -> str:
    """`` (did you mean a or b?)`` with the nearest of the known names; empty where none is near."""
    found = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.6)
    return f" (did you mean {' or '.join(found)}?)" if found else ""
