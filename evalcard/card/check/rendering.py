"""Does a run's card say what the run gives? Its own part is held against a fresh rendering of what is stored.

Compared are evalcard's section, its keys of the metadata, and the .eval_results that it wrote. What others wrote around
them is theirs.
"""

import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from evalcard.card.check.evalresults import FOLDER
from evalcard.card.check.frontmatter import Path as Place
from evalcard.card.check.frontmatter import dotted, read_front_matter
from evalcard.card.check.own import own_lines
from evalcard.card.check.problem import Problem, shown
from evalcard.card.check.prose import lines_of
from evalcard.card.section import OWN_KEYS, section_of
from evalcard.results.compared import Comparison
from evalcard.results.records import RunRecord

_BEFORE = 24
"""Characters that are shown before the first that differs."""
_NONE = object()
"""What is not there at all."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """What a run gives now."""

    folder: Path
    texts: Mapping[str, str]
    """Of each README.md and each of the .eval_results, by path below the folder."""

    @property
    def advice(self) -> str:
        return (
            f"`evalcard card {shlex.quote(str(self.folder))}` writes it anew; words of yours go into its --notes and "
            "other flags."
        )


def rendering_of(folder: Path, run: RunRecord, comparison: Comparison) -> Rendering:
    """With the options that are stored in the run's ``folder``. Raises what ``write_cards`` raises."""
    from evalcard.card.render import render_texts

    return Rendering(folder, render_texts(folder, run, comparison))


def check_rendering(
    rendering: Rendering, path: Path, text: str, files: Mapping[str, bytes], told: Collection[int] = ()
) -> list[Problem]:
    """The first place each of its metadata, its section and its results that are not what the run gives.

    path: of the card; text: what it holds; files: what lies beside it, by path relative to it; told: lines of which an
    error was told already.
    """
    place = path.parent.relative_to(rendering.folder).as_posix()
    below = "" if place == "." else f"{place}/"
    fresh = rendering.texts.get(f"{below}{path.name}")
    if fresh is None:
        return [Problem(None, path.name, "the run gives no such card", rendering.advice, "error")]
    results = {
        key.removeprefix(below): one for key, one in rendering.texts.items() if key.startswith(f"{below}{FOLDER}/")
    }
    found = (
        *_first(_keys(text, fresh, rendering.advice), told),
        *_first(_lines(text, fresh, rendering.advice), told),
        *_results(files, results, rendering.advice),
    )
    return list(found)


def _first(problems: Iterator[Problem], told: Collection[int]) -> Iterator[Problem]:
    found = next((one for one in problems if one.line is None or one.line not in told), None)
    if found is not None:
        yield found


def _keys(text: str, fresh: str, advice: str) -> Iterator[Problem]:
    """Values of evalcard's own keys; what cannot be read is an error of its own."""
    there, ours = read_front_matter(text), read_front_matter(fresh)
    if there.data is None and any(one.level == "error" for one in there.problems):
        return
    found, given = there.data or {}, ours.data or {}
    for key in OWN_KEYS:
        if key == "tags" and _holds(found.get(key), given.get(key)):
            continue
        for place, one, other in _differences((key,), found.get(key, _NONE), given.get(key, _NONE)):
            yield Problem(there.line(*place), dotted(*place), _said(one, other), advice, "error")


def _holds(tags: Any, ours: Any) -> bool:
    """Whether all of our tags are among them; others may be anybody's."""
    return isinstance(tags, list) and all(tag in tags for tag in ours or ())


def _differences(place: Place, one: Any, other: Any) -> Iterator[tuple[Place, Any, Any]]:
    """(place, what is there, what the run gives) of values that YAML gave; types count, as true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            yield from _differences((*place, key), one.get(key, _NONE), other.get(key, _NONE))
    elif isinstance(one, list) and isinstance(other, list):
        for number, (first, second) in enumerate(zip_longest(one, other, fillvalue=_NONE)):
            yield from _differences((*place, number), first, second)
    elif type(one) is not type(other) or one != other:
        yield place, one, other


def _said(one: Any, other: Any) -> str:
    there = "it is missing" if one is _NONE else f"it is {shown(one)}"
    return f"{there}, and the run gives {'none' if other is _NONE else shown(other)}"


def _lines(text: str, fresh: str, advice: str) -> Iterator[Problem]:
    """Lines of evalcard's section, or of all below the metadata where the run's page has no marks."""
    if section_of(fresh) is not None:
        if section_of(text) is None:
            return  # an error of its own: a mark is missing, or there twice
        there, ours = own_lines(text), own_lines(fresh)
    else:
        there, ours = _body(text), _body(fresh)
    # As the marks are found; a carriage return alone ends no line of ours.
    lines, given = text.split("\n"), fresh.split("\n")
    for number, other in zip_longest(there, ours):
        # Blanks at the end of a line, and line breaks, are a matter of who saved it.
        one = lines[number - 1].rstrip() if number is not None else None
        expected = given[other - 1].rstrip() if other is not None else None
        if (one or "") != (expected or ""):
            yield Problem(number or len(lines), "text", _line_said(one, expected), advice, "error")


def _body(text: str) -> range:
    return range(read_front_matter(text).body_line, len(lines_of(text)) + 1)


def _line_said(one: str | None, other: str | None) -> str:
    """Both from shortly before where they part, as lines may be long."""
    one, other = _plain(one, other), _plain(other, one)
    pairs = zip(one or "", other or "", strict=False)
    alike = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one or ""), len(other or "")))
    start = max(0, alike - _BEFORE)
    there = f"it says {_from(one, start)}" if one else "a line is missing" if one is None else "it is empty"
    return f"{there}, and the run gives {_from(other, start) if other else 'none'}"


def _plain(line: str | None, beside: str | None) -> str | None:
    """Blanks that do not break as blanks, where that is not all that differs."""
    spaced = line and line.replace("\xa0", " ")
    return line if spaced == (beside and beside.replace("\xa0", " ")) else spaced


def _from(line: str | None, start: int) -> str:
    return shown(f"{'...' if start else ''}{(line or '')[start:]}")


def _results(files: Mapping[str, bytes], ours: Mapping[str, str], advice: str) -> Iterator[Problem]:
    """Results files at paths of ours, and others that say evalcard wrote them; one that is gone states nothing."""
    from evalcard.card.evalresults import WRITTEN_BY

    for path, content in sorted(files.items()):
        if not path.startswith(f"{FOLDER}/"):
            continue
        if path not in ours:
            if content.startswith(WRITTEN_BY.encode()):
                yield Problem(None, path, "the run gives no such results", advice, "error")
            continue
        lines, given = content.decode("utf-8", "replace").splitlines(), ours[path].splitlines()
        for number, (one, other) in enumerate(zip_longest(lines, given), 1):
            if one != other:
                yield Problem(None, f"{path}, line {number}", _line_said(one, other), advice, "error")
                break
