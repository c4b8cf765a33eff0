"""Images of a card: are they there, do they show on the Hub, is there a text for who cannot see them?"""

import html
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import unquote

from evalcard.card.blocks import without_spans
from evalcard.card.check.problem import Level, Problem

_MARKDOWN = re.compile(r"!\[((?:[^\[\]\\]|\\.|\[[^\]]*\])*)\](?:\(\s*(<[^>]*>|[^\s)]+)[^)]*\)|\[([^\]]*)\])")
_TAG = re.compile(r"<img\b[^<>]*>", re.IGNORECASE)
_DEFINITION = re.compile(r" {0,3}\[([^\]]+)\]:\s*(<[^>]*>|\S+)")
_MOST = 5000
"""Characters of a line that are searched; no line of text is longer."""
_PNG = b"\x89PNG\r\n\x1a\n"
_ALT = "Say in words what it shows, for readers who cannot see it."


def image_sources(lines: Sequence[str]) -> Iterator[tuple[int, str, str | None]]:
    """(line from 1, source, alternative text or None) of every image in prose."""
    known = {found[1].lower(): found[2].strip("<>") for line in lines if (found := _DEFINITION.match(line))}
    for number, line in enumerate(map(without_spans, lines), 1):
        for found in _MARKDOWN.finditer(line[:_MOST]):
            source = found[2].strip("<>") if found[2] else known.get((found[3] or found[1]).lower())
            if source:
                yield number, source, found[1]
    text = "\n".join(map(without_spans, lines))
    for found in _TAG.finditer(text):
        source = attribute(found[0], "src")
        if source:
            yield text.count("\n", 0, found.start()) + 1, source, attribute(found[0], "alt")


def attribute(tag: str, name: str) -> str | None:
    """Of an HTML tag as it is written; None where it is not there."""
    found = re.search(rf"\b{name}\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>\"']+))", tag, re.IGNORECASE)
    return html.unescape(next(group for group in found.groups() if group is not None)) if found else None


def place_of(source: str) -> str | None:
    """Path relative to the card of a source that is a file beside it; None for one that lies elsewhere."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:|//", source):
        return None
    return posixpath.normpath(unquote(source.partition("#")[0].partition("?")[0]))


def check_images(lines: Sequence[str], files: Mapping[str, bytes]) -> list[Problem]:
    """``files``: what lies beside the card; where it is empty that is not known, and nothing is missing."""
    problems = []
    for line, source, alt in image_sources(lines):
        where = f"image {source:.80}"
        if not (alt or "").strip():
            problems.append(Problem(line, where, "it has no alternative text", _ALT, "warning"))
        fault = _fault(source, files)
        if fault:
            problems.append(Problem(line, where, *fault))
    return problems


def _fault(source: str, files: Mapping[str, bytes]) -> tuple[str, str, Level] | None:
    place = place_of(source)
    if place is None:
        if source.lower().startswith(("file:", "http:")) or re.match(r"[A-Za-z]:[\\/]", source):
            is_file = not source.lower().startswith("http:")
            what = (
                "it lies on one machine only" if is_file else "browsers do not load it into a page that came by https"
            )
            return what, "Put the file beside the card, or give an https address.", "error" if is_file else "warning"
        return _about_name(source)
    if place.startswith(("/", "~", "../")) or place == "..":
        return "it lies outside of the repository", "Put it beside the card and give the path from there.", "error"
    if files and place not in files:
        return "there is no such file beside the card", "Add it, or take the image out.", "error"
    content = files.get(place)
    if content is not None and place.lower().endswith(".png") and not content.startswith(_PNG):
        return "it is no PNG, though its name says so", "Make it again.", "error"
    return _about_name(place)


def _about_name(source: str) -> tuple[str, str, Level] | None:
    if source.partition("?")[0].partition("#")[0].lower().endswith(".svg"):
        return "the Hub does not show every SVG", "Give a PNG.", "warning"
    return None
