"""The body of a card: headings, formulas, scripts, images, paths of the machine that measured."""

import re
from collections.abc import Collection, Mapping, Sequence

from evalcard.card.blocks import without_spans
from evalcard.card.check.images import check_images
from evalcard.card.check.localpaths import local_paths
from evalcard.card.check.problem import Problem, shown
from evalcard.card.check.prose import lines_of

_ACTIVE = re.compile(r"<\s*(script|iframe|object|embed|style|form)\b", re.IGNORECASE)
_HANDLER = re.compile(r"<[A-Za-z][^<>]*\s(on[a-z]+)\s*=|(?:href|src)\s*=\s*[\"']?\s*(javascript):", re.IGNORECASE)
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_NO_HEADING = re.compile(r"#{1,6}[A-Za-z]")
_HTML_HEADING = re.compile(r"<h([1-6])\b[^>]*>", re.IGNORECASE)
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")


def check_body(
    text: str, prose: Sequence[str], files: Mapping[str, bytes], own: range, told: Collection[int] = ()
) -> list[Problem]:
    """text: the whole card; prose: its lines without front matter, code and comments; own: lines that evalcard wrote,
    in which there is no path and no formula at all; told: lines of metadata of which something was said already."""
    problems = _formulas(prose, own) + _active(prose) + _headings(prose) + check_images(prose, files)
    # Code and metadata are searched too: commands hold most of the paths.
    for number, line in enumerate(lines_of(text), 1):
        for path in local_paths(line, number in own) if number not in told else ():
            what, advice = f"{shown(path)} is a path of one machine", "Cut it to its last part, or name the Hub id."
            problems.append(Problem(number, "text", what, advice, "error" if number in own else "warning"))
    return problems


def _formulas(prose: Sequence[str], own: range) -> list[Problem]:
    """The Hub looks for formulas before it looks for Markdown, so that two dollars take all up to the next two."""
    at = [number for number, line in enumerate(prose, 1) for _ in re.finditer(r"(?<!\\)\$\$", line)]
    ours = [number for number in at if number in own]
    advice = "Write it as `&#36;&#36;`, or end the formula."
    if ours:
        return [Problem(ours[0], "text", "`$$` begins a formula on the Hub", advice, "error")]
    if len(at) % 2:
        return [Problem(at[-1], "text", "`$$` begins a formula on the Hub, and nothing ends it", advice, "warning")]
    return []


def _active(prose: Sequence[str]) -> list[Problem]:
    problems = []
    for number, line in enumerate(map(without_spans, prose), 1):
        for found in (*_ACTIVE.finditer(line), *_HANDLER.finditer(line)):
            name = next(group for group in found.groups() if group).lower()
            what = f"raw HTML with {name!r}, which the Hub takes out and other pages may run"
            problems.append(Problem(number, "text", what, "Take it out, or write `<` as `&lt;`.", "error"))
    return problems


def _headings(prose: Sequence[str]) -> list[Problem]:
    problems, levels = [], []
    for number, (line, below) in enumerate(zip(prose, [*prose[1:], ""], strict=True), 1):
        found, marked, under = _HEADING.match(line), _HTML_HEADING.search(line), _UNDERLINE.match(below)
        if found:
            levels.append((number, len(found[1])))
            if not (found[2] or "").strip():
                problems.append(Problem(number, "heading", "it is empty", "Give it words, or remove it.", "warning"))
        elif marked:
            levels.append((number, int(marked[1])))
        elif under and line.strip() and not re.match(r" {0,3}([|>#]|[-*+] |\d+[.)] )| {4}|.*\|", line):
            levels.append((number, 1 if under[1][0] == "=" else 2))
        elif _NO_HEADING.match(line):
            what, advice = "no blank behind the hashes, so that it is shown as text", "Put one there."
            problems.append(Problem(number, "heading", what, advice, "warning"))
    return problems + _outline(levels)


def _outline(levels: Sequence[tuple[int, int]]) -> list[Problem]:
    firsts = [number for number, level in levels if level == 1]
    problems = []
    if not firsts:
        problems.append(Problem(None, "heading", "no title", "Begin with `# Name of the model`.", "warning"))
    for number in firsts[1:]:
        what, advice = f"a second title; the first is on line {firsts[0]}", "Use `##` for sections."
        problems.append(Problem(number, "heading", what, advice, "warning"))
    for (_, above), (number, level) in zip(levels, levels[1:], strict=False):
        if level > above + 1:
            what, advice = f"level {level} follows level {above}", "Leave no level out."
            problems.append(Problem(number, "heading", what, advice, "warning"))
    return problems
