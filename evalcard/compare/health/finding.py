"""How findings are put: their severities, and counts in words."""

from typing import Literal

Severity = Literal["note", "warning", "blocker"]
"""A blocker leaves nothing to judge; over a warning the gate does not say PASS; a note is worth knowing."""

WORST_FIRST: tuple[Severity, ...] = ("blocker", "warning", "note")


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} % ({part} of {whole})"
