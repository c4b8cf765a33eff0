"""Colours that can be read, also by those who see fewer of them."""

import itertools
from dataclasses import fields

import pytest

from evalcard.card.theme import DARK, LIGHT, Theme

PAGES = {"light": ["#ffffff"], "dark": ["#0d1117", "#0b0f19"]}
"""Grounds of GitHub's and the Hub's pages."""


def channels(colour: str) -> list[float]:
    """Linear light, by the transfer function of sRGB (IEC 61966-2-1)."""
    values = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    return [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in values]


def contrast(one: str, other: str) -> float:
    """Of WCAG: relative luminances, each with 0.05 of stray light."""
    lights = sorted(
        sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), channels(x), strict=True)) for x in (one, other)
    )
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def lab(light: list[float]) -> list[float]:
    """CIELAB of linear sRGB under D65."""
    matrix = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    xyz = [sum(m * c for m, c in zip(row, light, strict=True)) for row in matrix]
    x, y, z = (
        t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116
        for t in (value / white for value, white in zip(xyz, (0.9505, 1.0, 1.089), strict=True))
    )
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)]


BLIND = {
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
}
"""Machado, Oliveira and Fernandes 2009, severity 1, on linear sRGB."""


def distance(one: str, other: str, kind: str) -> float:
    """Delta E (1976) between two colours as they are seen with that kind of colour blindness."""
    seen = [
        lab([min(1.0, max(0.0, sum(m * c for m, c in zip(row, channels(x), strict=True)))) for row in BLIND[kind]])
        for x in (one, other)
    ]
    return sum((a - b) ** 2 for a, b in zip(*seen, strict=True)) ** 0.5


def test_the_measures_know_black_from_white_and_red_from_green():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert lab([1, 1, 1])[0] == pytest.approx(100, abs=0.01)
    assert distance("#c04040", "#608000", "deuteranopia") < 25 < distance("#0072b2", "#d55e00", "deuteranopia")


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_text_and_marks_stand_out_from_the_grounds(theme: Theme):
    for ground in [theme.ground, *PAGES[theme.name]]:
        for name in ("text", "muted"):
            assert contrast(getattr(theme, name), ground) >= 4.5, (name, ground)
        for name in ("baseline", "compressed", "lost", "gained", "limit"):
            assert contrast(getattr(theme, name), ground) >= 3, (name, ground)


@pytest.mark.parametrize("kind", BLIND)
@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_what_stands_side_by_side_is_told_apart(theme: Theme, kind: str):
    pairs = [("baseline", "compressed"), ("lost", "gained"), ("compressed", "limit")]
    for one, other in pairs:
        assert distance(getattr(theme, one), getattr(theme, other), kind) > 20, (one, other)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_every_colour_is_opaque(theme: Theme):
    colours = [getattr(theme, field.name) for field in fields(theme) if field.name != "name"]
    assert all(len(colour) == 7 and colour[0] == "#" for colour in colours)
    assert all(contrast(one, other) >= 1 for one, other in itertools.pairwise(colours))
