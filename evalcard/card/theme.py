"""Colours of the figures, for light pages and for dark ones.

Every figure has a ground of its own, so that it can be read on a page of the other kind too. Most hues are those of
Okabe and Ito's palette (Color Universal Design, 2008), which all common kinds of colour blindness tell apart; on the
dark ground the lighter ones of it. No colour stands alone: shapes, sides and words say the same.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours as #rrggbb. Text has a contrast with the ground of 4.5 at least, marks have 3 (WCAG 1.4.3 and 1.4.11)."""

    name: str
    ground: str
    text: str
    muted: str
    """Of text that matters less, and of lines to measure by."""
    grid: str
    """Faint on purpose: what it shows the labels say too."""
    baseline: str
    compressed: str
    lost: str
    gained: str
    limit: str


LIGHT = Theme(
    name="light",
    ground="#ffffff",
    text="#1f2328",
    muted="#59636e",
    grid="#d9dde2",
    baseline="#0072b2",
    compressed="#d55e00",
    lost="#d55e00",
    gained="#0072b2",
    limit="#7b3f7d",
)
DARK = Theme(
    name="dark",
    ground="#0d1117",
    text="#e6edf3",
    muted="#9aa4af",
    grid="#2b323b",
    baseline="#56b4e9",
    compressed="#e69f00",
    lost="#e69f00",
    gained="#56b4e9",
    limit="#e3a6c8",
)
"""On GitHub's dark page; the Hub's is nearly as dark."""
